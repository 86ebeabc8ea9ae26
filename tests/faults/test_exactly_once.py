"""Exactly once, whoever is killed: real workers of three libraries, a real broker, kill -9, one checker.

Producers, consume-transform-produce workers, a two-phase commit, transactions that are handed from process to
process, and read_committed readers write down what they do. Broker and workers are killed at random moments.
Afterwards the journals and the topics must agree.

KLAMM_EXACTLY_ONCE_S=600 KLAMM_SEED=7 runs it longer, and with other kills.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

import klamm
from faults.exactly_once.checker import (
    CopyJob,
    Position,
    Topic,
    Verdict,
    check_copies,
    check_reader,
    check_transactions,
    transactions_in,
)
from faults.exactly_once.journal import read_journal
from faults.exactly_once.library import IN, OUT, PARTITIONS
from interop.kafka_tools import free_port
from interop.own import Own
from interop.processes import ROOT, KlammProcess, inherited_environment

RUN_S: Final = float(os.environ.get("KLAMM_EXACTLY_ONCE_S", "9"))
SEED: Final = int(os.environ.get("KLAMM_SEED", "1"))
RECORDS: Final = 100_000  # to copy, in all; more than can be copied
END_WITHIN_S: Final = 90  # at most, on a machine that is busy with other things
PROGRESS_BYTES: Final = 5_000  # in all journals, between two kills of the broker
SETTINGS: Final = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
# Small segments: a kill finds rolls, snapshots and abort indexes half written.
CONFIGS: Final = {"segment.bytes": "65536", "index.interval.bytes": "512"}


class Role(NamedTuple):
    """A worker to be."""

    role: str
    library: str

    @property
    def name(self) -> str:
        return f"{self.role}-{self.library}"


ROLES: Final = (
    Role("produce", "klamm"),
    Role("produce", "librdkafka"),
    Role("produce", "kafka-python"),
    Role("copy", "klamm"),
    Role("copy", "librdkafka"),
    Role("decide", "klamm"),
    Role("give", "klamm"),
    Role("take", "klamm"),
    Role("read", "klamm"),
    Role("read", "librdkafka"),
)
COPIERS: Final = tuple(role.name for role in ROLES if role.role == "copy")
READERS: Final = tuple(role.name for role in ROLES if role.role == "read")
# Those with a transaction of their own, to be ended when all is over.
OWNERS: Final = tuple(role.name for role in ROLES if role.role in ("produce", "copy", "decide", "give"))


class Run:
    """A broker and its workers, and the kills."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.random = Random(seed)
        self.port = free_port()
        self.broker_kills = self.worker_kills = 0
        self._progress_bytes = 0
        self.workers: dict[Role, subprocess.Popen[bytes]] = {}
        self.broker = self._start_broker()

    def _start_broker(self) -> KlammProcess:
        stderr_path = self.folder / f"klamm-{self.broker_kills}.log"
        return KlammProcess(self.folder / "data", stderr_path=stderr_path, settings=SETTINGS, port=self.port)

    def prepare(self) -> None:
        with Own(self.broker.bootstrap) as own:
            configs = {name.replace(".", "_"): value for name, value in CONFIGS.items()}
            for topic in (OUT, *COPIERS):
                own.create_topic(topic, PARTITIONS, **configs)
            own.create_topic(IN, PARTITIONS)
            producer = own.producer(**{"linger.ms": 20})
            for number in range(RECORDS):
                producer.send(IN, b"%d" % number, partition=number % PARTITIONS)
            producer.flush(30)

    def start_worker(self, role: Role) -> None:
        environment = {**inherited_environment(), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        arguments = [*role, role.name, f"127.0.0.1:{self.port}", str(self.folder), str(self.seed)]
        with (self.folder / f"{role.name}.log").open("ab") as log:
            self.workers[role] = subprocess.Popen(
                [sys.executable, "-m", "faults.exactly_once.worker", *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def work(self, duration_s: float) -> None:
        for role in ROLES:
            self.start_worker(role)
        self._wait_until_all_work()
        due_at = time.monotonic() + duration_s
        while time.monotonic() < due_at:
            time.sleep(self.random.uniform(0.1, 1.2))
            self._wait_for_progress()
            if self.random.random() < 0.5:
                self.broker.kill()
                self.broker_kills += 1
                self.broker = self._start_broker()
                self._progress_bytes = self._journal_bytes()
            else:
                role = self.random.choice(ROLES)
                self.workers[role].kill()
                self.workers[role].wait()
                self.worker_kills += 1
                self.start_worker(role)

    def _wait_until_all_work(self) -> None:
        """Each has written something down: a process that is killed while it starts proves nothing."""
        due_at = time.monotonic() + END_WITHIN_S
        idle = {self.folder / f"{role.name}.journal" for role in ROLES}
        while idle:
            assert time.monotonic() < due_at, f"no line within {END_WITHIN_S} s in {idle}"
            self._check_alive()
            time.sleep(0.1)
            idle = {path for path in idle if not path.exists() or not path.stat().st_size}

    def _journal_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*.journal"))

    def _wait_for_progress(self) -> None:
        """Clients must have found the broker again: every kill is to meet some that are at work."""
        due_at = time.monotonic() + 10
        while self._journal_bytes() < self._progress_bytes + PROGRESS_BYTES and time.monotonic() < due_at:
            time.sleep(0.05)
        self._check_alive()

    def _check_alive(self) -> None:
        for role, process in self.workers.items():
            log = (self.folder / f"{role.name}.log").read_text()[-3000:] if process.poll() is not None else ""
            assert process.poll() is None, f"{role.name} ended by itself: {log}"

    def finish(self) -> None:
        """Let the workers end what they are at, and abort what those that were killed left open."""
        (self.folder / "stop").touch()
        due_at = time.monotonic() + END_WITHIN_S
        for role, process in self.workers.items():
            try:
                assert process.wait(max(0.1, due_at - time.monotonic())) == 0, f"{role.name} failed"
            except subprocess.TimeoutExpired:
                pytest.fail(f"{role.name} did not end within {END_WITHIN_S} s")
        with Own(self.broker.bootstrap) as own:
            for name in OWNERS:
                settings = {"transaction.two.phase.commit.enable": True} if name.startswith("decide") else {}
                own.producer(**{"transactional.id": name, **settings}).init_transactions(timeout=30)

    def close(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()
        self.broker.kill()

    def check(self) -> Verdict:
        journals = {role.name: list(read_journal(self.folder / f"{role.name}.journal")) for role in ROLES}
        with Own(self.broker.bootstrap) as own:
            topics = {name: read_topic(own, name) for name in (OUT, IN, *COPIERS)}
            verdict = check_transactions(transactions_in(journals.values()), [topics[OUT]])
            complaints = verdict.complaints
            for name in COPIERS:
                offsets = {
                    partition.partition: committed.offset
                    for partition, committed in own.admin.list_group_offsets(name).items()
                    if committed is not None
                }
                job = CopyJob(topics[IN], topics[name], offsets)
                complaints += [f"{name}: {each}" for each in check_copies(job, verdict.counts)]
            for name in READERS:
                found = check_reader(journals[name], topics[OUT], verdict.counts)
                complaints += [f"{name}: {each}" for each in found]
            open_states = {"Ongoing", "PrepareCommit", "PrepareAbort"}
            left = [each for each in own.admin.list_transactions() if str(each.state) in open_states]
            complaints += [f"{each} is still open" for each in left]
        return verdict


def read_topic(own: Own, topic: str) -> Topic:
    """Everything that is visible; what holds back readers is an error."""
    partitions = [klamm.TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = own.consumer(isolation_level="read_committed")
    ends = consumer.end_offsets(partitions)
    assert ends == own.consumer().end_offsets(partitions), f"a transaction is open in {topic}"
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    found: dict[Position, str] = {}
    due_at = time.monotonic() + END_WITHIN_S
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        assert time.monotonic() < due_at, f"reading {topic} takes too long"
        for record in consumer.poll(0.5):
            found[Position(record.partition, record.offset)] = (record.value or b"").decode()
    return found


@pytest.mark.timeout(900 + 3 * RUN_S)
def test_every_transaction_is_seen_wholly_and_once_whoever_is_killed(tmp_path: Path) -> None:
    run = Run(tmp_path, SEED)
    try:
        run.prepare()
        run.work(RUN_S)
        run.finish()
        verdict = run.check()
    finally:
        run.close()
    counts = verdict.counts
    summary = f"seed {run.seed}, {run.broker_kills} + {run.worker_kills} kills, {counts}"
    print(summary)  # noqa: T201 - with -s, how much was checked
    assert not verdict.complaints, f"{summary}: {verdict.complaints[:10]}"
    assert run.broker_kills, summary
    assert run.worker_kills, summary
    assert counts.committed, summary
    assert counts.aborted, summary
    assert counts.copied, summary
    assert counts.seen, summary
