"""Time that a test moves, for client and broker alike, and a broker that goes away and comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import klamm
from interop.kafka_tools import free_port

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
SETTINGS: Final[dict[str, Any]] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
    "offsets.retention.check.interval.ms": 20,
    "transactional.id.expiration.ms": 2**31 - 1,  # of interest here is what the offsets say
    "log.retention.ms": -1,
    "auto.create.topics.enable": False,
    "transaction.two.phase.commit.enable": True,
}


class Time:
    """The system's clocks, and what the test adds."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def pass_by(self, duration_ms: int) -> None:
        self.ahead_ms += duration_ms


class Host:
    """A broker that can go away and come back with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.start()

    def start(self) -> None:
        self._broker = klamm.Broker(self._folder, SETTINGS, port=self._port).start()
        self.bootstrap = self._broker.bootstrap

    def stop(self) -> None:
        self._broker.stop()


def in_background(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def pass_until_failed(time: Time, future: Future[Any]) -> BaseException | None:
    """Let time pass in steps until the work ends, for a minute of real time at most; what it raised."""
    for _ in range(3000):
        time.pass_by(5 * SECOND_MS)
        with suppress(TimeoutError):
            return future.exception(0.02)
    raise AssertionError("the work did not end")


def pass_slowly(time: Time, duration_ms: int, future: Future[Any]) -> None:
    """Let time pass in steps, each of which those that wait can see."""
    waiting = threading.Event()
    for _ in range(duration_ms // (5 * SECOND_MS)):
        time.pass_by(5 * SECOND_MS)
        waiting.wait(0.02)
        if future.done():
            return
