"""What does an offset commit cost inside the broker, from bytes received to bytes sent?

No socket; the disk is real. 200 groups commit ten partitions each over eight connections, all in flight at
once, round after round, as `bench/groups_vs_kafka` does it. Processor time of the best round, and with
--count the bytecodes of one round by function.

    python -m bench.commit_path [--rounds 30] [--count]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from bench.rebalance_path import Wire, frame
from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.connection import Connection
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

GROUPS, PARTITIONS, LANES, COMMIT = 200, 10, 8, 9
TOPIC = "orders"
COUNTED_ROUNDS = 3


class CountingWire(Wire):
    """Counts the bytes that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def write(self, data: Any) -> None:
        super().write(data)
        self.count += len(data)

    def has_more_than(self, count: int) -> bool:
        return self.count > count

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))


class Bytecodes:
    """Counts bytecodes and calls by function."""

    def __init__(self) -> None:
        self.executed: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()

    def __enter__(self) -> Bytecodes:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self.calls[frame.f_code] += 1
        return self._executed

    def _executed(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            self.executed[frame.f_code] += 1
        return self._executed

    def print(self, requests: int, most: int = 60) -> None:
        print(f"{sum(self.executed.values()) / requests:8.1f} bytecodes per request")
        for code, count in self.executed.most_common(most):
            where = "/".join(code.co_filename.split("/")[-2:])
            calls = self.calls[code] / requests
            name = f"{where}:{code.co_firstlineno} {code.co_qualname}"
            print(f"{count / requests:8.1f}  {calls:6.2f} calls  {name}")


def commit(group_id: str) -> bytes:
    parts = [OffsetCommitRequestPartition(number, 1000 + number) for number in range(PARTITIONS)]
    request = OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=parts)])
    return frame(ApiKey.OFFSET_COMMIT, COMMIT, request)


def connect(broker: BrokerNode) -> tuple[Connection, CountingWire]:
    connection, wire = broker.server.plain_connection("PLAINTEXT"), CountingWire()
    connection.connection_made(wire)
    return connection, wire


async def until(is_so: Callable[[], bool], look_s: float = 0.01) -> None:
    while not is_so():  # noqa: ASYNC110 -- a wire has no event
        await asyncio.sleep(look_s)


async def measure(folder: Path, rounds: int, counting: bool) -> None:
    clock, config = SystemClock(), BrokerConfig.from_settings({"log.dirs": str(folder)})
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep)
    broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    control, told = connect(broker)
    groups = [f"committing-{number:03}" for number in range(GROUPS)]
    topic = CreateTopicsRequest([CreatableTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
    find = FindCoordinatorRequest(coordinator_keys=groups)
    for request in (frame(ApiKey.CREATE_TOPICS, 7, topic), frame(ApiKey.FIND_COORDINATOR, 4, find)):
        before = told.count
        control.data_received(request)
        await until(partial(told.has_more_than, before))
    requests = [commit(group_id) for group_id in groups]
    lanes = [connect(broker) for _ in range(LANES)]
    batches = [b"".join(requests[lane::LANES]) for lane in range(LANES)]
    answer_bytes = 0

    async def one_round() -> None:
        expected = [wire.count + answer_bytes * GROUPS // LANES - 1 for _, wire in lanes]
        for (connection, _), batch in zip(lanes, batches, strict=True):
            connection.data_received(batch)
        for (_, wire), count in zip(lanes, expected, strict=True):
            await until(partial(wire.has_more_than, count), 0.0002)

    connection, wire = lanes[0]
    connection.data_received(requests[0])
    await until(partial(wire.has_more_than, 0))
    answer_bytes = wire.count
    assert wire.written.count(TOPIC.encode()) == 1, wire.written
    accepted = b"\0\0\0"  # no error, no tags
    while any(wire.written[-5:-2] != accepted for _, wire in lanes):  # a shard is still loading
        await asyncio.sleep(0.01)
        await one_round()
    best_us = float("inf")
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        await one_round()
        best_us = min(best_us, (time.process_time() - began) / GROUPS * 1e6)
    print(f"{best_us:6.1f} µs per commit, with the turns of the loop that wait for the disk")
    if counting:
        counted = Bytecodes()
        for _ in range(COUNTED_ROUNDS):
            with counted:
                await one_round()
        counted.print(COUNTED_ROUNDS * GROUPS)
    for connection, _ in (*lanes, (control, told)):
        connection.connection_lost(None)
    await broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--count", action="store_true", help="count the bytecodes by function")
    given = parser.parse_args()
    gc.set_threshold(50_000, 20, 50)  # as `klamm up` does
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        new_event_loop().run_until_complete(measure(Path(folder), given.rounds, given.count))


if __name__ == "__main__":
    main()
