"""What does a heartbeat cost the group coordinator, and does it cost more when there are many members?

    python bench/coordinator_heartbeat.py

Members of one group heartbeat through the whole coordinator (placement, shard, decision, timer, reply), in a
random order, for 100 and for 100,000 members. Requests and contexts are made beforehand; nothing is encoded.
Commits of ten partitions, joins of 1,000 and 5,000 members and a load of 1,000,000 offset records follow.
Processor time: medians of several rounds, with the fastest and the slowest.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable
from random import Random
from typing import Any

from klamm.assignors.base import PartitionView
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import GroupRecord, OffsetCommitted
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.records.batch import stamp
from klamm.records.layout import OffsetCommitValue

ROUNDS = 7


class Drop:
    """The token of a request whose answer is not looked at."""

    def keep(self, response: object) -> None: ...


DROP = Drop()
TOPIC = KnownTopic("orders", bytes(range(16)), 64)
SUBSCRIPTION = bytes.fromhex("000000000001") + b"\x00\x06orders" + bytes.fromhex("ffffffff")


class Bench:
    """The host of a coordinator: a log that takes everything, answers that are only counted."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self.end_offset = self.durable_offset = self.start_offset = 0
        self.is_being_repaired = False
        self.coordinator = GroupCoordinator(
            GroupConfig(group_initial_rebalance_delay_ms=1), partition_count=1, topics=self, host=self
        )
        self.coordinator.shards.elect(0, 1, lambda: self)

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def keep(self, response: object) -> None:
        self.answers.append(response)

    def tell(self, event: Event) -> None: ...

    def act(self, shard: Shard, action: object) -> None:
        raise AssertionError(f"groups do nothing outside their shard: {action!r}")

    def act_early(self, shard: Any, action: object) -> bool:
        return False

    def wake(self, at_ms: int) -> None: ...

    def load(self, shard: Shard) -> None:
        while not shard.load_some(Context(0, 0), 1 << 20):
            pass

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        offset = self.end_offset
        self.end_offset += int.from_bytes(batch[57:61], "big")
        self.durable_offset = self.end_offset
        return offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        return b""

    def flush(self) -> None: ...

    def cut_back(self) -> None: ...

    version = 0

    def are_complete(self) -> bool:
        return True

    def names(self) -> tuple[str, ...]:
        return (TOPIC.name,)

    def partition_views(self, name: str) -> tuple[PartitionView, ...]:
        return ()

    def by_name(self, name: str) -> KnownTopic | None:
        return TOPIC

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return TOPIC

    def take(self) -> list[Any]:
        taken, self.answers = self.answers, []
        return taken


def joined(bench: Bench, size: int) -> tuple[list[str], float, float, float]:
    """A stable group, and the milliseconds that joins, the leader's sync and the other syncs took."""
    requests = [
        JoinGroupRequest(
            group_id="bench",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
            has_rebalance_timeout=True,
        )
        for _ in range(size)
    ]
    started = time.process_time()
    for number, request in enumerate(requests):
        bench.coordinator.handle(request, Context(0, 0, "client", "/127.0.0.1", f"{number:036d}", bench))
    bench.coordinator.shards.tick(Context(1, 1))
    bench.coordinator.shards.tick(Context(2, 2))
    join_ms = (time.process_time() - started) * 1_000
    members = [answer.member_id for answer in bench.take() if isinstance(answer, JoinGroupResponse)]
    assert len(members) == size
    given = [SyncGroupRequestAssignment(member_id, SUBSCRIPTION) for member_id in members]
    syncs = [SyncGroupRequest("bench", 1, member_id) for member_id in members]
    syncs[0].assignments = given
    started = time.process_time()
    bench.coordinator.handle(syncs[0], Context(2, 2, token=bench))
    leader_ms = (time.process_time() - started) * 1_000
    started = time.process_time()
    for sync in syncs[1:]:
        bench.coordinator.handle(sync, Context(2, 2, token=bench))
    sync_ms = (time.process_time() - started) * 1_000
    assert len(bench.take()) == size
    return members, join_ms, leader_ms, sync_ms


