"""Connections to the brokers of one cluster.

Opened on demand, with backoff after failures and a time-out for each request.

Sans-IO: sockets are behind the `Transport` port, time is an argument, and nothing here blocks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from klamm.errors import DisconnectedError, KlammError, KlammTimeoutError, ProtocolError
from klamm.net.wire import Call, Wire
from klamm.protocol.api import ApiKey
from klamm.protocol.lazy_dataclass import dataclass
from klamm.protocol.types import Buffer

log = logging.getLogger(__name__)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Node:
    """One connection's other end. Coordinators and fetches have connections of their own, so that a long
    fetch delays neither a heartbeat nor a lookup."""

    kind: str  # "bootstrap", or what it is for: "broker", "coordinator", "fetch", "changes"
    number: int  # position in the bootstrap list, or broker id


class Link(Protocol):
    """An open or opening connection."""

    def send(self, parts: Sequence[Buffer]) -> None: ...
    def close(self) -> None: ...


class LinkEvents(Protocol):
    """What a connection reports; always from the owner's thread, never from inside `connect` or `send`."""

    def connected(self) -> None: ...
    def received(self, data: bytes) -> None: ...
    def room(self) -> memoryview | None: ...  # for what comes next; None: as `received`
    def filled(self, count: int) -> None: ...  # so many bytes of that
    def lost(self, error: OSError | None) -> None: ...


class Transport(Protocol):
    """Makes connections; must not block."""

    def connect(self, address: Address, events: LinkEvents) -> Link: ...


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The settings that concern connections."""

    bootstrap: tuple[Address, ...]
    client_id: str
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    max_response_bytes: int = 256 * 1024 * 1024


class _State(Enum):
    CLOSED = "closed"
    OPENING = "opening"  # connecting, then negotiating versions
    READY = "ready"


MAX_EXPONENT: Final = 30


def backoff_ms(base_ms: int, max_ms: int, attempt: int, random: Random) -> int:
    """Kafka's exponential backoff with a fifth of jitter to both sides, never above the maximum."""
    term = min(max_ms, base_ms * 2 ** min(attempt, MAX_EXPONENT))
    return int(min(max_ms, term * random.uniform(0.8, 1.2)))


