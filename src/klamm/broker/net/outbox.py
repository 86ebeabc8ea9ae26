"""Sending for all connections: responses leave together, large ones a bounded part per turn of the loop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from klamm.storage.log import LogError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from klamm.broker.net.connection import Connection
    from klamm.broker.net.sender import ResponseSender

# How much of large responses is read and sent in one turn of the loop, by all connections together: requests
# of other clients wait no longer than that.
TURN_BYTES: Final = 2 * 1024 * 1024
# How much of it one connection sends at a time: in large parts, which cost the least, unless many clients do
# not read, and what is read for them stays in memory until their sockets accept it.
PART_BYTES: Final = 1024 * 1024
SMALL_PART_BYTES: Final = 64 * 1024
MANY_BLOCKED: Final = 16
# How many times responses leave at once before those of other requests wait for the next turn. Clients
# that are answered send on, and libuv reads up to 49,152 times from sockets before it ends a turn: with
# thousands of busy connections, whatever waits for the disk or for a thread would wait for all of that.
AT_ONCE: Final = 256

_log = logging.getLogger(__name__)


class Outbox:
    """Connections with something to send."""

    __slots__ = ("_is_turn_due", "_left_at_once", "_left_bytes", "_loop", "_streaming", "_waiting", "blocked")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Connection] = []
        self._streaming: dict[ResponseSender, None] = {}  # in the order of their turns
        self._left_bytes = TURN_BYTES  # of this turn
        self._is_turn_due = False
        self.blocked = 0  # connections whose clients do not read what is sent
        self._left_at_once = AT_ONCE  # until the next turn

    def send(self, sender: ResponseSender) -> None:
        """Send what was put down: now, or with the end of this turn."""
        if self._left_at_once:
            self._left_at_once -= 1
            sender.flush()
        else:
            sender.connection.turn_soon()

    def add(self, connection: Connection) -> None:
        """Call its `take_turn` in the next turn of the loop, together with those of other connections."""
        if not self._waiting:
            self._loop.call_soon(self._take_turns)
        self._waiting.append(connection)

    def take_turns(self) -> None:
        """Call what is due in the next turn now. Not to be called within a decision."""
        if self._waiting:
            self._take_turns()

    def _take_turns(self) -> None:
        self._left_at_once = AT_ONCE
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            try:
                connection.take_turn()
            except Exception:
                # The responses of the other connections leave all the same.
                _log.exception("sending responses to %s failed", connection.peer)
                connection.abort()

    def stream(self, sender: ResponseSender) -> None:
        """Send what a connection's backlog holds: now, as far as this turn allows, and in later turns."""
        if not self._streaming:
            self._send_parts(sender)
        if sender.can_send_more:
            self._streaming[sender] = None
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Each connection in its order, until this turn has sent enough."""
        self._is_turn_due = False
        self._left_bytes = TURN_BYTES
        streaming = self._streaming
        if not streaming:
            return
        while streaming and self._left_bytes > 0:
            sender = next(iter(streaming))
            del streaming[sender]
            self._send_part(sender)
            if sender.can_send_more:
                streaming[sender] = None
            sender.connection.part_is_sent()
        self._is_turn_due = True
        self._loop.call_soon(self._next_turn)

    def _send_parts(self, sender: ResponseSender) -> None:
        while self._left_bytes > 0 and self._send_part(sender) and sender.can_send_more:
            pass

    def _send_part(self, sender: ResponseSender) -> bool:
        is_large = sender.is_direct or self.blocked < MANY_BLOCKED
        part_bytes = min(PART_BYTES if is_large else SMALL_PART_BYTES, self._left_bytes)
        try:
            self._left_bytes -= sender.send_part(part_bytes)
        except Exception as error:
            # Nothing behind a response that is not complete would be understood.
            if not isinstance(error, ConnectionError):
                is_unexpected = not isinstance(error, LogError)
                peer = sender.connection.peer
                _log.error("sending a response to %s failed: %s", peer, error, exc_info=is_unexpected)
            sender.connection.abort()
            return False
        return True
