"""What a client has not accepted yet: bytes, and slices of logs, read when the socket can send them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from klamm.protocol.types import Buffer
from klamm.storage.log import LogSlice

Part: TypeAlias = Buffer | LogSlice

# Of one response so much is read when it is decided; what is more may be slices, read when the socket accepts
# them, so that memory does not depend on how much clients request and do not read.
READ_AT_ONCE_BYTES: Final = 64 * 1024
_BUFFERS: Final = frozenset({bytes, bytearray, memoryview})
_SCRAP_BYTES: Final = 16 * 1024  # so little is sent along rather than on its own


def has_slice(parts: Iterable[Part]) -> bool:
    return not _BUFFERS.issuperset(map(type, parts))


class Backlog:
    """Parts of responses in the order in which they are sent."""

    __slots__ = ("_parts", "_position")

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()
        self._position = 0  # how much of the first part is sent, if that is a slice

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Iterable[Part]) -> None:
        self._parts.extend(parts)

    def take(self, limit_bytes: int) -> list[Buffer]:
        """The next bytes, about `limit_bytes`. Raises LogError when a slice cannot be read."""
        taken: list[Buffer] = []
        parts = self._parts
        while parts and limit_bytes > 0:
            part = parts[0]
            if isinstance(part, bytes | bytearray | memoryview):
                parts.popleft()
                taken.append(part)
                limit_bytes -= len(part)
                continue
            left_bytes = len(part) - self._position
            data = part.read(
                self._position, left_bytes if left_bytes <= limit_bytes + _SCRAP_BYTES else limit_bytes
            )
            taken.append(data)
            limit_bytes -= len(data)
            self._position += len(data)
            if self._position >= len(part):
                self._position = 0
                parts.popleft()
                part.close()
        return taken

    def clear(self) -> None:
        """Drop everything; slices release their files."""
        for part in self._parts:
            if not isinstance(part, bytes | bytearray | memoryview):
                part.close()
        self._parts.clear()
        self._position = 0