class _Connection:
    """The connection to one node, across reconnects."""

    def __init__(self, network: Network, node: Node) -> None:
        self.network = network
        self.node = node
        self.state = _State.CLOSED
        self.wire: Wire | None = None
        self.link: Link | None = None
        self.waiting: deque[Call] = deque()
        self.failures = 0
        self.retry_at_ms = 0
        self.last_used_ms = 0
        self.opened_at_ms = 0

    @property
    def load(self) -> int:
        return len(self.waiting) + (len(self.wire.in_flight) if self.wire else 0)

    def submit(self, call: Call, now_ms: int) -> None:
        call.due_at_ms = now_ms + call.timeout_ms
        self.last_used_ms = now_ms
        if self.state is _State.READY:
            self._send(call, now_ms)
        else:
            self.waiting.append(call)
            self.open_if_due(now_ms)

    def open_if_due(self, now_ms: int) -> None:
        if self.state is not _State.CLOSED or not self.waiting or now_ms < self.retry_at_ms:
            return
        address = self.network.address_of(self.node)
        if address is None:
            self._fail_all(DisconnectedError(f"broker {self.node.number} is not in the metadata any more"))
            return
        self.state = _State.OPENING
        self.opened_at_ms = now_ms
        self.wire = Wire(self.network.config.client_id, self.network.config.max_response_bytes)
        self.link = self.network.transport.connect(address, self)

    def connected(self) -> None:
        assert self.wire is not None
        assert self.link is not None
        self.link.send(self.wire.open(self.network.config.request_timeout_ms, self.network.now_ms))

    def received(self, data: bytes) -> None:
        if self.wire is not None:
            self._take(partial(self.wire.receive, data))

    def room(self) -> memoryview | None:
        return self.wire.room() if self.wire is not None else None

    def filled(self, count: int) -> None:
        if self.wire is not None:
            self._take(partial(self.wire.filled, count))

    def _take(self, receive: Callable[[int], tuple[list[tuple[Call, Any]], list[Buffer]]]) -> None:
        wire, link = self.wire, self.link
        if wire is None or link is None:
            return
        self.last_used_ms = self.network.now_ms
        try:
            answered, to_send = receive(self.network.now_ms)
        except ProtocolError as error:
            self.close(ProtocolError(f"{self._place()}: {error}"))
            return
        except KlammError as error:
            self.close(error)
            return
        if answered or to_send:
            self.network.stir()
        if to_send:
            link.send(to_send)
        if wire.is_ready and self.state is _State.OPENING:
            self._ready()
        for call, response in answered:
            call.finish(response, None)

    def _ready(self) -> None:
        self.network.stir()
        self.state = _State.READY
        self.failures = 0
        self.network.note_success(self.node)
        waiting, self.waiting = self.waiting, deque()
        for call in waiting:
            if not call.is_done:
                self._send(call, self.network.now_ms)

    def _send(self, call: Call, now_ms: int) -> None:
        assert self.wire is not None
        assert self.link is not None
        due_at_ms = call.due_at_ms
        try:
            parts = self.wire.send(call, now_ms)
        except KlammError as error:
            call.finish(None, error)
            return
        call.due_at_ms = due_at_ms  # waiting for the connection counts
        self.link.send(parts)
        if not call.has_answer:
            call.finish(None, None)

    def lost(self, error: OSError | None) -> None:
        if self.state is _State.CLOSED:
            return
        if error is None and self.state is _State.OPENING:
            cause = "it closed the connection at once; is this a Kafka listener without TLS?"
        else:
            cause = str(error or "the broker closed the connection")
        self.close(DisconnectedError(f"{self._place()}: {cause}"))

    def _place(self) -> str:
        address = self.network.address_of(self.node)
        return f"{address[0]}:{address[1]}" if address else f"broker {self.node.number}"

    def close(self, error: KlammError) -> None:
        """Drop the connection; everything under way fails with this error."""
        self.network.stir()
        link, wire, was = self.link, self.wire, self.state
        self.state = _State.CLOSED
        self.link = self.wire = None
        if link is not None:
            link.close()
        config = self.network.config
        wait_ms = backoff_ms(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.failures, self.network.random
        )
        self.retry_at_ms = self.network.now_ms + wait_ms
        self.failures += 1
        if was is not _State.CLOSED:
            self.network.note_failure(self.node, error, was_opening=was is _State.OPENING)
        if wire is not None:
            for _, call in wire.in_flight:
                call.finish(None, error)
        self._fail_all(error)

    def _fail_all(self, error: KlammError) -> None:
        self.network.stir()
        waiting, self.waiting = self.waiting, deque()
        for call in waiting:
            call.finish(None, error)

    def tick(self, now_ms: int) -> int | None:
        """Expire requests that are due; returns the instant of the next check."""
        if self.state is _State.OPENING and now_ms >= self._opened_by_ms():
            self._give_up_opening()
        self._expire_waiting(now_ms)
        if self.wire is not None and self.wire.in_flight:
            _, oldest = self.wire.in_flight[0]
            # Responses arrive in order: if the first is overdue, the connection is broken.
            late = next((call for _, call in self.wire.in_flight if call.due_at_ms <= now_ms), None)
            if late is not None:
                asked = ApiKey(oldest.api_key).name
                self.close(
                    KlammTimeoutError(f"{self._place()}: no response to {asked} within {late.timeout_ms} ms")
                )
        idle_ms = self.network.config.connections_max_idle_ms
        if self.state is _State.READY and not self.load and now_ms - self.last_used_ms >= idle_ms:
            self._close_idle()
        self.open_if_due(now_ms)
        return self._next_due()

    def _opened_by_ms(self) -> int:
        return self.opened_at_ms + self.network.config.request_timeout_ms

    def _give_up_opening(self) -> None:
        """Connecting failed, or the peer does not respond: try another address, or again."""
        is_connected = self.wire is not None and bool(self.wire.in_flight)
        missing = "connected, but got no response to API_VERSIONS" if is_connected else "no connection"
        limit_ms = self.network.config.request_timeout_ms
        self.close(KlammTimeoutError(f"{self._place()}: {missing} within {limit_ms} ms"))

    def _close_idle(self) -> None:
        link, self.link, self.wire = self.link, None, None
        self.state = _State.CLOSED
        self.retry_at_ms = 0
        if link is not None:
            link.close()

    def _expire_waiting(self, now_ms: int) -> None:
        if not any(call.due_at_ms <= now_ms for call in self.waiting):
            return
        kept: deque[Call] = deque()
        late: list[Call] = []
        for call in self.waiting:
            (late if call.due_at_ms <= now_ms else kept).append(call)
        self.waiting = kept
        self.network.stir()
        for call in late:
            cause = self.network.failures.get(self.node)
            reason = f"; last error: {cause}" if cause else ""
            call.finish(None, KlammTimeoutError(f"no connection within {call.timeout_ms} ms{reason}"))

    def _next_due(self) -> int | None:
        dues = [call.due_at_ms for call in self.waiting]
        if self.waiting and self.state is _State.CLOSED:
            dues.append(self.retry_at_ms)
        if self.wire is not None:
            dues += [call.due_at_ms for _, call in self.wire.in_flight]
        if self.state is _State.OPENING:
            dues.append(self._opened_by_ms())
        if self.state is _State.READY:
            dues.append(self.last_used_ms + self.network.config.connections_max_idle_ms)
        return min(dues, default=None)


