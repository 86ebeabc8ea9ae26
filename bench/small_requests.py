"""What do small requests to a coordinator cost inside the broker, from bytes received to bytes sent?

No socket and no disk. 1,000 members of one group send heartbeats, 125 at a time on eight connections and one
by one on their own; 200 groups commit ten partitions each. Processor time per request: the least and the
median of many rounds, which other programs on the machine change little.

    python -m bench.small_requests [--rounds 200]

It says which modules are compiled. To find out what one of them gains, move its .so file away.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType

from bench.commit_path import CountingWire, commit, connect, until
from bench.rebalance_path import HEARTBEAT, ID_AT, ID_BYTES, SETTINGS, Bench, frame, join
from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.connection import Connection
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest

MEMBERS, GROUPS, LANES, GROUP = 1_000, 200, 8, "beating"
Lane = tuple[Connection, CountingWire]


def send(lanes: list[Lane], batches: list[bytes]) -> None:
    for (connection, _), batch in zip(lanes, batches, strict=True):
        connection.data_received(batch)


async def beat(lanes: list[Lane], batches: list[bytes]) -> None:
    send(lanes, batches)


async def send_commits(lanes: list[Lane], batches: list[bytes], answer_bytes: int) -> None:
    expected = [wire.count + answer_bytes for _, wire in lanes]
    send(lanes, batches)
    for (_, wire), count in zip(lanes, expected, strict=True):
        await until(partial(wire.has_more_than, count - 1), 0)


async def report(name: str, count: int, rounds: int, run: Callable[[], Awaitable[None]]) -> None:
    took_us: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        await run()
        took_us.append((time.process_time() - began) / count * 1e6)
    took_us.sort()
    print(f"{name:24} {took_us[0]:6.2f} µs, median {took_us[rounds // 2]:6.2f}")


async def measure(rounds: int) -> None:
    clock, config = SystemClock(), BrokerConfig.from_settings(SETTINGS)
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
    broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    control, _ = connect(broker)
    topic = CreateTopicsRequest([CreatableTopic("orders", num_partitions=10, replication_factor=1)])
    control.data_received(frame(ApiKey.CREATE_TOPICS, 7, topic))
    control.data_received(frame(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[GROUP])))
    await until(lambda: any(shard.status.value == "active" for shard in broker.services.groups.shards))

    crowd = Bench(broker, MEMBERS, "")
    crowd.connect()
    crowd.send([join(GROUP, "")] * MEMBERS)
    await asyncio.sleep(0)
    ids = [wire.written[ID_AT : ID_AT + ID_BYTES].decode() for wire in crowd.wires]
    await crowd.join_and_sync("", GROUP, ids, 1)
    beats = [frame(ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(GROUP, 1, each)) for each in ids]
    lanes = [connect(broker) for _ in range(LANES)]
    beats_of_lanes = [b"".join(beats[lane::LANES]) for lane in range(LANES)]
    await report("heartbeat, 125 at a time", MEMBERS, rounds, partial(beat, lanes, beats_of_lanes))

    async def one_by_one() -> None:
        crowd.send(beats)
        await asyncio.sleep(0)  # most answers leave with the end of the turn

    await report("heartbeat, one by one", MEMBERS, rounds, one_by_one)

    commits = [commit(f"committing-{number:03}") for number in range(GROUPS)]
    commits_of_lanes = [b"".join(commits[lane::LANES]) for lane in range(LANES)]
    send(lanes, commits_of_lanes)
    await until(lambda: lanes[0][1].written[-5:-2] == b"\0\0\0")  # accepted
    await asyncio.sleep(0.2)
    before = lanes[0][1].count
    lanes[0][0].data_received(commits_of_lanes[0])
    await asyncio.sleep(0.2)
    answer_bytes = lanes[0][1].count - before
    await report(
        "commit of ten partitions",
        GROUPS,
        rounds,
        partial(send_commits, lanes, commits_of_lanes, answer_bytes),
    )
    for connection in (control, *crowd.connections, *(connection for connection, _ in lanes)):
        connection.connection_lost(None)
    await broker.stop()


def is_declared(module: ModuleType) -> bool:
    """Whether it is compiled from Python source."""
    path = Path(getattr(module, "__file__", None) or "")
    return path.suffix == ".so" and path.with_name(f"{path.name.split('.')[0]}.pxd").exists()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    gc.set_threshold(50_000, 20, 50)  # as `klamm up` does
    new_event_loop().run_until_complete(measure(given.rounds))
    modules = [
        name for name, module in sys.modules.items() if name.startswith("klamm.") and is_declared(module)
    ]
    print("compiled:", ", ".join(sorted(modules)) or "nothing")


if __name__ == "__main__":
    main()
