"""Sending for all connections: responses leave together, large ones a bounded part per turn of the loop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from klamm.storage.log import LogError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from klamm.broker.net.connection import Connection

# How much of large responses is read and sent in one turn of the loop, by all connections together: requests
# of other clients wait no longer than that takes.
TURN_BYTES: Final = 1024 * 1024
# How much of it one connection sends at a time: in large parts, which cost the least, unless many clients do
# not read. What their sockets do not accept stays in memory.
PART_BYTES: Final = TURN_BYTES
SMALL_PART_BYTES: Final = 64 * 1024
MANY_BLOCKED: Final = 16

_log = logging.getLogger(__name__)


class Outbox:
    """Connections with something to send."""

    __slots__ = ("_is_turn_due", "_left_bytes", "_loop", "_streaming", "_waiting", "blocked")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Connection] = []
        self._streaming: dict[Connection, None] = {}  # in the order of their turns
        self._left_bytes = TURN_BYTES  # of this turn
        self._is_turn_due = False
        self.blocked = 0  # connections whose clients do not read what is sent

    def add(self, connection: Connection) -> None:
        """Let its responses leave in the next turn of the loop, in one call for all connections."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(connection)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            try:
                connection.flush()
            except Exception:
                # The responses of the other connections leave all the same.
                _log.exception("sending responses to %s failed", connection.peer)
                connection.abort()

    def stream(self, connection: Connection) -> None:
        """Send what a connection's backlog holds: now, as far as this turn allows, and in later turns."""
        self._streaming[connection] = None
        self._send_parts()
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_turn_due = False
        self._left_bytes = TURN_BYTES
        if self._streaming:
            self._send_parts()
            self._is_turn_due = True
            self._loop.call_soon(self._next_turn)

    def _send_parts(self) -> None:
        """One part per connection in turn, until this turn has sent enough."""
        streaming = self._streaming
        while streaming and self._left_bytes > 0:
            connection = next(iter(streaming))
            del streaming[connection]
            part_bytes = PART_BYTES if self.blocked < MANY_BLOCKED else SMALL_PART_BYTES
            try:
                self._left_bytes -= connection.send_part(min(part_bytes, self._left_bytes))
            except Exception as error:
                is_unexpected = not isinstance(error, LogError)
                _log.error(
                    "sending a response to %s failed: %s", connection.peer, error, exc_info=is_unexpected
                )
                connection.abort()
                continue
            if connection.can_send_more:
                streaming[connection] = None