class Network:
    """All connections of one client. The driver sets `now_ms` before each event and tick."""

    def __init__(self, config: NetworkConfig, transport: Transport, random: Random, now_ms: int) -> None:
        self.config = config
        self.transport = transport
        self.random = random
        self.now_ms = now_ms
        self.failures: dict[Node, KlammError] = {}  # the last one of each node since it last answered
        self.unreachable: dict[Address, KlammError] = {}  # addresses that could not be connected to last time
        self._is_closing = False
        self.event_count = 0  # grows with every call, answer and loss
        self._seen_count = -1
        self._due_ms: int | None = None
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Node, _Connection] = {}

    def stir(self) -> None:
        """Make the next tick check everything."""
        self.event_count += 1

    def address_of(self, node: Node) -> Address | None:
        """The address of a node; None if the metadata does not have it."""
        if node.kind == "bootstrap":
            return self.config.bootstrap[node.number]
        return self._brokers.get(node.number)

    def set_brokers(self, brokers: Mapping[int, Address]) -> None:
        """Apply new metadata; connections to former addresses are dropped."""
        moved = {
            number for number, address in self._brokers.items() if brokers.get(number, address) != address
        }
        self._brokers = dict(brokers)
        for node, connection in list(self._connections.items()):
            if node.kind != "bootstrap" and node.number in moved and connection.link is not None:
                connection.close(DisconnectedError(f"broker {node.number} moved to another address"))

    def call(self, node: Node, call: Call) -> None:
        """Send once connected; connects if necessary. `on_done` receives the response."""
        self.stir()
        connection = self._connections.get(node)
        if connection is None:
            connection = self._from_bootstrap(node) or _Connection(self, node)
            self._connections[node] = connection
        connection.submit(call, self.now_ms)

    def _from_bootstrap(self, node: Node) -> _Connection | None:
        """The connection to a bootstrap server that is this broker: one to the same address is enough."""
        address = self._brokers.get(node.number) if node.kind == "broker" else None
        for other, connection in self._connections.items():
            if (
                other.kind == "bootstrap"
                and connection.state is _State.READY
                and self.address_of(other) == address
            ):
                del self._connections[other]
                connection.node = node
                return connection
        return None

    def is_ready(self, node: Node) -> bool:
        connection = self._connections.get(node)
        return connection is not None and connection.state is _State.READY

    def in_flight(self, node: Node) -> int:
        connection = self._connections.get(node)
        return connection.load if connection else 0

    def features(self, node: Node) -> Mapping[str, int]:
        """The finalised features of a node, once it is ready."""
        connection = self._connections.get(node)
        return connection.wire.features if connection and connection.wire else {}

    def disconnect(self, node: Node, reason: str) -> None:
        connection = self._connections.get(node)
        if connection is not None and connection.link is not None:
            connection.close(DisconnectedError(reason))

    def note_failure(self, node: Node, error: KlammError, *, was_opening: bool) -> None:
        """A connection ended, or could not be opened: log the first failure of an outage."""
        self.failures[node] = error
        address = self.address_of(node)
        if not was_opening or address is None or self._is_closing:
            return
        if address not in self.unreachable:
            log.warning("client %s: no connection to %s; retrying", self.config.client_id, error)
        self.unreachable[address] = error

    def note_success(self, node: Node) -> None:
        """A connection can be used."""
        self.failures.pop(node, None)
        address = self.address_of(node)
        if address is not None and self.unreachable.pop(address, None) is not None:
            log.info("client %s: connected to %s:%d again", self.config.client_id, *address)

    def least_loaded(self) -> Node | None:
        """Ready with fewest in flight, else opening, else the longest not tried; never one backing off.

        While no broker can be reached, bootstrap servers at other addresses count, too: a cluster that has
        moved is found again (KIP-899).
        """
        chosen = self._least_loaded([Node("broker", number) for number in self._brokers])
        if chosen is not None:
            return chosen
        known = set(self._brokers.values())
        servers = [
            Node("bootstrap", index)
            for index, address in enumerate(self.config.bootstrap)
            if address not in known
        ]
        return self._least_loaded(servers)

    def _least_loaded(self, nodes: list[Node]) -> Node | None:
        best: tuple[int, int, float] | None = None
        chosen = None
        for node in nodes:
            connection = self._connections.get(node)
            if connection is None:
                rank = (2, 0, self.random.random() - 2)
            elif connection.state is _State.READY:
                rank = (0, connection.load, 0.0)
            elif connection.state is _State.OPENING:
                rank = (1, connection.load, 0.0)
            elif self.now_ms < connection.retry_at_ms:
                continue
            else:
                rank = (2, 0, float(connection.opened_at_ms))
            if best is None or rank < best:
                best, chosen = rank, node
        return chosen

    def retry_at_ms(self) -> int | None:
        """When the first node that is backing off may be tried again."""
        waits = [item.retry_at_ms for item in self._connections.values() if item.state is _State.CLOSED]
        return min((at_ms for at_ms in waits if at_ms > self.now_ms), default=None)

    def tick(self) -> int | None:
        """Time out and reopen; the instant at which to be called again.

        A large response arrives in many parts; between them there is nothing to check.
        """
        if self.event_count == self._seen_count and (self._due_ms is None or self.now_ms < self._due_ms):
            return self._due_ms
        self._seen_count = self.event_count
        dues = [connection.tick(self.now_ms) for connection in list(self._connections.values())]
        self._due_ms = min((due for due in dues if due is not None), default=None)
        return self._due_ms

    def close(self) -> None:
        self._is_closing = True
        for connection in self._connections.values():
            connection.close(DisconnectedError("the client was closed"))
