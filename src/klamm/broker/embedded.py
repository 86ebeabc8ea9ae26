"""A broker inside a Python program: `with klamm.Broker() as broker: ... broker.bootstrap`.

It runs on a thread of its own with an event loop of its own, and keeps everything in memory unless it is
given a folder.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from random import Random, SystemRandom
from threading import Event, Thread
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from klamm.broker import broker as assembly
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.connection import Connection
from klamm.broker.net.server import MakeConnection
from klamm.broker.services import Arguments, Result
from klamm.broker.storage import Storage, open_storage
from klamm.broker.upkeep.periodic import SWEEP_MS
from klamm.clock import Clock, SystemClock, publish, withdraw
from klamm.config import ConfigError, RawValue

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

    from klamm.broker.embedded_nodes import Nodes
    from klamm.virtual_time.clock import VirtualClock

# Defaults for short runs; any of them can be overridden.
_SETTINGS: Final[Mapping[str, RawValue]] = {"group.initial.rebalance.delay.ms": 0}
# On virtual time every run of periodic work costs real time: a day must not consist of 86,400 of them.
_VIRTUAL_SETTINGS: Final[Mapping[str, RawValue]] = {
    "log.cleaner.backoff.ms": 600_000,
    "log.flush.offset.checkpoint.interval.ms": 6 * 3_600_000,
    "log.retention.check.interval.ms": 600_000,
    "offsets.retention.check.interval.ms": 3_600_000,
    "producer.id.expiration.check.interval.ms": 3_600_000,
    "offsets.topic.num.partitions": 1,  # each looks for expired offsets
    "transaction.state.log.num.partitions": 1,
}
_VIRTUAL_SWEEP_MS: Final = 3_600_000
MAX_BROKERS: Final = 64


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop if it is installed, else asyncio's."""
    try:
        import uvloop  # noqa: PLC0415 - it may be absent
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _clock_of(clock: Clock | str) -> Clock:
    if not isinstance(clock, str):
        return clock
    if clock == "virtual":
        # Imported here: not needed by a broker on the system's clock.
        from klamm.virtual_time.clock import VirtualClock  # noqa: PLC0415

        return VirtualClock()
    if clock != "system":
        raise ValueError(f'invalid clock {clock!r}: expected "virtual" or "system"')
    return SystemClock()


def _refuse_settings_of_up(config: BrokerConfig) -> None:
    if config.klamm_clock != "system":
        raise ConfigError("klamm.clock", 'klamm.clock is for `klamm up`: in a program, use clock="virtual"')
    if config.klamm_control_listener is not None:
        raise ConfigError(
            "klamm.control.listener",
            "klamm.control.listener is for `klamm up`: in a program, use klamm.testing.Broker",
        )


