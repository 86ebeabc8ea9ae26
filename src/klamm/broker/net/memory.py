"""Memory of requests: what all connections may hold together, and which of them wait until there is room.

Requests that wait for the broker (for the disk, mostly) are *held*: above the limit no connection starts to
read another request. Requests that wait for their own client (not complete yet, or behind responses that it
does not read) are *pending*: they and the held ones decide whether another large request may be received.
Small requests do not depend on pending ones, so that a client that stalls cannot stop the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from klamm.broker.net.connection import Connection
    from klamm.clock import Clock
    from klamm.protocol.framing import FrameReader

SMALL_REQUEST_BYTES: Final = 64 * 1024  # a request of this size is received without asking for room
STALLED_MS: Final = 10_000
_CHECK_S: Final = 1.0


class RequestMemory:
    """The bytes of requests that are received and not answered, against queued.max.request.bytes."""

    __slots__ = ("_clock", "_is_checking", "_is_waking", "_loop", "held_bytes", "limit_bytes", "pending",
                 "pending_bytes", "waiting")  # fmt: skip

    def __init__(self, loop: AbstractEventLoop, clock: Clock, limit_bytes: int) -> None:
        """A limit of 0 or less is none."""
        self._loop = loop
        self._clock = clock
        self._is_waking = False
        self._is_checking = False
        self.limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize
        self.held_bytes = 0
        self.pending_bytes = 0
        self.pending: dict[Share, None] = {}  # with more than a small request
        self.waiting: dict[Share, None] = {}  # for room, the first one first

    def wait(self, share: Share) -> None:
        self.waiting[share] = None
        if not self._is_checking:
            self._is_checking = True
            self._loop.call_later(_CHECK_S, self._close_stalled)

    def released(self) -> None:
        """There may be room again; not used at once, because this may be in the middle of a decision."""
        if self.waiting and not self._is_waking and self.held_bytes < self.limit_bytes:
            self._is_waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for share in list(self.waiting):
            share.connection.pause_or_resume_reading()

    def _close_stalled(self) -> None:
        """Close connections that keep others waiting and whose clients have sent or read nothing for long."""
        self._is_checking = bool(self.waiting)
        if not self._is_checking:
            return
        self._loop.call_later(_CHECK_S, self._close_stalled)
        if self.held_bytes + self.pending_bytes < self.limit_bytes:
            return
        stalled_since_ms = self._clock.now_ms() - STALLED_MS
        for share in list(self.pending):
            connection = share.connection
            if connection.waits_for_client and connection.active_at_ms <= stalled_since_ms:
                connection.give_up(
                    f"a request was not completed or a response not read for {STALLED_MS // 1000} s, "
                    "while queued.max.request.bytes is reached"
                )


class Share:
    """What one connection holds of requests that are not decided."""

    __slots__ = ("_memory", "connection", "is_admitted", "pending_bytes")

    def __init__(self, memory: RequestMemory, connection: Connection) -> None:
        self._memory = memory
        self.connection = connection
        self.pending_bytes = 0
        self.is_admitted = False  # whether there was room for the large request that is being received

    @property
    def is_waiting(self) -> bool:
        return self in self._memory.waiting

    def must_wait(self, undecided_bytes: int, reader: FrameReader) -> bool:
        """Account for what the connection holds now; whether it has to stop reading until there is room."""
        memory = self._memory
        incomplete_bytes = reader.incomplete_bytes
        if incomplete_bytes > SMALL_REQUEST_BYTES:
            if not self.is_admitted:
                # Its first bytes are not counted: two requests that wait must not keep each other waiting.
                self._account(undecided_bytes)
                self.is_admitted = memory.held_bytes + memory.pending_bytes < memory.limit_bytes
            must_wait = not self.is_admitted
        else:
            must_wait = not incomplete_bytes and memory.held_bytes >= memory.limit_bytes
        # The whole size is reserved: as soon as it is admitted, a request can be completed.
        self._account(undecided_bytes if must_wait else undecided_bytes + incomplete_bytes)
        if must_wait:
            memory.wait(self)
        elif memory.waiting:
            memory.waiting.pop(self, None)
        return must_wait

    def _account(self, pending_bytes: int) -> None:
        change = pending_bytes - self.pending_bytes
        if not change:
            return
        memory = self._memory
        self.pending_bytes = pending_bytes
        memory.pending_bytes += change
        if pending_bytes > SMALL_REQUEST_BYTES:
            memory.pending[self] = None
        else:
            memory.pending.pop(self, None)
        if change < 0:
            memory.released()

    def close(self) -> None:
        """The connection reads no more."""
        self._account(0)
        self._memory.waiting.pop(self, None)
