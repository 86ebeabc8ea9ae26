"""Requests that are received and not decided: bounded, so a client cannot send ahead without end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from klamm.broker.net.memory import Share
from klamm.protocol.framing import FrameReader

if TYPE_CHECKING:
    from asyncio import Transport

    from klamm.broker.net.connection import Connection
    from klamm.broker.net.memory import RequestMemory

MAX_UNDECIDED: Final = 64
MAX_UNDECIDED_BYTES: Final = 1024 * 1024


class Intake:
    """The receiving side of one connection."""

    __slots__ = ("is_paused", "reader", "share", "transport", "undecided")

    def __init__(self, connection: Connection, memory: RequestMemory, max_request_bytes: int) -> None:
        self.reader = FrameReader(max_request_bytes)
        self.share = Share(memory, connection)
        self.undecided: deque[bytes] = deque()
        self.transport: Transport | None = None
        self.is_paused = False

    def take(self, data: bytes) -> None:
        """Add the requests that are complete now. Raises DecodeError after those before an invalid one."""
        undecided = self.undecided
        count = len(undecided)
        try:
            frames = self.reader.several(data)
            undecided.extend(self.reader.feed(data) if frames is None else frames)
        finally:
            if len(undecided) > count:
                self.share.is_admitted = False  # what is incomplete now is another request

    def pause_or_resume(self, *, is_held_up: bool) -> None:
        """Read ahead a little, not more; nothing while the connection is held up."""
        transport = self.transport
        if transport is None:
            return
        undecided_bytes = sum(map(len, self.undecided))
        must_wait = self.share.must_wait(undecided_bytes, self.reader)
        is_enough = (
            must_wait
            or is_held_up
            or len(self.undecided) >= MAX_UNDECIDED
            or undecided_bytes >= MAX_UNDECIDED_BYTES
        )
        if is_enough and not self.is_paused:
            self.is_paused = True
            transport.pause_reading()
        elif not is_enough and self.is_paused:
            self.is_paused = False
            transport.resume_reading()

    def end(self, *, pauses: bool) -> None:
        """Nothing more is taken, and what is undecided is dropped."""
        self.undecided.clear()
        self.share.close()
        if pauses and self.transport is not None and not self.is_paused:
            self.is_paused = True
            self.transport.pause_reading()
