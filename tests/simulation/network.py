"""Connections between simulated processes: slow, in pieces, and liable to break at any message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from klamm.protocol.api import ApiKey
from klamm.protocol.framing import FrameReader
from klamm.testing.wire import request_bytes, response_from
from simulation.faults import Faults
from simulation.loops import ProcessLoop

if TYPE_CHECKING:
    from klamm.broker.net.connection import Connection

_FIRST_PORT: Final = 40_000


class Host(Protocol):
    """The machine at the other end."""

    loop: ProcessLoop

    @property
    def is_serving(self) -> bool:
        """Whether it takes connections."""
        ...

    @property
    def is_on(self) -> bool:
        """Whether anything it does has an effect."""
        ...

    @property
    def incarnation(self) -> int: ...

    def accept(self) -> Connection: ...


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and what became of it. Moments are numbers that only grow."""

    link: Any  # what it travels on, for people
    correlation_id: int
    api_key: ApiKey
    version: int
    request: Any
    end_byte: int  # of everything sent on its connection
    wants_answer: bool = True
    sent_at_ms: int = 0
    delivered_at: int | None = None  # when the broker had all of it
    incarnation: int = -1  # of the broker it was delivered to
    answered_at: int | None = None  # when the broker sent its answer
    ended_at: int | None = None  # when the broker could do nothing more about it
    response: Any = None
    received: asyncio.Future[Any] | None = field(default=None, repr=False)

    @property
    def client(self) -> str:
        return str(self.link.client)


class Watcher(Protocol):
    """Who sees everything that passes. Nobody at either end knows."""

    def delivered(self, exchange: Exchange) -> None: ...
    def answered(self, exchange: Exchange, frame: bytes) -> None: ...
    def ended(self, exchange: Exchange) -> None:
        """The connection of a request that has no answer is gone at the broker's end."""
        ...

    def broken(self, message: str) -> None:
        """Somebody broke the rules."""
        ...

    def moment(self) -> int: ...


class DisconnectedError(Exception):
    """The connection is gone; nobody knows what became of the requests on it."""


class Network:
    """Makes connections, and knows them all."""

    def __init__(self, random: Random, loop: ProcessLoop, host: Host, watcher: Watcher) -> None:
        self.random = random
        self.loop = loop  # the clients'
        self.host = host
        self.watcher = watcher
        self.faults = Faults()
        self.links: dict[Link, None] = {}
        self._ports = _FIRST_PORT

    async def connect(self, client: str) -> Link:
        """A connection to the broker. Raises DisconnectedError when nobody listens."""
        await asyncio.sleep(self.delay_ms() / 1000)
        if not self.host.is_serving:
            raise DisconnectedError
        self._ports += 1
        link = Link(self, client, self._ports)
        self.links[link] = None
        link.open()
        return link

    def delay_ms(self) -> int:
        random = self.random
        return random.randrange(3) if random.random() < 0.9 else random.randrange(200)

    def breaks(self) -> bool:
        return self.faults.drop > 0 and self.random.random() < self.faults.drop

    def host_died(self) -> None:
        """The broker's end of every connection is gone without a word."""
        for link in list(self.links):
            link.host_died()


