"""What does a rebalance cost inside the broker per member and step, from bytes received to bytes sent?

No socket, no disk: the requests of all members are handed to their connections, step by step, and the
responses are read from what the connections write. The best of several rounds is what the code costs.

    python bench/rebalance_path.py [--members 1000] [--rounds 9] [--profile STEP]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import struct
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.connection import Connection
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN, SYNC, HEARTBEAT = 9, 5, 4  # the versions that today's clients speak
CLIENT_ID = "bench"
ID_BYTES = len(CLIENT_ID) + 1 + 36
SUBSCRIPTION = bytes.fromhex("000000000001") + b"\x00\x06orders" + b"\xff" * 4
ASSIGNMENT = SUBSCRIPTION[:-4] + bytes.fromhex("0000000100000000ffffffff")
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
ID_AT = 4 + 4 + 1 + 4 + 2 + 4 + 4 + 1  # of MEMBER_ID_REQUIRED: behind nulls, no leader, no skipping
GENERATION_AT = 4 + 4 + 1 + 4 + 2


class Wire(asyncio.Transport):
    """Keeps what was written last."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.written = data

    def writelines(self, list_of_data: Any) -> None:
        self.written = b"".join(list_of_data)


def frame(api_key: ApiKey, version: int, request: Any) -> bytes:
    body = request_encoder(api_key, version)(request)
    return b"".join(request_frame(api_key, version, 7, CLIENT_ID, body))


def join(group_id: str, member_id: str) -> bytes:
    offered = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    request = JoinGroupRequest(group_id, 45_000, 300_000, member_id, None, "consumer", offered)
    return frame(ApiKey.JOIN_GROUP, JOIN, request)


def sync(group_id: str, generation: int, member_id: str, given: Sequence[str] = ()) -> bytes:
    parts = [SyncGroupRequestAssignment(each, ASSIGNMENT) for each in given]
    request = SyncGroupRequest(group_id, generation, member_id, None, "consumer", "range", parts)
    return frame(ApiKey.SYNC_GROUP, SYNC, request)


class Bench:
    """A broker without sockets, members on a connection each, and the time that each step takes."""

    def __init__(self, broker: BrokerNode, size: int, profiled: str) -> None:
        self._broker = broker
        self._profiled = profiled
        self.profile = cProfile.Profile()
        self.best_us: dict[str, float] = {}
        self.wires = [Wire() for _ in range(size)]
        self.connections: list[Connection] = []

    async def step(self, name: str, count: int, run: Callable[[], object], *, turns: int = 6) -> None:
        """Run it, and what it causes in the next turns of the loop."""
        gc.collect()
        if name == self._profiled:
            self.profile.enable()
        began = time.process_time()
        run()
        for _ in range(turns):
            await asyncio.sleep(0)
        took_us = (time.process_time() - began) / count * 1e6
        if name == self._profiled:
            self.profile.disable()
        self.best_us[name] = min(took_us, self.best_us.get(name, took_us))

    def send(self, frames: Sequence[bytes]) -> None:
        for connection, data in zip(self.connections, frames, strict=False):
            if data:
                connection.data_received(data)

    async def rebalance(self, group_id: str) -> None:
        size = len(self.wires)
        self.connections = []
        await self.step("connect", size, self.connect)
        nobody = frame(ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(group_id, 1, ""))
        await self.step("first request of a connection", size, lambda: self.send([nobody] * size))
        first = join(group_id, "")
        await self.step("join without an id", size, lambda: self.send([first] * size))
        ids = [wire.written[ID_AT : ID_AT + ID_BYTES].decode() for wire in self.wires]
        await self.join_and_sync("", group_id, ids, 1)
        beats = [frame(ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(group_id, 1, each)) for each in ids]
        await self.step("heartbeat", size, lambda: self.send(beats))
        # The leader joins again, and all others have to.
        self.connections[0].data_received(join(group_id, ids[0]))
        await self.step("heartbeat, told to rejoin", size - 1, lambda: self.send([b"", *beats[1:]]))
        await self.join_and_sync("again: ", group_id, ids, 2)
        for connection in self.connections:
            connection.connection_lost(None)

    def connect(self) -> None:
        for wire in self.wires:
            connection = self._broker.server.plain_connection("PLAINTEXT")
            connection.connection_made(wire)
            self.connections.append(connection)

    async def join_and_sync(self, again: str, group_id: str, ids: Sequence[str], generation: int) -> None:
        size = len(ids)
        joins = [join(group_id, each) for each in ids]
        if again:
            joins[0] = b""  # parked already
        await self.step(f"{again}join", size, lambda: self.send(joins[:-1]), turns=0)
        last = self.connections[-1]
        await self.step(f"{again}end of the join phase", size, lambda: last.data_received(joins[-1]))
        for wire in self.wires:
            (got,) = struct.unpack_from(">i", wire.written, GENERATION_AT)
            assert got == generation, wire.written[:100]
        syncs = [sync(group_id, generation, each) for each in ids]
        leaders = sync(group_id, generation, ids[0], ids)
        syncs[0] = b""
        await self.step(f"{again}sync", size, lambda: self.send(syncs))
        await self.step(f"{again}leader's sync", size, lambda: self.connections[0].data_received(leaders))
        for wire in self.wires:
            assert wire.written.endswith(ASSIGNMENT + b"\0"), wire.written


async def measure(size: int, rounds: int, profiled: str) -> Bench:
    clock, config = SystemClock(), BrokerConfig.from_settings(SETTINGS)
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
    broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    wire = Wire()
    connection = broker.server.plain_connection("PLAINTEXT")
    connection.connection_made(wire)
    find = frame(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["any"]))
    while not any(shard.status.value == "active" for shard in broker.services.groups.shards):
        connection.data_received(find)
        await asyncio.sleep(0.01)
    bench = Bench(broker, size, profiled)
    for number in range(rounds):
        await bench.rebalance(f"group-{number}")
    connection.connection_lost(None)
    await broker.stop()
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile", metavar="STEP", default="", help="a step whose functions are listed")
    given = parser.parse_args()
    gc.set_threshold(50_000, 20, 50)  # as `klamm up` does
    bench = new_event_loop().run_until_complete(measure(given.members, given.rounds, given.profile))
    for name, took_us in bench.best_us.items():
        print(f"{name:35} {took_us:6.1f} µs per member")
    if given.profile:
        pstats.Stats(bench.profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
