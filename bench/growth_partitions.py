"""Growth of partitions and of connections."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from bench.brokers import Klamm, cpu_s, resident_mb
from bench.group_load import Crowd, connect, frame, wait_for_coordinator
from bench.growth_load import (
    answer_to,
    cpu_per_request,
    create_topic,
    one_after_the_other,
    one_each,
    used_by,
)
from bench.growth_report import Cost, Growth
from bench.raw_load import fetch_request, produce_request
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

PARTITIONS, CONNECTIONS = "partitions", "connections"
TOPIC = "orders"
LANES = 8
IN_FLIGHT = 12  # on each
METADATA_VERSION = 9
MADE_AT_ONCE = 200  # connections, to measure what accepting one costs
ACTIVE = 100  # connections that have a request in flight

START_CPU = Cost(PARTITIONS, "CPU of a start after a clean stop", "s", "linear")
START_WALL = Cost(PARTITIONS, "wall time of that start", "s", "linear")
STOP_WALL = Cost(PARTITIONS, "wall time of a stop", "s", "linear")
PARTITION_MEMORY = Cost(PARTITIONS, "memory, resident", "MB", "linear")
OPEN_FILES = Cost(PARTITIONS, "open files after all loads", "files", "linear")
IDLE = Cost(PARTITIONS, "CPU when idle, in one second", "ms")
FIRST_PRODUCE = Cost(PARTITIONS, "CPU per first Produce of a partition, since the start", "µs")
PRODUCE = Cost(PARTITIONS, "CPU per Produce of one record, over all partitions", "µs")
FETCH = Cost(PARTITIONS, "CPU per Fetch of one record, over all partitions", "µs")
METADATA = Cost(PARTITIONS, "CPU per partition in a Metadata response", "µs")

ACCEPT = Cost(CONNECTIONS, "CPU to accept and close one more", "µs")
CONNECTION_MEMORY = Cost(CONNECTIONS, "memory per connection", "kB")
REQUEST = Cost(CONNECTIONS, "CPU per heartbeat, one in flight on 100 of them", "µs")
IDLE_CONNECTIONS = Cost(CONNECTIONS, "CPU when idle, in one second", "ms")


def grown_partitions(
    growth: Growth, brokers: Mapping[int, Klamm], *, requests: int, repeats: int, idle_s: float
) -> None:
    """A broker for each number of partitions, each with a record: started again, idle, then loaded."""
    for size, broker in brokers.items():
        address = ("127.0.0.1", broker.port)
        growth.say(f"creating a topic of {size:,} partitions")
        create_topic(address, TOPIC, size)
        one_after_the_other(address, _produces(range(size)))
        for _ in range(repeats if size < 10_000 else 1):
            started_at = time.monotonic()
            broker.stop()
            growth.add(STOP_WALL, size, time.monotonic() - started_at)
            broker.start()
            growth.add(START_WALL, size, broker.start_to_first_answer_s)
            growth.add(START_CPU, size, cpu_s(broker.pid))
        growth.add(PARTITION_MEMORY, size, resident_mb(broker.pid))
    _idle(growth, IDLE, brokers, idle_s)
    for size, broker in brokers.items():
        address = ("127.0.0.1", broker.port)
        topics = [MetadataRequestTopic(name=TOPIC)]
        metadata = frame(ApiKey.METADATA, METADATA_VERSION, MetadataRequest(topics))
        for cpu_us in cpu_per_request(
            address,
            broker.pid,
            [[metadata]],
            in_flight=1,
            requests=max(20, requests // size),
            repeats=repeats,
        ):
            if size >= 100:
                growth.add(METADATA, size, cpu_us / size)
        fetches = [fetch_request(TOPIC, partition, 0, max_bytes=100) for partition in range(size)]
        warm_up = max(size, requests // 3)  # each partition has been read, and later written, before
        for cpu_us in _drive(
            address, broker, fetches, requests, repeats, checked=_FETCH_CHECKED, warm_up=warm_up
        ):
            growth.add(FETCH, size, cpu_us)
        produces = _produces(range(size))
        if size >= 1000:
            (cpu_us,) = _drive(address, broker, produces, size - LANES * IN_FLIGHT, 1, warm_up=0)
            growth.add(FIRST_PRODUCE, size, cpu_us)
        for cpu_us in _drive(address, broker, produces, requests, repeats, warm_up=warm_up):
            growth.add(PRODUCE, size, cpu_us)
        growth.add(OPEN_FILES, size, len(os.listdir(f"/proc/{broker.pid}/fd")))


# Of answers about partitions of different numbers: the error code.
_PRODUCE_ERROR_AT = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
_PRODUCE_CHECKED = slice(_PRODUCE_ERROR_AT, _PRODUCE_ERROR_AT + 2)
_FETCH_ERROR_AT = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
_FETCH_CHECKED = slice(_FETCH_ERROR_AT, _FETCH_ERROR_AT + 2)


def _produces(partitions: Iterable[int]) -> list[bytes]:
    now_ms = int(time.time() * 1000)
    return [produce_request(TOPIC, partition, value_bytes=100, now_ms=now_ms) for partition in partitions]


def _drive(
    address: tuple[str, int],
    broker: Klamm,
    every: Sequence[bytes],
    requests: int,
    repeats: int,
    checked: slice = _PRODUCE_CHECKED,
    warm_up: int | None = None,
) -> list[float]:
    """Requests of all partitions in a random order."""
    first = answer_to(address, every[-1])
    if first[checked] != b"\0\0":
        raise RuntimeError(f"an error: {first[:80].hex()}")
    shuffled = Random(1).sample(every, len(every))
    lanes = [shuffled[lane::LANES] or shuffled for lane in range(LANES)]
    return cpu_per_request(
        address,
        broker.pid,
        lanes,
        in_flight=IN_FLIGHT,
        requests=requests,
        repeats=repeats,
        checked=checked,
        warm_up=warm_up,
    )


def _idle(growth: Growth, cost: Cost, brokers: Mapping[int, Klamm], idle_s: float) -> None:
    """What brokers cost while they have nothing to do, all at the same time."""
    growth.say(f"idle for {idle_s:.0f} s")
    before = {size: cpu_s(broker.pid) for size, broker in brokers.items()}
    time.sleep(idle_s)
    for size, broker in brokers.items():
        growth.add(cost, size, (cpu_s(broker.pid) - before[size]) / idle_s * 1000)


def grown_connections(
    growth: Growth, broker: Klamm, sizes: Sequence[int], *, requests: int, repeats: int, idle_s: float
) -> None:
    """More and more connections, of which a few at a time send a heartbeat."""
    address = ("127.0.0.1", broker.port)
    wait_for_coordinator(address, ["any"])
    crowd = Crowd(address, 1)
    beat = crowd.settle("beating", 1).heartbeats()[0]
    answer_bytes = len(answer_to(address, beat))
    warming = [connect(address) for _ in range(MADE_AT_ONCE)]
    one_each(warming, beat, answer_bytes)
    _close(warming)
    empty_mb = resident_mb(broker.pid)
    open_connections: list[socket.socket] = []
    for size in sizes:
        while len(open_connections) < size:
            made = [connect(address) for _ in range(min(MADE_AT_ONCE, size - len(open_connections)))]
            one_each(made, beat, answer_bytes)
            open_connections += made
        if size >= 1000:
            growth.add(CONNECTION_MEMORY, size, (resident_mb(broker.pid) - empty_mb) * 1000 / size)
        for _ in range(repeats):
            with used_by(broker.pid) as used:
                for _ in range(5):
                    _close([connect(address) for _ in range(MADE_AT_ONCE)])
                answer_to(address, beat)  # when it is answered the others are accepted
            growth.add(ACCEPT, size, used.cpu_s / 5 / MADE_AT_ONCE * 1e6)
        active = min(ACTIVE, size)
        turns = max(1, requests // active)
        random = Random(1)
        for _ in range(repeats):
            with used_by(broker.pid) as used:
                for _ in range(turns):
                    one_each(random.sample(open_connections, active), beat, answer_bytes)
            growth.add(REQUEST, size, used.cpu_s / turns / active * 1e6)
        _idle(growth, IDLE_CONNECTIONS, {size: broker}, idle_s)
    _close(open_connections)
    crowd.close()


def _close(connections: Iterable[socket.socket]) -> None:
    for connection in connections:
        # With a reset: ports are free again at once.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
