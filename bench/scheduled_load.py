"""Load at fixed instants: how long does a Produce take at a given rate, and how much of that is the disk?

Requests leave when they are due, on a few connections, whether or not earlier ones are answered, and each is
timed from the instant at which it was due: a pause of the broker shows in all requests that it delayed. So
does a pause of the load itself, which is why its own delay is measured, too. One thread does it with
`select`, whose time-out has microseconds. `scheduled_syncs` writes and syncs a file at
the same rate, without a broker.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.raw_load import connect, produce_request

RECORD_BYTES = 100


@dataclass(frozen=True, slots=True)
class Distribution:
    """Durations in milliseconds."""

    median_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float

    @property
    def all_ms(self) -> tuple[float, float, float, float]:
        return self.median_ms, self.p99_ms, self.p999_ms, self.max_ms

    @classmethod
    def of(cls, took_s: list[float]) -> Distribution:
        ordered = sorted(took_s)

        def at(part: float) -> float:
            return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000

        return cls(at(0.5), at(0.99), at(0.999), at(1))


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A pause of the load generator must not look like one of the broker."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def scheduled_produce(
    address: tuple[str, int], topic: str, *, connections: int, per_second: int, count: int
) -> tuple[Distribution, Distribution]:
    """Latencies of acks=all requests of one record, in turn on connections with a partition each.

    And how much too late they were sent, which is part of that.
    """
    now_ms = int(time.time() * 1000)
    requests = [
        [produce_request(topic, partition, value_bytes=RECORD_BYTES, now_ms=now_ms)]
        for partition in range(connections)
    ]
    schedule = Schedule(address, requests, per_second)
    with no_garbage_collection():
        took_s = schedule.run(lambda sent: sent < count)
    schedule.close()
    return Distribution.of(took_s), Distribution.of(schedule.late_s)


class Schedule:
    """Requests at fixed instants, in turn on connections that have some each."""

    def __init__(
        self, address: tuple[str, int], requests: Sequence[Sequence[bytes]], per_second: int
    ) -> None:
        self._sockets = [connect(address) for _ in requests]
        self._requests = requests
        self._interval_s = 1 / per_second
        self._due: dict[socket.socket, deque[float]] = {each: deque() for each in self._sockets}
        self._received = {each: bytearray() for each in self._sockets}
        self._sent = 0
        self.late_s: list[float] = []  # how much too late each was sent

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def run(self, goes_on: Callable[[int], bool]) -> list[float]:
        """Send as long as that says so, told how many are sent, and wait for the answers.

        Seconds of each request, from the instant at which it was due.
        """
        took_s: list[float] = []
        first_due = time.perf_counter() + 0.05
        sent = 0
        while (is_sending := goes_on(sent)) or len(took_s) < sent:
            wait_s = 30.0
            if is_sending:
                due = first_due + sent * self._interval_s
                wait_s = due - time.perf_counter()
                if wait_s <= 0:
                    self.late_s.append(-wait_s)
                    self._send(due)
                    sent += 1
                    wait_s = 0
            readable, _, _ = select.select(self._sockets, (), (), wait_s)
            now = time.perf_counter()
            if not readable and wait_s == 30.0:
                raise TimeoutError("no answer for 30 s")
            for each in readable:
                for _ in range(self._answers(each)):
                    took_s.append(now - self._due[each].popleft())
        return took_s

    def _send(self, due: float) -> None:
        turn, number = divmod(self._sent, len(self._sockets))
        self._sent += 1
        requests = self._requests[number]
        self._due[self._sockets[number]].append(due)
        self._sockets[number].sendall(requests[turn % len(requests)])

    def _answers(self, connection: socket.socket) -> int:
        """Take what has arrived; how many answers are complete now."""
        pending = self._received[connection]
        chunk = connection.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        pending += chunk
        answers = 0
        while len(pending) >= 4 and len(pending) >= (size := 4 + int.from_bytes(pending[:4], "big")):
            del pending[:size]
            answers += 1
        return answers


def scheduled_syncs(folder: Path, *, per_second: int, count: int) -> Distribution:
    """fdatasync of a few hundred bytes inside a file of this folder, at a fixed rate."""
    path = folder / "synced"
    took_s: list[float] = []
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(handle, bytes(1 << 20), 0)
        os.fsync(handle)
        with no_garbage_collection():
            due = time.perf_counter() + 0.05
            for number in range(count):
                time.sleep(max(0.0, due - time.perf_counter()))
                began_at = time.perf_counter()
                os.pwrite(handle, bytes(256), number * 256 % (1 << 20))
                os.fdatasync(handle)
                ended_at = time.perf_counter()
                took_s.append(ended_at - began_at)
                due = max(due + 1 / per_second, ended_at)
    finally:
        os.close(handle)
        path.unlink()
    return Distribution.of(took_s)
