"""Frames on a stream: a signed size, then that many bytes.

Memory use follows the bytes received, not the size announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, TlsAlertError

SMALLEST_REQUEST: Final = 8
LARGEST_BUT_PRODUCE: Final = 16 * 1024 * 1024
SMALL_PIECE: Final = 4096
_SIZE: Final = Struct(">i")


class FrameReader:
    """Splits a stream into frames. After a DecodeError the stream cannot be used further."""

    __slots__ = ("_are_requests", "_came", "_head", "_max_bytes", "_parts", "_size", "_smallest")

    def __init__(
        self, max_bytes: int, *, smallest: int = SMALLEST_REQUEST, are_requests: bool = True
    ) -> None:
        self._max_bytes = max_bytes
        self._smallest = smallest
        self._are_requests = are_requests
        self._head = b""  # the bytes of a frame whose size is not known or not accepted yet
        self._size = 0  # of the current frame
        self._parts: list[bytes | bytearray | memoryview] = []  # its parts so far, joined when it is complete
        self._came = 0

    def allow(self, max_bytes: int) -> None:
        """Accept frames up to this size, from the next one on."""
        self._max_bytes = max_bytes

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an incomplete frame are buffered."""
        return len(self._head) + self._came

    @property
    def incomplete_bytes(self) -> int:
        """The announced size of a frame that is being received; 0 when there is none."""
        return self._size if self._parts else 0

    def take_incomplete(self) -> list[bytes | bytearray | memoryview]:
        """The parts of a frame that is being received; the caller receives the rest of it."""
        parts, self._parts, self._came = self._parts, [], 0
        return parts

    def only(self, data: bytes) -> bytes | None:
        """The frame, if the data is exactly one, as is usual; else None, and the caller must `feed` it."""
        size = len(data) - 4
        if (
            self._smallest <= size <= LARGEST_BUT_PRODUCE
            and data[0] << 24 | data[1] << 16 | data[2] << 8 | data[3] == size
            and size <= self._max_bytes
            and not self._parts
            and not self._head
        ):
            return data[4:]
        return None

    def several(self, data: bytes) -> list[bytes] | None:
        """The frames, if the data is nothing else; else None, and the caller must `feed` it."""
        if self._parts or self._head:
            return None
        frames: list[bytes] = []
        position, end = 0, len(data)
        largest = min(self._max_bytes, LARGEST_BUT_PRODUCE)
        while end - position >= 4:
            start = position + 4
            size = data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[start - 1]
            position = start + size
            if size < self._smallest or size > largest or position > end:
                return None
            frames.append(data[start:position])
        return frames if position == end else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add received data; yields each complete frame, without its size."""
        position = 0
        if self._parts:
            missing = self._size - self._came
            if len(data) < missing:
                self._keep(data)
                return
            self._parts.append(memoryview(data)[:missing])
            frame = b"".join(self._parts)
            self._parts, self._came = [], 0
            yield frame
            position = missing
        elif self._head:
            data, self._head = self._head + data, b""
        end = len(data)
        smallest, largest = self._smallest, min(self._max_bytes, LARGEST_BUT_PRODUCE)
        while end - position >= 4:
            start = position + 4
            (size,) = _SIZE.unpack_from(data, position)
            if not smallest <= size <= largest:
                self._check(size, data, position)
            stop = start + size
            if stop > end:
                break
            yield data[start:stop]
            position = stop
        else:
            self._head = data[position:]
            return
        # A frame of a size that only Produce may have is checked for its API key first.
        if end - position < 6:
            self._head = data[position:]
        else:
            self._size = size
            self._keep(data[position + 4 :])

    def _keep(self, data: bytes) -> None:
        """Keep a part of a frame. Small ones share a buffer, so that memory follows the bytes received."""
        self._came += len(data)
        if len(data) >= SMALL_PIECE:
            self._parts.append(data)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += data
        else:
            self._parts.append(bytearray(data))

    def _check(self, size: int, data: bytes, position: int) -> None:
        """Raise DecodeError for a frame of an unusual size, unless it may have it."""
        start = data[position : position + 4]
        if start[:2] == b"\x16\x03":
            raise DecodeError("TLS handshake on a plaintext listener: set security.protocol=PLAINTEXT")
        if start in (b"GET ", b"POST", b"PUT ", b"HEAD"):
            raise DecodeError("HTTP request: this port serves the Kafka protocol")
        if start == b"HTTP":
            raise DecodeError("HTTP response: this is a web server, not a Kafka broker")
        if start[:2] == b"\x15\x03":
            raise TlsAlertError("TLS alert: this is a TLS listener")
        if size < self._smallest:
            raise DecodeError(f"a frame of {size} bytes")
        if size > self._max_bytes:
            raise DecodeError(f"a frame of {size} bytes, more than {self._max_bytes}")
        if not self._are_requests:
            return
        key = data[position + 4 : position + 6]
        if len(key) == 2 and int.from_bytes(key, "big", signed=True) != ApiKey.PRODUCE:
            raise DecodeError(f"a frame of {size} bytes that is not a Produce request")
