"""How long does a diagnosis of 10,000 groups take, and do heartbeats beside it wait?

    PYTHONPATH=src:tests python -m bench.diagnose_groups

A broker with 10,000 groups: half of them have a member and a committed offset, the others no members and ten
committed offsets each, at different places of logs with records. Heartbeats of all members are sent at fixed
instants, each timed from the instant at which it was due. In turn: nothing else happens; `klamm groups
diagnose --json` of all groups runs, a process of its own; and a program computes as long as that took, which
knows no broker. Where processors are few, the third shows what of the second is the machine's. The duration
is the whole command's, its start included. Each round is one sample of each figure.

On a machine that is shared these are mostly its scheduler's. The two figures of turns are not: the processor
time that a broker takes between two looks at its sockets, in this process, on asyncio's own loop; and what
one in a hundred requests, which come at any time, waits for such a turn to be over, if the diagnosis takes no
longer than its processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Final

import klamm
from bench.brokers import Klamm, cpu_s, klamm_python
from bench.group_load import Address, Crowd, frame, wait_for_coordinator
from bench.growth_load import one_after_the_other
from bench.report import Figure, Report
from bench.scheduled_load import Distribution, Schedule, no_garbage_collection
from interop.processes import ROOT
from klamm.broker import embedded
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LIVING, LEFT = "orders", "payments"  # topics of groups with members, and of those without
COMMITTED: Final = 10  # offsets of a group without members
RECORDS: Final = 1_000  # in each partition
BEHIND: Final = 100  # a group has that many records to read, or fewer
LANES: Final = 8
ALONE, BESIDE, COMPUTING = "alone", "diagnosis", "computing"

TOOK = Figure("the whole command", "s", more_is_better=False)
CLIENT_CPU = Figure("its processor time", "s", more_is_better=False)
BROKER_CPU = Figure("the broker's processor time for it", "s", more_is_better=False)
LONGEST_TURN = Figure("the broker's longest turn, asyncio's loop", "ms", more_is_better=False)
WAITED_FOR = Figure("1 % of requests wait for a turn that long", "ms", more_is_better=False)
MEDIAN = Figure("heartbeats, median", "ms", more_is_better=False)
P99 = Figure("heartbeats, 99 %", "ms", more_is_better=False)
MOST = Figure("heartbeats, longest", "ms", more_is_better=False)
SUBJECTS = {
    ALONE: "heartbeats only",
    BESIDE: "beside `klamm groups diagnose --json` of all groups",
    COMPUTING: "beside a program that computes for as long, and knows no broker",
}


def commit(group_id: str, topic: str, offsets: list[int], member_id: str, generation: int) -> bytes:
    asked = [OffsetCommitRequestPartition(number, offset, 0, "") for number, offset in enumerate(offsets)]
    request = OffsetCommitRequest(
        group_id, generation, member_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=asked)]
    )
    return frame(ApiKey.OFFSET_COMMIT, 9, request)


def populate(address: Address, count: int) -> list[bytes]:
    """Topics with records, and so many groups; a heartbeat of each member."""
    chance = Random(1)
    bootstrap = "{}:{}".format(*address)
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([klamm.NewTopic(LIVING, 1), klamm.NewTopic(LEFT, COMMITTED)]).unwrap()
    with klamm.Producer(bootstrap_servers=bootstrap) as producer:
        for topic, partitions in ((LIVING, 1), (LEFT, COMMITTED)):
            for at in range(RECORDS * partitions):
                producer.send(topic, b"%d" % at, partition=at % partitions)
        producer.flush(60)
    wait_for_coordinator(address, ["any"])
    crowd = Crowd(address, 1)
    beats: list[bytes] = []
    commits: list[bytes] = []
    for number in range(count // 2):
        group = crowd.settle(f"living-{number:05}", 1)
        beats += group.heartbeats()
        offset = RECORDS - chance.randrange(BEHIND)
        commits.append(commit(group.group_id, LIVING, [offset], group.member_ids[0], group.generation))
        offsets = [RECORDS - chance.randrange(BEHIND) for _ in range(COMMITTED)]
        commits.append(commit(f"left-{number:05}", LEFT, offsets, "", -1))
    crowd.close()
    one_after_the_other(address, commits)
    chance.shuffle(beats)
    return beats


def diagnosis(bootstrap: str) -> subprocess.Popen[bytes]:
    command = [klamm_python(), "-m", "klamm.cli", "groups", "diagnose", "--json", "-b", bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def measure(report: Report, folder: Path, groups: int, per_second: int, rounds: int) -> None:
    broker = Klamm(folder, {"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    try:
        address = ("127.0.0.1", broker.port)
        beats = populate(address, groups)
        schedule = Schedule(address, [beats[lane::LANES] for lane in range(LANES)], per_second)
        bootstrap = f"127.0.0.1:{broker.port}"
        verdicts = checked(diagnosis(bootstrap), groups)
        report.note(", ".join(f"{times:,} groups: {verdict}" for verdict, times in verdicts.most_common()))
        for _ in range(rounds):
            one_round(report, schedule, broker, bootstrap)
        schedule.close()
    finally:
        broker.stop()


def one_round(report: Report, schedule: Schedule, broker: Klamm, bootstrap: str) -> None:
    def beside(subject: str, goes_on: Callable[[], bool]) -> None:
        with no_garbage_collection():
            found = Distribution.of(schedule.run(lambda _: goes_on()))
        for figure, sample in ((MEDIAN, found.median_ms), (P99, found.p99_ms), (MOST, found.max_ms)):
            report.add(figure, subject, sample)

    report.note("load average before a round: " + " ".join(f"{value:.1f}" for value in os.getloadavg()))
    before_s, children_s, began_s = cpu_s(broker.pid), children_cpu_s(), time.perf_counter()
    with output_of(diagnosis(bootstrap)) as has_ended:
        beside(BESIDE, lambda: not has_ended())
    took_s = time.perf_counter() - began_s
    used_s = cpu_s(broker.pid) - before_s
    report.add(TOOK, BESIDE, took_s)
    report.add(CLIENT_CPU, BESIDE, children_cpu_s() - children_s)
    before_s = cpu_s(broker.pid)
    beside(ALONE, lasts(took_s))
    # Without what the heartbeats themselves cost, which went on in the meantime.
    report.add(BROKER_CPU, BESIDE, used_s - (cpu_s(broker.pid) - before_s))
    with computing():
        beside(COMPUTING, lasts(took_s))


def measure_turns(report: Report, groups: int, rounds: int) -> None:
    """How long the broker is busy at a time: processor time, which other programs do not change."""
    turns: list[float] = []

    class Watched(selectors.DefaultSelector):
        began_s: float | None = None

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if self.began_s is not None:
                turns.append(time.thread_time() - self.began_s)
            ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
            self.began_s = time.thread_time()
            return ready

    embedded.new_event_loop = lambda: asyncio.SelectorEventLoop(Watched())
    with klamm.Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        populate(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])), groups)
        checked(diagnosis(broker.bootstrap), groups)
        for _ in range(rounds):
            turns.clear()
            used_s = children_cpu_s()
            with no_garbage_collection():  # this process has more garbage than a broker
                checked(diagnosis(broker.bootstrap), groups)
            took_s = children_cpu_s() - used_s + sum(turns)
            for figure, sample_s in ((LONGEST_TURN, max(turns)), (WAITED_FOR, waited_for(turns, took_s))):
                report.add(figure, BESIDE, sample_s * 1000)


def waited_for(turns: list[float], took_s: float, part: float = 0.01) -> float:
    """What this part of all requests that come at any time waits for at least, because a turn is not over."""
    below, above = 0.0, max(turns)
    for _ in range(40):
        middle = (below + above) / 2
        if sum(max(0.0, turn - middle) for turn in turns) > part * took_s:
            below = middle
        else:
            above = middle
    return below


def lasts(seconds: float) -> Callable[[], bool]:
    until_s = time.perf_counter() + seconds
    return lambda: time.perf_counter() < until_s


def children_cpu_s() -> float:
    """Of processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@contextmanager
