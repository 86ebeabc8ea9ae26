"""Closes connections that are idle, or whose client does not read the last responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from klamm.broker.net.connection import Connection
    from klamm.broker.services import Services

_LINGER_S: Final = 5


class IdleTimer:
    """Closes its connection after connections.max.idle.ms without traffic in either direction."""

    __slots__ = ("_connection", "_handle", "_services")

    def __init__(self, connection: Connection, services: Services) -> None:
        self._connection = connection
        self._services = services
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(self._services.config.connections_max_idle_ms)

    def linger(self) -> None:
        """Do not wait for a client that does not read its last responses."""
        self.stop()
        self._handle = self._services.loop.call_later(_LINGER_S, self._connection.abort)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, in_ms: int) -> None:
        if in_ms >= 0:
            self._handle = self._services.loop.call_later(in_ms / 1000, self._check)

    def _check(self) -> None:
        limit_ms = self._services.config.connections_max_idle_ms
        if limit_ms < 0:
            return
        idle_ms = self._services.clock.now_ms() - self._connection.active_at_ms
        if self._connection.is_busy:
            self._arm(limit_ms)
        elif idle_ms < limit_ms:
            self._arm(limit_ms - idle_ms)
        else:
            self._connection.abort()
