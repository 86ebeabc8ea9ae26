"""Requests to other brokers of the cluster, over `inter.broker.listener.name`.

One connection per broker and kind, opened when it is needed. A request fails with a KlammError when its
broker is not in the image, cannot be reached, or does not respond in time; callers look at the image and try
again.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, Task, TimerHandle
from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random
from typing import Any, Final, TypeVar

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.topic_names import ADMIN_CLIENT_ID
from klamm.clock import Clock
from klamm.errors import DisconnectedError, KlammError
from klamm.net.network import Address, Link, LinkEvents, Network, NetworkConfig, Node, Transport
from klamm.net.security.security import PLAINTEXT, Security
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.message import Request

Response = TypeVar("Response")

TIMEOUT_MS: Final = 10_000  # a broker that takes longer is treated as unreachable
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024


class Peers:
    """The other brokers. Everything happens on the event loop."""

    def __init__(
        self,
        image: ClusterImage,
        listener: str,
        *,
        transport: Transport,
        loop: AbstractEventLoop,
        clock: Clock,
        random: Random,
        security: Security = PLAINTEXT,
    ) -> None:
        """`security` is what their listener asks for."""
        self._image = image
        self._listener = listener
        self._loop = loop
        self._now_ms = clock.now_ms
        config = NetworkConfig(
            bootstrap=(),
            client_id=ADMIN_CLIENT_ID,  # events go to an internal topic
            request_timeout_ms=TIMEOUT_MS,
            max_response_bytes=MAX_RESPONSE_BYTES,
            security=security,
        )
        self._transport = transport
        self._network = Network(config, self, random, clock.now_ms(), self._aside)
        self._asides: set[Task[None]] = set()  # they would be collected otherwise
        self._kinds: set[str] = set()  # of connections
        self._addresses: dict[int, Address] = {}
        self._timer: TimerHandle | None = None
        self._is_closed = False
        self.brokers_changed()

    def ask(
        self,
        broker_id: int,
        api_key: ApiKey,
        request: Request[Response],
        *,
        kind: str = "broker",
        timeout_ms: int = TIMEOUT_MS,
    ) -> Future[Response]:
        """Send a request; the response, or the KlammError that ended it.

        Requests of another `kind` have a connection of their own: they do not delay these.
        """
        future: Future[Response] = self._loop.create_future()

        def done(response: Any, error: KlammError | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(response)

        network = self._network
        network.now_ms = self._now_ms()
        if self._is_closed or broker_id not in self._addresses:
            future.set_exception(DisconnectedError(f"broker {broker_id} is not reachable"))
            return future
        self._kinds.add(kind)
        network.call(Node(kind, broker_id), Call(api_key, request, done, timeout_ms))
        self._tick()
        return future

    @property
    def security(self) -> Security:
        """What new connections use."""
        return self._network.config.security

    def renew(self, security: Security) -> None:
        """Certificates are new: connections that are open keep theirs."""
        self._network.renew(security)

    def brokers_changed(self) -> None:
        """The image has other brokers: requests to those that do not run any more fail at once."""
        addresses = {
            each.broker_id: address
            for each in self._image.running_brokers()
            if (address := each.listeners.get(self._listener)) is not None
        }
        if addresses == self._addresses:
            return
        gone = self._addresses.keys() - addresses.keys()
        self._addresses = addresses
        self._network.now_ms = self._now_ms()
        for broker_id, kind in product(gone, self._kinds):
            self._network.disconnect(Node(kind, broker_id), f"broker {broker_id} does not run any more")
        self._network.set_brokers(addresses)
        self._tick()

    # --- between the network and the loop ----------------------------------------------------------------

    def connect(self, address: Address, events: LinkEvents) -> Link:
        """Open a connection, as a Transport does."""
        return self._transport.connect(address, _Timed(self, events))

    def _aside(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Run what may block, such as asking for a token, on another thread."""

        async def run() -> None:
            result, failure = None, None
            try:
                result = await self._loop.run_in_executor(None, work)
            except Exception as error:
                failure = error
            if not self._is_closed:
                self.happened(partial(done, result, failure))

        task = self._loop.create_task(run())
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    def happened(self, event: Callable[[], None]) -> None:
        """Something arrived from a connection."""
        self._network.now_ms = self._now_ms()
        event()
        self._tick()

    def _tick(self) -> None:
        """Look for requests that are late, and for connections that are due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed:
            return
        self._network.now_ms = now_ms = self._now_ms()
        due_at_ms = self._network.tick()
        if due_at_ms is not None:
            self._timer = self._loop.call_later(max(0, due_at_ms - now_ms) / 1000, self._tick)

    def close(self) -> None:
        """Drop all connections; requests under way fail."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._network.close()


class _Timed:
    """The events of one connection; the network learns the time before each."""

    def __init__(self, peers: Peers, events: LinkEvents) -> None:
        self._peers = peers
        self._events = events

    def connected(self) -> None:
        self._peers.happened(self._events.connected)

    def received(self, data: bytes) -> None:
        self._peers.happened(partial(self._events.received, data))

    def room(self) -> memoryview | None:
        return self._events.room()

    def filled(self, count: int) -> None:
        self._peers.happened(partial(self._events.filled, count))

    def lost(self, error: OSError | KlammError | None) -> None:
        self._peers.happened(partial(self._events.lost, error))
