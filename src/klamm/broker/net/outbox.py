"""Answers that leave together: one call of the loop for all connections that have some, not one for each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from klamm.broker.net.connection import Connection

_log = logging.getLogger(__name__)


class Outbox:
    """Who has put down answers in the middle of somebody else's work."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """Let its answers leave in the next turn of the loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(connection)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            try:
                connection.flush()
            except Exception:
                # The others' answers leave all the same.
                _log.exception("answers to %s cannot be sent", connection.peer)
                connection.abort()
