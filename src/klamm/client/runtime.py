"""What every client is made of: one thread, one network, one view of the cluster, and components on top."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from random import Random
from typing import Any, Protocol, TypeVar

from klamm.clock import Clock, future_on
from klamm.net.metadata import Metadata, MetadataConfig
from klamm.net.network import Aside, Network, NetworkConfig, Transport, in_place
from klamm.net.reactor import Reactor
from klamm.net.tasks import Promise, Tasks

T = TypeVar("T")


class Component(Protocol):
    """A part of a client that runs on its thread: group membership, fetching, batching, ..."""

    def tick(self, now_ms: int) -> int | None:
        """Do what is due; returns the latest instant for the next call, or None."""
        ...


class Core:
    """Network, metadata and components, driven by `on_time` and `tick`: sans-IO, so a test drives it too."""

    def __init__(
        self,
        network_config: NetworkConfig,
        metadata_config: MetadataConfig,
        *,
        transport: Transport,
        random: Random,
        now_ms: int,
        aside: Aside = in_place,
    ) -> None:
        self.random = random
        self.network = Network(network_config, transport, random, now_ms, aside)
        self.metadata = Metadata(self.network, metadata_config)
        self.tasks = Tasks(self.network)
        self.components: list[Component] = [self.tasks]

    @property
    def now_ms(self) -> int:
        return self.network.now_ms

    def on_time(self, now_ms: int) -> None:
        """Set the current time."""
        self.network.now_ms = now_ms

    def tick(self, now_ms: int) -> int | None:
        """One round: time-outs, metadata, every component; returns the instant of the next round."""
        self.network.now_ms = now_ms
        dues = [self.network.tick(), self.metadata.tick(now_ms)]
        dues += [component.tick(now_ms) for component in self.components]
        # The components may have requested metadata or opened connections with deadlines.
        dues.append(self.metadata.tick(now_ms))
        dues.append(self.network.tick())
        return min((due for due in dues if due is not None), default=None)


class ClientThread:
    """A core on a thread of its own. `ask` runs a function on that thread and returns its result."""

    def __init__(
        self,
        network_config: NetworkConfig,
        metadata_config: MetadataConfig,
        *,
        clock: Clock,
        random: Random,
        name: str,
    ) -> None:
        self.clock = clock
        self.reactor = Reactor(clock, name)
        self.core = Core(
            network_config,
            metadata_config,
            transport=self.reactor,
            random=random,
            now_ms=clock.now_ms(),
            aside=self.reactor.aside,
        )
        self.reactor.on_time = self.core.on_time
        self.reactor.on_tick = self.core.tick

    def start(self) -> None:
        self.reactor.start()

    @property
    def failure(self) -> BaseException | None:
        """What ended the thread, if it was not `stop`."""
        return self.reactor.failure

    def check(self) -> None:
        """Raise IllegalStateError when the thread has ended, or is that of a parent process."""
        self.reactor.check_fork()
        if self.reactor.failure is not None or self.reactor.is_over:
            raise self.reactor.ended()

    def ask(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` on the client's thread; its result or error as a future."""
        self.reactor.check_fork()
        return self.reactor.ask(work)

    def run(self, make: Callable[[], Coroutine[Promise[Any], None, T]]) -> Future[T]:
        """Run a coroutine on the client's thread; its result or error as a future."""
        future: Future[T] = future_on(self.clock)

        def settled(promise: Promise[T]) -> None:
            with suppress(InvalidStateError):  # cancelled, or the thread is ending
                if promise.error is not None:
                    future.set_exception(promise.error)
                else:
                    future.set_result(promise.result())

        def start() -> None:
            self.core.tasks.spawn(make()).when_done(settled)

        def not_started(asked: Future[None]) -> None:
            if (error := asked.exception()) is not None:
                with suppress(InvalidStateError):
                    future.set_exception(error)

        self.ask(start).add_done_callback(not_started)
        self.reactor.owes(future)
        return future

    def stop(self) -> None:
        """Close every connection and end the thread; in a forked child nothing: they are the parent's."""
        if self.reactor.is_inherited:
            return
        self.reactor.submit(self.core.network.close)
        self.reactor.stop()
