"""Bytes under way between sockets of one process.

The kernel may deliver what was sent a little later, when the machine is busy: until then, neither end shows
that there is something to do. Both ends count, so that a virtual clock can wait for it.
"""

from __future__ import annotations

import socket
import time
from typing import Any, Final

# What stays under way for this long, of real time, is not read on purpose: by a broker that has enough to do.
GRACE_S: Final = 0.2

Address = tuple[Any, ...]


class Flows:
    """The connections of one clock, by their addresses."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Address, Address], CountingSocket] = {}
        self._seen: tuple[int, int, int] = (0, 0, 0)
        self._since_s = 0.0
        self.listening: set[Address] = set()  # where connections are accepted and counted

    def add(self, end: CountingSocket) -> None:
        other = self._ends.get((end.peer, end.local))
        if other is not None:
            end.is_paired = other.is_paired = True
        self._ends[end.local, end.peer] = end

    def remove(self, end: CountingSocket) -> None:
        if self._ends.get((end.local, end.peer)) is end:
            del self._ends[end.local, end.peer]

    def are_quiet(self) -> bool:
        """Whether nothing is under way, or has been for so long that it is not going to be read."""
        ends = list(self._ends.values())
        if not any(self._is_under_way(end) for end in ends):
            self._since_s = 0.0
            return True
        seen = (len(ends), sum(end.sent_bytes for end in ends), sum(end.received_bytes for end in ends))
        now_s = time.monotonic()
        if seen != self._seen or not self._since_s:
            self._seen, self._since_s = seen, now_s
        return now_s - self._since_s > GRACE_S

    def _is_under_way(self, end: CountingSocket) -> bool:
        other = self._ends.get((end.peer, end.local))
        if other is None:
            # Not accepted yet, or closed by the other end, which this one has not noticed.
            return end.is_paired or end.peer in self.listening
        return end.sent_bytes != other.received_bytes


class CountingSocket(socket.socket):
    """A TCP socket that counts what it sends and receives."""

    def __init__(self, flows: Flows, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._flows = flows
        self.local: Address = ()
        self.peer: Address = ()
        self.sent_bytes = 0
        self.received_bytes = 0
        self.is_paired = False  # both ends are known

    def join(self) -> None:
        """It is connected, or about to be."""
        self.local, self.peer = self.getsockname(), self.peer or self.getpeername()
        self._flows.add(self)

    def connect_ex(self, address: Any, /) -> int:
        result = super().connect_ex(address)
        self.peer = tuple(address)
        self.join()
        return result

    def send(self, *arguments: Any) -> int:
        count = super().send(*arguments)
        self.sent_bytes += count
        return count

    def sendmsg(self, *arguments: Any) -> int:
        count = super().sendmsg(*arguments)
        self.sent_bytes += count
        return count

    def recv(self, *arguments: Any) -> bytes:
        data = super().recv(*arguments)
        self.received_bytes += len(data)
        return data

    def recv_into(self, *arguments: Any) -> int:
        count = super().recv_into(*arguments)
        self.received_bytes += count
        return count

    def close(self) -> None:
        self._flows.remove(self)
        super().close()