class RunInLoop:
    """Runs blocking functions in the event loop: no thread has work that a virtual clock cannot see."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()

        def run() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._loop.call_soon(run)
        return future


class Broker:
    """A broker that serves while the program runs, for tests and notebooks.

    Settings have Kafka's own names, as a mapping (`{"num.partitions": 3}`) or with underscores as keywords
    (`num_partitions=3`). With `clock="virtual"` the program moves its time: `broker.clock.advance("2h")`.

    With `brokers=3` it is a cluster of brokers 1, 2 and 3 in memory. `stop_node(2)` hands the partitions of
    broker 2 over and stops it, `kill_node(2)` ends it as a crash does, `restart_node(2)` starts it again.
    `broker_rack="east,west"` gives them racks by turns.
    """

    _has_control_port = False
    _not_in_bootstrap: Collection[str] = ()  # listeners for others than this program

    def __init__(
        self,
        data: str | Path | None = None,
        settings: Mapping[str, RawValue] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | Literal["virtual", "system"] = "system",
        brokers: int = 1,
        **more_settings: RawValue,
    ) -> None:
        if not isinstance(data, (str, os.PathLike, NoneType)):
            raise TypeError(f"data is a folder, not {data!r}; settings=... has the settings")
        if not isinstance(brokers, int):
            raise TypeError(f"brokers is a number, not {brokers!r}")
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"invalid number of brokers {brokers}: expected 1 to {MAX_BROKERS}")
        if brokers > 1 and data is not None:
            raise ValueError("several brokers in one program keep everything in memory: leave out the folder")
        if brokers > 1 and clock == "virtual":
            raise ValueError("several brokers need the clock of the system: leave out clock")
        self._host, self._port = host, port
        self._count = brokers
        self._clock = _clock_of(clock)
        self._is_virtual = hasattr(self._clock, "new_event_loop")
        given: dict[str, RawValue] = {
            **_SETTINGS,
            **(_VIRTUAL_SETTINGS if self._is_virtual else {}),
            "listeners": f"PLAINTEXT://{host}:{port}",
            **(settings or {}),
            **{name.replace("_", "."): value for name, value in more_settings.items()},
        }
        if data is not None:
            given["log.dirs"] = str(data)
        self._given = given
        self._config = BrokerConfig.from_settings(given)
        if brokers > 1 and self._config.klamm_store is not None:
            raise ValueError(
                "several brokers in one program keep everything in memory: remove klamm.store, or start each "
                "with its own node.id"
            )
        if not self._has_control_port:
            _refuse_settings_of_up(self._config)
        self._is_in_memory = data is None and self._config.klamm_store is None
        self._bootstrap = ""
        self._forget_run()

    def _forget_run(self) -> None:
        """As if it had not run yet."""
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_settled = Event()  # it serves, or its start failed
        self._failure: BaseException | None = None
        self._nodes: Nodes | None = None

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def bootstrap(self) -> str:
        """The addresses for `bootstrap.servers`."""
        if not self._bootstrap:
            raise RuntimeError("the broker has not started: use it as `with klamm.Broker() as broker`")
        return self._bootstrap

    @property
    def is_on_virtual_time(self) -> bool:
        """Whether its clock can be moved."""
        return self._is_virtual

    @property
    def clock(self) -> VirtualClock:
        """The clock of a broker on virtual time: `broker.clock.advance("2h")`."""
        if not self._is_virtual:
            raise RuntimeError(
                "this broker runs on the clock of the system, which cannot be moved: "
                'use klamm.Broker(clock="virtual")'
            )
        return cast("VirtualClock", self._clock)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped" if self._bootstrap else "not started"
        return f"<Broker {state}{self._bootstrap and ' at '}{self._bootstrap}>"

    def start(self) -> Self:
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

    @property
    def node_ids(self) -> Sequence[int]:
        """The brokers that run."""
        return sorted(self._nodes.running) if self._nodes is not None else [self._config.node_id]

    def stop(self) -> None:
        """Complete requests where possible, flush, and shut down. Does nothing if it is not running."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        if not self._is_virtual:
            self._thread.join()
            return
        with self.clock.running():  # what stops may have to wait for a time-out
            self._thread.join()

    def stop_node(self, node_id: int) -> None:
        """Stop one of several brokers, after it has handed its partitions over to the others."""
        self._run_on_nodes(lambda nodes: nodes.stop_node(node_id))

    def kill_node(self, node_id: int) -> None:
        """End one of several brokers as a crash does: the others take its partitions over a moment later."""
        self._run_on_nodes(lambda nodes: nodes.kill_node(node_id))

    def restart_node(self, node_id: int) -> None:
        """Start one of several brokers again, on the same address."""
        self._run_on_nodes(lambda nodes: nodes.start_node(node_id))

    def _run_on_nodes(self, operation: Callable[[Nodes], Coroutine[Any, Any, None]]) -> None:
        if self._nodes is None or self._loop is None:
            raise RuntimeError("there is one broker only: use klamm.Broker(brokers=3), and start it")
        asyncio.run_coroutine_threadsafe(operation(self._nodes), self._loop).result()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        loop = self._loop = self.clock.new_event_loop() if self._is_virtual else new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve() if self._count == 1 else self._serve_several())
        except BaseException as error:
            self._failure = error
        finally:
            loop.close()
            self._is_settled.set()

    async def _serve_several(self) -> None:
        # Imported here: not needed by a single broker.
        from klamm.broker.embedded_nodes import Nodes  # noqa: PLC0415

        nodes = Nodes(
            self._given,
            count=self._count,
            host=self._host,
            port=self._port,
            clock=self._clock,
            random=SystemRandom(),
            sleep=time.sleep,
        )
        self._stop = asyncio.Event()
        try:
            await nodes.start()
            self._bootstrap = ",".join(nodes.addresses)
            self._nodes = nodes
            self._is_settled.set()
            await self._stop.wait()
        finally:
            await nodes.stop()

    async def _serve(self) -> None:
        random = SystemRandom()
        is_virtual = self._is_virtual
        broker = assembly.BrokerNode(
            self._config,
            clock=self._clock,
            random=random,
            storage=self._open_storage(random),
            sleep=(lambda _seconds: None) if is_virtual else time.sleep,
            run_blocking=RunInLoop(asyncio.get_running_loop()) if is_virtual else None,
            sweep_ms=_VIRTUAL_SWEEP_MS if is_virtual else SWEEP_MS,
            aligns_chores=is_virtual,  # the fewer instants at which something is due, the faster days pass
            make_connection=self._make_connection(),
        )
        self._stop = asyncio.Event()
        try:
            await broker.start()
            self._has_started(broker)
            self._bootstrap = ",".join(
                bound.address for bound in broker.listeners if bound.name not in self._not_in_bootstrap
            )
            if is_virtual:
                for bound in broker.listeners:
                    publish((bound.listener.host, bound.port), self._clock)
                    self.clock.flows.listening |= {each.getsockname() for each in bound.sockets}
            self._is_settled.set()
            await self._stop.wait()
        finally:
            if is_virtual:
                for bound in broker.listeners:
                    withdraw((bound.listener.host, bound.port))
                self.clock.flows.listening.clear()
            await self._close(broker)

    # What klamm.testing does in another way; all of it on the broker's thread.

    def _open_storage(self, random: Random) -> Storage:
        return open_storage(
            self._config, clock=self._clock, random=random, sleep=time.sleep, in_memory=self._is_in_memory
        )

    def _make_connection(self) -> MakeConnection:
        return Connection

    def _has_started(self, broker: assembly.BrokerNode) -> None:
        """It is about to serve."""

    async def _close(self, broker: assembly.BrokerNode) -> None:
        await broker.stop()
