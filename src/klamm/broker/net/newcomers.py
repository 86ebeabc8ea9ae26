"""Connections that are not authenticated yet: how many there may be, for how long, and what they may send."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

    from klamm.broker.net.connection_limits import ConnectionLimits
    from klamm.broker.services import Services

MOST_BUFFERED_BYTES: Final = 32 * 1024 * 1024  # requests of all of them that are not complete
FAILURES_PER_WINDOW: Final = 20
FAILURE_WINDOW_MS: Final = 60_000
DELAY_S: Final = 1.0  # of a connection of an address that failed so often
_MOST_ADDRESSES: Final = 10_000


class Newcomer(Protocol):
    """One of them."""

    def abort(self) -> None: ...


class Admission(Protocol):
    """What lets them in, and is told when they are more than that, or gone."""

    loop: asyncio.AbstractEventLoop

    def admit(self, newcomer: Newcomer, transport: asyncio.Transport, listener: str, /) -> bool: ...
    def leave(self, newcomer: Newcomer, /) -> None: ...


class Newcomers:
    """Those of one broker. They cannot take the place of clients that are authenticated."""

    def __init__(
        self,
        services: Services,
        limits: ConnectionLimits,
        report: Callable[[str, str], None],  # peer and reason of a refusal
    ) -> None:
        self.loop = services.loop
        self._services = services
        self._limits = limits
        self._report = report
        self._admitted: dict[
            Newcomer, tuple[str, str, asyncio.TimerHandle]
        ] = {}  # listener, address, deadline
        self._by_address: Counter[str] = Counter()
        self._buffered_bytes = 0
        self._failures: dict[str, deque[int]] = {}  # when logins from an address failed

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, newcomer: Newcomer, transport: asyncio.Transport, listener: str) -> bool:
        """Whether there is room; else its transport is aborted. It has some time to become more than this."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "?"
        config = self._services.config
        limit = self._limits.exceeded(listener, address)
        if limit is None and len(self) >= config.klamm_max_unauthenticated_connections:
            limit = "klamm.max.unauthenticated.connections"
        if limit is None and self._by_address[address] >= config.klamm_max_unauthenticated_connections_per_ip:
            limit = "klamm.max.unauthenticated.connections.per.ip"
        if limit is not None:
            self._report(f"{address}:{peer[1]}" if peer else "?", f"{limit} is reached")
            transport.abort()
            return False
        self._by_address[address] += 1
        self._limits.opened(listener, address)
        within_ms = config.klamm_login_timeout_ms
        timer = self.loop.call_later(within_ms / 1000, self._too_late, newcomer, peer, within_ms)
        self._admitted[newcomer] = listener, address, timer
        return True

    def _too_late(self, newcomer: Newcomer, peer: tuple[str, int] | None, within_ms: int) -> None:
        shown = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._report(shown, f"not authenticated within {within_ms} ms")
        self.leave(newcomer)
        newcomer.abort()

    def leave(self, newcomer: Newcomer) -> None:
        """It is authenticated, or gone."""
        found = self._admitted.pop(newcomer, None)
        if found is None:
            return
        listener, address, timer = found
        timer.cancel()
        self._limits.closed(listener, address)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def abort_all(self) -> None:
        for newcomer in list(self._admitted):
            newcomer.abort()

    # Memory

    def may_buffer(self, change_bytes: int) -> bool:
        """Account for bytes of a request that is not complete; whether there is room for them."""
        self._buffered_bytes += change_bytes
        return change_bytes <= 0 or self._buffered_bytes <= MOST_BUFFERED_BYTES

    # Guessing

    def failed(self, address: str) -> None:
        """A login from this address was refused."""
        if len(self._failures) >= _MOST_ADDRESSES and address not in self._failures:
            self._failures.pop(next(iter(self._failures)))
        recent = self._failures.setdefault(address, deque(maxlen=FAILURES_PER_WINDOW))
        recent.append(self._services.clock.now_ms())

    def guesses(self, address: str) -> bool:
        """Whether so many logins from this address failed that the next has to wait."""
        recent = self._failures.get(address)
        if recent is None:
            return False
        since_ms = self._services.clock.now_ms() - FAILURE_WINDOW_MS
        if recent[-1] <= since_ms:
            del self._failures[address]
            return False
        return len(recent) == FAILURES_PER_WINDOW and recent[0] > since_ms