def output_of(process: subprocess.Popen[bytes]) -> Iterator[Callable[[], bool]]:
    """Whether it has ended. A thread takes what it prints, which no pipe could hold."""
    reader = Thread(target=process.communicate)
    reader.start()
    yield lambda: not reader.is_alive()
    reader.join()


@contextmanager
def computing() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def checked(process: subprocess.Popen[bytes], groups: int) -> Counter[str]:
    """How often each verdict is given, when every group has one."""
    printed, _ = process.communicate()
    found = Counter(str(each["verdict"]) for each in json.loads(printed))
    if found.total() != groups:
        raise RuntimeError(f"{found.total()} groups of {groups} are diagnosed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--per-second", type=int, default=1_000, help="heartbeats (default 1000)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--name", default="diagnose_groups", help="of the files in bench/results")
    arguments = parser.parse_args()
    report = Report(
        "How long does a diagnosis of 10,000 groups take, and do heartbeats beside it wait?", ALONE, SUBJECTS
    )
    folder = Path(tempfile.mkdtemp(prefix="klamm-bench-"))
    try:
        measure(report, folder, arguments.groups, arguments.per_second, arguments.rounds)
        measure_turns(report, arguments.groups, arguments.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    written = report.write(arguments.name)
    print(f"\n{report.table()}\n\nwritten to {written}")


if __name__ == "__main__":
    main()
