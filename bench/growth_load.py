"""Loads for growth tables: so many requests, and what they cost the broker's process."""

from __future__ import annotations

import resource
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.brokers import cpu_s
from bench.group_load import Address, ask, connect, exactly
from bench.group_rates import Lane
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

_ALL = slice(None)
IN_FLIGHT = 50
OWN_FILES = 500  # that a process has open besides its connections


@dataclass(slots=True)
class Used:
    """What a block has cost a process."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def used_by(pid: int) -> Iterator[Used]:
    """Measure processor and wall time of a block."""
    used = Used()
    cpu_before, wall_before = cpu_s(pid), time.monotonic()
    yield used
    used.cpu_s, used.wall_s = cpu_s(pid) - cpu_before, time.monotonic() - wall_before


def cpu_per_request(
    address: Address,
    pid: int,
    lanes: Sequence[Sequence[bytes]],
    *,
    in_flight: int,
    requests: int,
    checked: slice = _ALL,
    repeats: int = 1,
    warm_up: int | None = None,
) -> list[float]:
    """Microseconds of the broker per request, one figure per repeat.

    Before that `warm_up` requests, by default a third of a repeat.
    """
    selector = selectors.DefaultSelector()
    found: list[float] = []
    try:
        for each in lanes:
            lane = Lane(address, each, in_flight, checked)
            selector.register(lane.connection, selectors.EVENT_READ, lane)
            lane.start()
        _answered(selector, requests // 3 if warm_up is None else warm_up)
        for _ in range(repeats):
            with used_by(pid) as used:
                answered = _answered(selector, requests)
            found.append(used.cpu_s / answered * 1e6)
    finally:
        for key in list(selector.get_map().values()):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            connection.close()
        selector.close()
    return found


def _answered(selector: selectors.BaseSelector, requests: int) -> int:
    answered = 0
    while answered < requests:
        ready = selector.select(60)
        if not ready:
            raise TimeoutError("no answer for a minute")
        for key, _ in ready:
            answered += key.data.go_on()
    return answered


def one_each(connections: Sequence[socket.socket], request: bytes, answer_bytes: int) -> None:
    """Send a request on each connection, then wait for all answers."""
    for connection in connections:
        connection.sendall(request)
    for connection in connections:
        exactly(connection, answer_bytes)


def one_after_the_other(address: Address, requests: Sequence[bytes]) -> None:
    """Send each request once, on one connection, with some in flight."""
    with connect(address) as connection:
        for sent, request in enumerate(requests):
            connection.sendall(request)
            if sent >= IN_FLIGHT:
                _skip_answer(connection)
        for _ in requests[:IN_FLIGHT]:
            _skip_answer(connection)


def _skip_answer(connection: socket.socket) -> None:
    (size,) = struct.unpack(">i", exactly(connection, 4))
    exactly(connection, size)


def create_topic(address: Address, topic: str, partitions: int) -> None:
    """Create a topic; many partitions take their time."""
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], timeout_ms=300_000)
    with connect(address) as connection:
        connection.settimeout(300)
        answer = ask(connection, ApiKey.CREATE_TOPICS, 5, request)
    if answer.topics[0].error_code:
        raise RuntimeError(f"creating {topic}: {answer.topics[0].error_message}")


def answer_to(address: Address, request: bytes) -> bytes:
    """One request's answer, with its size."""
    with connect(address) as connection:
        connection.sendall(request)
        (size,) = struct.unpack(">i", exactly(connection, 4))
        return struct.pack(">i", size) + exactly(connection, size)


def most_connections() -> int:
    """How many connections this process and a broker may have, after raising the limit as far as allowed."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    return most_files - OWN_FILES
