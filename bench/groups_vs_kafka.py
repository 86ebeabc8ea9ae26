"""How does klamm's group coordinator compare with Apache Kafka's on the same machine?

Each broker in turn: members that settle in one group, heartbeats of 1,000 members, commits of 200 groups, and
a restart with 1,000,000 offset records to read:

    python -m bench.groups_vs_kafka            (with src and tests on PYTHONPATH)
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.broker_vs_kafka import create_topic
from bench.brokers import SUBJECTS, Running, cpu_s
from bench.group_load import (
    Rally,
    commit_frames,
    heartbeat_frames,
    pipelined,
    wait_for_coordinator,
    wait_until_loaded,
)
from bench.raw_load import wait_until_writable
from bench.report import Figure, Report
from support.wire import WireClient

HEARTBEATS = Figure("heartbeats, 1,000 members, 8 connections", "requests/s", more_is_better=True)
HEARTBEAT_CPU = Figure("broker CPU per heartbeat", "µs", more_is_better=False)
COMMITS = Figure("commits of 10 partitions, 200 groups, 8 connections", "requests/s", more_is_better=True)
COMMIT_CPU = Figure("broker CPU per commit", "µs", more_is_better=False)
LOAD = Figure("restart until 1,000,000 offset records are served", "s", more_is_better=False)
GROUPS = [f"group-{number}" for number in range(200)]


def fresh_figure(size: int) -> Figure:
    return Figure(f"{size:,} members, fresh, until all are assigned", "ms", more_is_better=False)


def one_more_figure(size: int) -> Figure:
    return Figure(f"one more joins {size:,} members, until all are assigned", "ms", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything: enough to measure, or just enough to try."""

    sizes: tuple[int, ...]
    warm_up_s: float
    measure_s: float
    offset_records: int


FULL = Amounts(sizes=(10, 100, 1_000, 5_000), warm_up_s=5, measure_s=8, offset_records=1_000_000)
QUICK = Amounts(sizes=(10, 100), warm_up_s=0.5, measure_s=1, offset_records=20_000)


def for_seconds(duration_s: float) -> Callable[[int], bool]:
    ends_at = time.perf_counter() + duration_s
    return lambda _: time.perf_counter() < ends_at


def measure_rallies(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Groups of several sizes, each twice so that the second finds a warm broker; then the heartbeats."""
    for size in amounts.sizes:
        for is_warm in (False, True):
            asyncio.run(_rally(report, name, broker, amounts, size, is_warm))


async def _rally(
    report: Report, name: str, broker: Running, amounts: Amounts, size: int, is_warm: bool
) -> None:
    group = f"rally-{size}-{is_warm}"
    wait_for_coordinator(f"127.0.0.1:{broker.port}", group)
    rally = Rally("127.0.0.1", broker.port, group)
    try:
        fresh_ms = await rally.gather(size)
        one_more_ms = await rally.gather(1)
        if is_warm:
            report.add(fresh_figure(size), name, fresh_ms)
            report.add(one_more_figure(size), name, one_more_ms)
        if is_warm and size == min(1_000, amounts.sizes[-1]):
            measure_pipelined(
                report, name, broker, amounts, heartbeat_frames(rally), HEARTBEATS, HEARTBEAT_CPU
            )
    finally:
        rally.close()


def measure_pipelined(
    report: Report,
    name: str,
    broker: Running,
    amounts: Amounts,
    frames: list[bytes],
    rate_figure: Figure,
    cpu_figure: Figure,
) -> None:
    """How many requests at most, and what each costs the broker's processor."""
    address = ("127.0.0.1", broker.port)
    load = {"connections": 8, "in_flight": 32}
    pipelined(address, frames, **load, goes_on=for_seconds(amounts.warm_up_s))
    cpu_before_s = cpu_s(broker.pid)
    rate = pipelined(address, frames, **load, goes_on=for_seconds(amounts.measure_s))
    report.add(rate_figure, name, rate)
    used_s = cpu_s(broker.pid) - cpu_before_s
    report.add(cpu_figure, name, used_s / (rate * amounts.measure_s) * 1e6)


def measure_commits(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    create_topic(f"127.0.0.1:{broker.port}", "offsets", 10)
    wait_until_writable(("127.0.0.1", broker.port), "offsets", 10)
    for group in GROUPS:
        wait_for_coordinator(f"127.0.0.1:{broker.port}", group)
    frames = commit_frames(GROUPS, "offsets", 10)
    measure_pipelined(report, name, broker, amounts, frames, COMMITS, COMMIT_CPU)


def measure_load(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Commit, restart, and wait until every group is served again; the start itself is left out."""
    frames = commit_frames(GROUPS, "offsets", 10)
    wanted = amounts.offset_records // 10
    pipelined(
        ("127.0.0.1", broker.port), frames, connections=8, in_flight=32, goes_on=lambda done: done < wanted
    )
    broker.stop()
    broker.start()
    started = time.perf_counter()
    with WireClient(f"127.0.0.1:{broker.port}", timeout_s=120) as client:
        wait_until_loaded(client, GROUPS)
    report.add(LOAD, name, time.perf_counter() - started)


def measure(report: Report, name: str, folder: Path, amounts: Amounts) -> None:
    """One broker through all loads, from an empty folder."""
    broker = SUBJECTS[name].make(folder)
    broker.start()
    try:
        measure_rallies(report, name, broker, amounts)
        measure_commits(report, name, broker, amounts)
        measure_load(report, name, broker, amounts)
    finally:
        broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each broker has its turn")
    parser.add_argument("--quick", action="store_true", help="tiny loads, to see that it runs")
    parser.add_argument("--brokers", default=",".join(SUBJECTS), help="which, comma-separated (default all)")
    parser.add_argument("--name", default="groups_vs_kafka", help="of the files in bench/results")
    arguments = parser.parse_args()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a socket per member, on both ends
    names = arguments.brokers.split(",")
    says = {name: SUBJECTS[name].says for name in names}
    report = Report("How does klamm's group coordinator compare with Apache Kafka's?", names[0], says)
    amounts = QUICK if arguments.quick else FULL
    for turn in range(arguments.rounds):
        # Every other round backwards, so that nobody always follows the same neighbour.
        for name in names if turn % 2 == 0 else reversed(names):
            print(f"round {turn + 1} of {arguments.rounds}: {name}", flush=True)
            folder = Path(tempfile.mkdtemp(prefix="klamm-bench-"))
            try:
                measure(report, name, folder, amounts)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{report.table()}\n\nwritten to {report.write(arguments.name)}")


if __name__ == "__main__":
    main()
