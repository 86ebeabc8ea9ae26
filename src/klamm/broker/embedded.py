"""A broker inside a Python program: `with klamm.Broker() as broker: ... broker.bootstrap`.

It runs on a thread of its own with an event loop of its own, and keeps everything in memory unless it is
given a folder.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from threading import Event, Thread
from types import NoneType, TracebackType
from typing import Final

from klamm.broker import broker as assembly
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.storage import open_storage
from klamm.clock import Clock, SystemClock
from klamm.config import RawValue

# Defaults for short runs; any of them can be overridden.
_SETTINGS: Final[Mapping[str, RawValue]] = {"group.initial.rebalance.delay.ms": 0}


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop if it is installed, else asyncio's."""
    try:
        import uvloop  # noqa: PLC0415 - it may be absent
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Broker:
    """A broker that serves while the program runs, for tests and notebooks.

    Settings have Kafka's own names, as a mapping (`{"num.partitions": 3}`) or with underscores as keywords
    (`num_partitions=3`).
    """

    def __init__(
        self,
        data: str | Path | None = None,
        settings: Mapping[str, RawValue] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        **more_settings: RawValue,
    ) -> None:
        if not isinstance(data, (str, Path, NoneType)):
            raise TypeError(f"data is a folder, not {data!r}; settings=... has the settings")
        given: dict[str, RawValue] = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{host}:{port}",
            **(settings or {}),
            **{name.replace("_", "."): value for name, value in more_settings.items()},
        }
        if data is not None:
            given["log.dirs"] = str(data)
        self._config = BrokerConfig.from_settings(given)
        self._is_in_memory = data is None
        self._clock = clock or SystemClock()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_settled = Event()  # it serves, or its start failed
        self._failure: BaseException | None = None
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """The addresses for `bootstrap.servers`."""
        if not self._bootstrap:
            raise RuntimeError("the broker has not started: use it as `with klamm.Broker() as broker`")
        return self._bootstrap

    def start(self) -> Broker:
        """Serve from now on. Raises StartError."""
        if self._thread is not None:
            raise RuntimeError("a broker starts once: make another one")
        self._thread = Thread(target=self._run, name="klamm broker", daemon=True)
        self._thread.start()
        self._is_settled.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Complete requests where possible, flush, and shut down. Does nothing if it is not running."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        loop = self._loop = new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            loop.close()
            self._is_settled.set()

    async def _serve(self) -> None:
        random = SystemRandom()
        storage = open_storage(self._config, clock=self._clock, random=random, in_memory=self._is_in_memory)
        broker = assembly.Broker(
            self._config, clock=self._clock, random=random, storage=storage, sleep=time.sleep
        )
        self._stop = asyncio.Event()
        try:
            await broker.start()
            self._bootstrap = ",".join(bound.address for bound in broker.listeners)
            self._is_settled.set()
            await self._stop.wait()
        finally:
            await broker.stop()