class Link(asyncio.Transport):
    """One connection. To the broker it is a transport, to its client a way to ask."""

    def __init__(self, network: Network, client: str, port: int) -> None:
        super().__init__({"peername": ("10.0.0.1", port)})
        self.client = client
        self.port = port
        self._network = network
        self._host_loop = network.host.loop
        self._watcher = network.watcher
        self._protocol: Connection | None = None
        self._answers = FrameReader(2**31 - 1, smallest=4, are_requests=False)
        self._next_id = 0
        self._sent_bytes = 0
        self._arrived_bytes = 0
        self._to_host: deque[bytes | None] = deque()  # None: the client hangs up
        self._last_to_host_s = 0.0
        self._last_to_client_s = 0.0
        self._to_client: deque[Exchange | None] = deque()  # None: the broker hangs up
        self._undelivered: deque[Exchange] = deque()
        self._unanswered: deque[Exchange] = deque()
        self._waiting: dict[int, Exchange] = {}  # requests whose client has heard nothing yet
        self._is_paused = False
        self._is_broken = False
        self.is_open_at_client = True
        self.is_open_at_host = True

    def open(self) -> None:
        def connect() -> None:
            if self.is_open_at_host:
                self._protocol = self._network.host.accept()
                self._protocol.connection_made(self)

        self._host_loop.call_soon(connect)

    # -- the client's end

    def send(
        self, api_key: ApiKey, version: int, request: Any, *, wants_answer: bool = True
    ) -> asyncio.Future[Any]:
        """Send a request; its answer, or DisconnectedError, comes to the future."""
        network = self._network
        self._next_id += 1
        data = request_bytes(api_key, version, request, correlation_id=self._next_id, client_id=self.client)
        received: asyncio.Future[Any] = network.loop.create_future()
        if not self.is_open_at_client:
            received.set_exception(DisconnectedError())
            return received
        self._sent_bytes += len(data)
        exchange = Exchange(
            self, self._next_id, api_key, version, request, self._sent_bytes, wants_answer,
            network.loop.clock.now_ms(), received=received,
        )  # fmt: skip
        self._undelivered.append(exchange)
        if wants_answer:
            self._unanswered.append(exchange)
            self._waiting[exchange.correlation_id] = exchange
        else:
            received.set_result(None)
        if not self._is_broken and network.breaks():
            self.break_off()
            return received
        # A message may come in pieces, which is nothing that anybody should notice.
        cut = network.random.randrange(len(data)) if network.random.random() < 0.1 else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                self._bring(piece)
        return received

    def hang_up(self) -> None:
        """The client closes; what it sent before still arrives."""
        if self.is_open_at_client:
            self._close_at_client()
            self._bring(None)

    def _bring(self, piece: bytes | None) -> None:
        if self._is_broken or not self.is_open_at_host:
            return
        self._to_host.append(piece)
        loop = self._host_loop
        self._last_to_host_s = max(self._last_to_host_s, loop.time() + self._network.delay_ms() / 1000)
        loop.call_at(self._last_to_host_s, self._arrive)

    def _arrive(self) -> None:
        """The next piece reaches the broker. Timers of one instant fire in any order, so the queue counts."""
        if self._is_paused or not self._to_host or not self.is_open_at_host or self._protocol is None:
            return
        piece = self._to_host.popleft()
        if piece is None:
            self._protocol.eof_received()
            self._close_at_host()
            return
        self._arrived_bytes += len(piece)
        while self._undelivered and self._undelivered[0].end_byte <= self._arrived_bytes:
            exchange = self._undelivered.popleft()
            exchange.delivered_at = self._watcher.moment()
            exchange.incarnation = self._network.host.incarnation
            self._watcher.delivered(exchange)
        self._protocol.data_received(piece)

    def _close_at_client(self) -> None:
        if not self.is_open_at_client:
            return
        self.is_open_at_client = False
        waiting, self._waiting = self._waiting, {}
        for exchange in waiting.values():
            if exchange.received is not None and not exchange.received.done():
                exchange.received.set_exception(DisconnectedError())
                exchange.received.exception()  # the client may have stopped listening

    # -- the broker's end

    def write(self, data: bytes | bytearray | memoryview) -> None:
        network = self._network
        if not self.is_open_at_host or not network.host.is_on:
            return
        for frame in self._answers.feed(bytes(data)):
            self._answered(frame)
        if not self._is_broken and network.breaks():
            self.break_off()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _answered(self, frame: bytes) -> None:
        watcher = self._watcher
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not self._unanswered or self._unanswered[0].correlation_id != correlation_id:
            due = self._unanswered[0].correlation_id if self._unanswered else None
            watcher.broken(f"{self} got answer {correlation_id} when {due} was due")
            return
        exchange = self._unanswered.popleft()
        if exchange.delivered_at is None:
            watcher.broken(f"{self} got an answer to {exchange.api_key.name} before all of it had come")
            return
        _, exchange.response = response_from(exchange.api_key, exchange.version, frame)
        exchange.answered_at = exchange.ended_at = watcher.moment()
        watcher.answered(exchange, frame)
        self._return(exchange)

    def _return(self, exchange: Exchange | None) -> None:
        if self._is_broken:
            return
        self._to_client.append(exchange)
        loop = self._network.loop
        self._last_to_client_s = max(self._last_to_client_s, loop.time() + self._network.delay_ms() / 1000)
        loop.call_at(self._last_to_client_s, self._come_back)

    def _come_back(self) -> None:
        if not self._to_client:
            return
        exchange = self._to_client.popleft()
        if exchange is None:
            self._close_at_client()
            return
        self._waiting.pop(exchange.correlation_id, None)
        if exchange.received is not None and not exchange.received.done():
            exchange.received.set_result(exchange.response)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        for _ in self._to_host:
            self._host_loop.call_soon(self._arrive)

    def is_closing(self) -> bool:
        return not self.is_open_at_host

    def close(self) -> None:
        """The broker closes; what it sent before still arrives."""
        if self.is_open_at_host:
            self._close_at_host()
            self._return(None)

    def abort(self) -> None:
        self.close()

    def _close_at_host(self) -> None:
        if not self.is_open_at_host:
            return
        self.is_open_at_host = False
        self._network.links.pop(self, None)
        self._to_host.clear()
        self._undelivered.clear()
        if self._protocol is not None:
            self._host_loop.call_soon(self._protocol.connection_lost, None)
        self._end_all()

    def _end_all(self) -> None:
        """Nobody will answer what is unanswered: it ended in a disconnect."""
        for exchange in self._unanswered:
            exchange.ended_at = self._watcher.moment()
            self._watcher.ended(exchange)

    # -- what goes wrong

    def break_off(self) -> None:
        """What is under way is lost; each end learns of it in its own time."""
        random = self._network.random
        self._is_broken = True
        self._to_host.clear()
        self._to_client.clear()

        def later(loop: ProcessLoop, action: Callable[[], None]) -> None:
            delay_ms = random.choice((0, 1, 100, 2_000, 20_000))
            loop.call_later(delay_ms / 1000, action)

        if self.is_open_at_host:
            later(self._host_loop, self._close_at_host)
        later(self._network.loop, self._close_at_client)

    def host_died(self) -> None:
        random = self._network.random
        self.is_open_at_host = False
        self._network.links.pop(self, None)
        self._to_host.clear()
        self._undelivered.clear()
        self._end_all()
        # What had left the machine may still arrive, or the beginning of it.
        for _ in range(random.randint(0, len(self._to_client))):
            self._to_client.pop()
        delay_ms = random.choice((0, 1, 100, 5_000))
        self._network.loop.call_later(delay_ms / 1000, self._close_at_client)

    def __str__(self) -> str:
        return f"{self.client}:{self.port}"
