"""Connections to the brokers of one cluster.

Opened on demand, with backoff after failures and a time-out for each request.

Sans-IO: sockets are behind the `Transport` port, time is an argument, and nothing here blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Protocol

from klamm.errors import AuthenticationError, DisconnectedError, KlammError
from klamm.net.connection import ConnectionState, NodeConnection
from klamm.net.security.security import PLAINTEXT, Security
from klamm.net.wire import Call
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
    def lost(self, error: OSError | KlammError | None) -> None: ...


class Transport(Protocol):
    """Makes connections; must not block."""

    def connect(self, address: Address, events: LinkEvents) -> Link: ...


# Runs work that may block, and passes its result or exception on, on the owner's thread.
Aside = Callable[[Callable[[], Any], Callable[[Any, Exception | None], None]], None]


def in_place(work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
    """Run it here and now: for what has no thread to keep free."""
    result, failure = None, None
    try:
        result = work()
    except Exception as error:
        failure = error
    done(result, failure)


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
    security: Security = PLAINTEXT


MAX_EXPONENT: Final = 30


def backoff_ms(base_ms: int, max_ms: int, attempt: int, random: Random) -> int:
    """Kafka's exponential backoff with a fifth of jitter to both sides, never above the maximum."""
    term = min(max_ms, base_ms * 2 ** min(attempt, MAX_EXPONENT))
    return int(min(max_ms, term * random.uniform(0.8, 1.2)))


class Network:
    """All connections of one client. The driver sets `now_ms` before each event and tick."""

    def __init__(
        self,
        config: NetworkConfig,
        transport: Transport,
        random: Random,
        now_ms: int,
        aside: Aside = in_place,
    ) -> None:
        self.config = config
        self._plain = transport
        self.transport = config.security.over(transport)
        self.aside = aside
        self.random = random
        self.now_ms = now_ms
        self.failures: dict[Node, KlammError] = {}  # the last one of each node since it last answered
        self.unreachable: dict[Address, KlammError] = {}  # addresses that could not be connected to last time
        self._is_closing = False
        self.event_count = 0  # grows with every call, answer and loss
        self._seen_count = -1
        self._due_ms: int | None = None
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Node, NodeConnection] = {}

    def renew(self, security: Security) -> None:
        """New connections are secured like this; those that are open stay as they are."""
        self.config = replace(self.config, security=security)
        self.transport = security.over(self._plain)

    def reconnect_wait_ms(self, failures: int) -> int:
        """How long a broker is left alone after so many failures."""
        config = self.config
        return backoff_ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, failures, self.random)

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
            connection = self._from_bootstrap(node) or NodeConnection(self, node)
            self._connections[node] = connection
        connection.submit(call, self.now_ms)

    def _from_bootstrap(self, node: Node) -> NodeConnection | None:
        """The connection to a bootstrap server that is this broker: one to the same address is enough."""
        address = self._brokers.get(node.number) if node.kind == "broker" else None
        for other, connection in self._connections.items():
            if (
                other.kind == "bootstrap"
                and connection.state is ConnectionState.READY
                and self.address_of(other) == address
            ):
                del self._connections[other]
                connection.node = node
                return connection
        return None

    def has_answered(self, address: Address | None) -> bool:
        """Whether any connection to an address has ever been of use."""
        return any(
            each.has_answered and self.address_of(each.node) == address for each in self._connections.values()
        )

    def is_ready(self, node: Node) -> bool:
        connection = self._connections.get(node)
        return connection is not None and connection.state is ConnectionState.READY

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
            outlook = "" if isinstance(error, AuthenticationError) else "; retrying"
            log.warning("client %s: no connection to %s%s", self.config.client_id, error, outlook)
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
            elif connection.state is ConnectionState.READY:
                rank = (0, connection.load, 0.0)
            elif connection.state is ConnectionState.OPENING:
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
        waits = [
            item.retry_at_ms for item in self._connections.values() if item.state is ConnectionState.CLOSED
        ]
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

    @property
    def is_closing(self) -> bool:
        """Whether what fails now fails because the client is closed: no failure to report."""
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        for connection in self._connections.values():
            connection.close(DisconnectedError("the client was closed"))
