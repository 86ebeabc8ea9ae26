"""What a client has not accepted yet: bytes, and slices of logs, read when the socket can send them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from klamm.protocol.types import Buffer
from klamm.storage.log import LogSlice

Part: TypeAlias = Buffer | LogSlice

# Of one response so much is read when it is decided; what is more may be slices, read when the socket accepts
# them, so that memory does not depend on how much clients request and do not read.
READ_AT_ONCE_BYTES: Final = 64 * 1024
_BUFFERS: Final = (bytes, bytearray, memoryview)
_BUFFER_TYPES: Final = frozenset(_BUFFERS)
_SCRAP_BYTES: Final = 16 * 1024  # so little is sent along rather than on its own
_FILE_RANGE_BYTES: Final = 32 * 1024  # smaller ranges cost less as a copy, together with what is beside them


class FileRange(NamedTuple):
    """Bytes of an open file of the operating system."""

    descriptor: int
    position: int
    length: int


def has_slice(parts: Iterable[Part]) -> bool:
    return not _BUFFER_TYPES.issuperset(map(type, parts))


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

    def take(self, limit_bytes: int, *, until_file_range: bool = False) -> list[Buffer]:
        """The next bytes, about `limit_bytes`. Raises LogError when a slice cannot be read."""
        taken: list[Buffer] = []
        parts = self._parts
        while parts and limit_bytes > 0:
            part = parts[0]
            if isinstance(part, _BUFFERS):
                parts.popleft()
                taken.append(part)
                limit_bytes -= len(part)
                continue
            if until_file_range and self.file_range(limit_bytes) is not None:
                break
            data = part.read(self._position, self._length(part, limit_bytes))
            taken.append(data)
            limit_bytes -= len(data)
            self._advance(part, len(data))
        return taken

    def put_back(self, data: Buffer) -> None:
        """What was taken and is not sent."""
        assert not self._position
        self._parts.appendleft(data)

    def file_range(self, limit_bytes: int) -> FileRange | None:
        """What to send next, about `limit_bytes`, if that is a part of a file and large."""
        part = self._parts[0]
        if isinstance(part, _BUFFERS) or len(part) - self._position < _FILE_RANGE_BYTES:
            return None
        place = part.place()
        if place is None:
            return None
        descriptor, start = place
        return FileRange(descriptor, start + self._position, self._length(part, limit_bytes))

    def sent(self, length: int) -> None:
        """So much of the file range was sent."""
        part = self._parts[0]
        assert not isinstance(part, _BUFFERS)
        self._advance(part, length)

    def _length(self, part: LogSlice, limit_bytes: int) -> int:
        left_bytes = len(part) - self._position
        return left_bytes if left_bytes <= limit_bytes + _SCRAP_BYTES else limit_bytes

    def _advance(self, part: LogSlice, length: int) -> None:
        self._position += length
        if self._position >= len(part):
            self._position = 0
            self._parts.popleft()
            part.close()

    def clear(self) -> None:
        """Drop everything; slices release their files."""
        for part in self._parts:
            if not isinstance(part, _BUFFERS):
                part.close()
        self._parts.clear()
        self._position = 0
