"""The connection to one broker, across reconnects: versions, login, requests in order, time-outs.

Sans-IO, as the network that it is part of.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from klamm.errors import (
    AuthenticationError,
    DisconnectedError,
    KlammError,
    KlammTimeoutError,
    ProtocolError,
)
from klamm.net.wire import Call, Wire
from klamm.protocol.api import ApiKey
from klamm.protocol.types import Buffer

if TYPE_CHECKING:
    from klamm.net.network import Link, Network, Node
    from klamm.net.security.sasl import Mechanism
    from klamm.net.security.tokens import Token

log = logging.getLogger(__name__)

LOGIN_RETRY_MS: Final = 1_000  # between attempts to get a token for the next session
LOGIN_AGAIN: Final = (0.85, 0.95)  # the part of a session after which the next begins, as Kafka's clients


class ConnectionState(Enum):
    """Of a connection."""

    CLOSED = "closed"
    OPENING = "opening"  # connecting, then negotiating versions and logging in
    READY = "ready"


class NodeConnection:
    """The connection to one node, across reconnects."""

    def __init__(self, network: Network, node: Node) -> None:
        self.network = network
        self.node = node
        self.state = ConnectionState.CLOSED
        self.wire: Wire | None = None
        self.link: Link | None = None
        self.waiting: deque[Call] = deque()
        self.failures = 0
        self.retry_at_ms = 0
        self.last_used_ms = 0
        self.opened_at_ms = 0
        self.login_due_at_ms: int | None = None  # when to begin the next session
        self._suspects_sasl = False  # it closed a connection without a login at the first request
        self._has_answered = False  # on a connection before this one

    @property
    def load(self) -> int:
        return len(self.waiting) + (len(self.wire.in_flight) if self.wire else 0)

    def submit(self, call: Call, now_ms: int) -> None:
        call.due_at_ms = now_ms + call.timeout_ms
        self.last_used_ms = now_ms
        if self.state is ConnectionState.READY and not self._is_logging_in:
            self._send(call, now_ms)
        else:
            self.waiting.append(call)
            self.open_if_due(now_ms)

    @property
    def has_answered(self) -> bool:
        """Whether a request of the client was ever answered here."""
        return self._has_answered or (self.wire is not None and self.wire.has_answered)

    @property
    def _is_logging_in(self) -> bool:
        return self.wire is not None and self.wire.is_logging_in

    def open_if_due(self, now_ms: int) -> None:
        if self.state is not ConnectionState.CLOSED or not self.waiting or now_ms < self.retry_at_ms:
            return
        address = self.network.address_of(self.node)
        if address is None:
            self._fail_all(DisconnectedError(f"broker {self.node.number} is not in the metadata any more"))
            return
        self.state = ConnectionState.OPENING
        self.opened_at_ms = now_ms
        self.wire = Wire(self.network.config.client_id, self.network.config.max_response_bytes)
        self.link = self.network.transport.connect(address, self)

    def connected(self) -> None:
        wire = self.wire
        assert wire is not None

        def log_in(mechanism: Mechanism | None) -> None:
            link = self.link
            assert link is not None
            timeout_ms, now_ms = self.network.config.request_timeout_ms, self.network.now_ms
            # Asked once: a broker that does not know the question may close the connection, too.
            asks, self._suspects_sasl = self._suspects_sasl, False
            link.send(wire.open(timeout_ms, now_ms, mechanism, asks_for_sasl=asks))

        if self.network.config.security.has_sasl:
            self._with_mechanism(wire, log_in, self._refused)
        else:
            log_in(None)

    def _with_mechanism(
        self, wire: Wire, use: Callable[[Mechanism], None], refuse: Callable[[KlammError], None]
    ) -> None:
        """Call `use` with the means for a login, at once or when there is a token; or `refuse`."""
        security = self.network.config.security
        if security.login is not None:
            use(security.login())
            return
        assert security.tokens is not None

        def got(token: Token | None, error: KlammError | None) -> None:
            if self.wire is not wire:
                return  # closed meanwhile
            self.network.stir()
            if token is not None:
                use(token.mechanism())
            else:
                assert error is not None
                refuse(error)

        security.tokens.get(self.network.now_ms, self.network.aside, got)

    def _log_in_again(self, now_ms: int) -> None:
        """Begin a new session before the broker ends this one (KIP-368); requests wait for it."""
        wire = self.wire
        assert wire is not None
        self.login_due_at_ms = None
        config = self.network.config

        def again(mechanism: Mechanism) -> None:
            assert self.link is not None
            self.link.send(wire.log_in_again(mechanism, config.request_timeout_ms, self.network.now_ms))

        def later(error: KlammError) -> None:
            log.warning("client %s: no new session with %s: %s", config.client_id, self._place(), error)
            self.login_due_at_ms = now_ms + max(LOGIN_RETRY_MS, config.reconnect_backoff_max_ms)

        self._with_mechanism(wire, again, later)

    def _refused(self, error: KlammError) -> None:
        """There is no token, or the broker refused: the connection is of no use."""
        self.close(self._placed(error))

    def _placed(self, error: KlammError) -> KlammError:
        """The same error, with the broker's address."""
        placed = type(error)(f"{self._place()}: {error}")
        placed.__cause__ = error.__cause__
        return placed

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
        was_open = wire.is_ready and not wire.is_logging_in
        try:
            answered, to_send = receive(self.network.now_ms)
        except (ProtocolError, AuthenticationError) as error:
            self.close(self._placed(error))
            return
        except KlammError as error:
            self.close(error)
            return
        if answered or to_send:
            self.network.stir()
        if to_send:
            link.send(to_send)
        if wire.is_ready and not was_open and not wire.is_logging_in:
            self._ready()
        for call, response in answered:
            call.finish(response, None)

    def _ready(self) -> None:
        """Requests may be sent: the connection is open, or has a new session."""
        assert self.wire is not None
        self.network.stir()
        self.state = ConnectionState.READY
        self.failures = 0
        lifetime_ms = self.wire.session_lifetime_ms
        self.login_due_at_ms = None
        if lifetime_ms > 0:
            part = self.network.random.uniform(*LOGIN_AGAIN)
            self.login_due_at_ms = self.network.now_ms + int(lifetime_ms * part)
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

    def lost(self, error: OSError | KlammError | None) -> None:
        if self.state is ConnectionState.CLOSED:
            return
        if isinstance(error, KlammError):
            self.close(self._placed(error))
            return
        if error is None and self.state is ConnectionState.OPENING:
            cause = "it closed the connection at once; for TLS set security.protocol to SSL or SASL_SSL"
        elif error is None and self.wire is not None and self.wire.may_need_login:
            self._suspects_sasl = not self.network.has_answered(self.network.address_of(self.node))
            cause = (
                "the broker closed the connection at the first request; if the listener requires SASL, set "
                "security.protocol to SASL_SSL or SASL_PLAINTEXT"
            )
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
        self._has_answered = self.has_answered
        self.state = ConnectionState.CLOSED
        self.link = self.wire = None
        self.login_due_at_ms = None
        if link is not None:
            link.close()
        self.retry_at_ms = self.network.now_ms + self.network.reconnect_wait_ms(self.failures)
        self.failures += 1
        if was is not ConnectionState.CLOSED:
            self.network.note_failure(self.node, error, was_opening=was is ConnectionState.OPENING)
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
        if self.state is ConnectionState.OPENING and now_ms >= self._opened_by_ms():
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
        login_due_at_ms = self.login_due_at_ms
        if login_due_at_ms is not None and now_ms >= login_due_at_ms and self.state is ConnectionState.READY:
            self._log_in_again(now_ms)
        idle_ms = self.network.config.connections_max_idle_ms
        if self.state is ConnectionState.READY and not self.load and now_ms - self.last_used_ms >= idle_ms:
            self._close_idle()
        self.open_if_due(now_ms)
        return self._next_due()

    def _opened_by_ms(self) -> int:
        return self.opened_at_ms + self.network.config.request_timeout_ms

    def _give_up_opening(self) -> None:
        """Connecting failed, or the peer does not respond: try another address, or again."""
        is_connected = self.wire is not None and bool(self.wire.in_flight)
        missing = "no connection"
        if is_connected and self.wire is not None:
            asked = ApiKey(self.wire.in_flight[0][1].api_key).name
            missing = f"connected, but got no response to {asked}"
        limit_ms = self.network.config.request_timeout_ms
        self.close(KlammTimeoutError(f"{self._place()}: {missing} within {limit_ms} ms"))

    def _close_idle(self) -> None:
        self._has_answered = self.has_answered
        link, self.link, self.wire = self.link, None, None
        self.login_due_at_ms = None
        self.state = ConnectionState.CLOSED
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
        if self.waiting and self.state is ConnectionState.CLOSED:
            dues.append(self.retry_at_ms)
        if self.wire is not None:
            dues += [call.due_at_ms for _, call in self.wire.in_flight]
        if self.state is ConnectionState.OPENING:
            dues.append(self._opened_by_ms())
        if self.login_due_at_ms is not None:
            dues.append(self.login_due_at_ms)
        if self.state is ConnectionState.READY:
            dues.append(self.last_used_ms + self.network.config.connections_max_idle_ms)
        return min(dues, default=None)