def measured(run: Callable[[], int]) -> tuple[float, float, float]:
    """Microseconds per operation: median, fastest, slowest."""
    took = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        count = run()
        took.append((time.process_time() - started) / count * 1e6)
    return statistics.median(took), min(took), max(took)


def heartbeats(size: int, count: int = 100_000) -> tuple[float, float, float]:
    bench = Bench()
    members, *_ = joined(bench, size)
    order = Random(1).choices(members, k=count)
    requests = [HeartbeatRequest("bench", 1, member_id) for member_id in order]
    context = Context(10, 10, "client", "/127.0.0.1", "", DROP)
    handle = bench.coordinator.handle

    def run() -> int:
        for request in requests:
            handle(request, context)
        return count

    return measured(run)


def decisions(size: int, count: int = 100_000) -> tuple[float, float, float]:
    """The decision alone."""
    bench = Bench()
    members, *_ = joined(bench, size)
    order = Random(1).choices(members, k=count)
    requests = [HeartbeatRequest("bench", 1, member_id) for member_id in order]
    context = Context(10, 10, "client", "/127.0.0.1", "", DROP)
    shard = bench.coordinator.shards.by_partition.get(0)
    assert shard is not None
    decide = shard.machine.decide

    def run() -> int:
        for request in requests:
            decide(request, context)
        return count

    return measured(run)


def commits(partitions: int = 10, count: int = 3_000) -> tuple[float, float, float]:
    bench = Bench()
    requests = [
        OffsetCommitRequest(
            group_id=f"group-{number % 200}",
            topics=[
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        OffsetCommitRequestPartition(partition, number, -1, "")
                        for partition in range(partitions)
                    ],
                )
            ],
        )
        for number in range(count)
    ]

    def run() -> int:
        for request in requests:
            bench.coordinator.handle(request, Context(10, 10, token=DROP))
        return count

    return measured(run)


def load_seconds(records: int = 1_000_000, per_batch: int = 10) -> float:
    """Decoding and replaying a log as commits of ten partitions leave it."""
    parts = []
    for first in range(0, records, per_batch):
        group_id = f"group-{first // per_batch % 200}"
        batch: list[GroupRecord] = [
            OffsetCommitted(
                group_id,
                "orders",
                partition,
                OffsetCommitValue(first, 3, "", 1_700_000_000_000, -1, TOPIC[1]),
            )
            for partition in range(per_batch)
        ]
        encoded = bytearray(encode_records(batch, 1_700_000_000_000))
        stamp(encoded, first, 0)
        parts.append(bytes(encoded))
    chunks = [b"".join(parts[first : first + 5_000]) for first in range(0, len(parts), 5_000)]
    machine = GroupMachine(GroupConfig())
    gc.collect()
    started = time.process_time()
    for chunk in chunks:
        machine.load(chunk)
    machine.loaded(Context(0, 0))
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 100_000])
    sizes = parser.parse_args().sizes
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}")
    for name, measure in (("heartbeat, whole path", heartbeats), ("heartbeat, decision", decisions)):
        first = 0.0
        for size in sizes:
            median, fastest, slowest = measure(size)
            first = first or fastest
            growth = f", {fastest / first - 1:+.0%} fastest to fastest" if size != sizes[0] else ""
            print(f"{name}, {size:>7,} members: {median:5.2f} µs ({fastest:.2f} to {slowest:.2f}){growth}")
    median, fastest, slowest = commits()
    print(f"commit of 10 partitions, encoded:   {median:5.1f} µs ({fastest:.1f} to {slowest:.1f})")
    for size in (1_000, 5_000):
        _, join_ms, leader_ms, sync_ms = joined(Bench(), size)
        print(
            f"{size:,} members: {join_ms:.0f} ms to join, {leader_ms:.0f} ms for the leader's sync,", end=""
        )
        print(f" {sync_ms:.0f} ms for all others")
    print(f"1,000,000 offset records loaded in {load_seconds():.2f} s")


if __name__ == "__main__":
    main()
