"""Frames on a stream: a signed size, then that many bytes.

Memory follows what came, not what was announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError

SMALLEST_REQUEST: Final = 8
LARGEST_BUT_PRODUCE: Final = 16 * 1024 * 1024


class FrameReader:
    """Collects bytes, gives frames. After a DecodeError the stream is beyond repair."""

    def __init__(
        self, max_bytes: int, *, smallest: int = SMALLEST_REQUEST, are_requests: bool = True
    ) -> None:
        self._max_bytes = max_bytes
        self._smallest = smallest
        self._are_requests = are_requests
        self._buffer = bytearray()
        self._wanted = 4  # how long the buffer must be before looking at it makes sense

    @property
    def buffered_bytes(self) -> int:
        """What has come and belongs to no frame yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what arrived; yields each frame that is now complete, without its size."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        position, end = 0, len(data)
        while end - position >= 4:
            size = int.from_bytes(data[position : position + 4], "big", signed=True)
            self._check(size, data, position)
            stop = position + 4 + size
            if stop > end:
                # A frame that only Produce may send shows its key before the rest is waited for.
                self._wanted = 6 if size > LARGEST_BUT_PRODUCE and end - position < 6 else 4 + size
                break
            yield data[position + 4 : stop]
            position = stop
        else:
            self._wanted = 4
        self._buffer += memoryview(data)[position:]

    def _check(self, size: int, data: bytes, position: int) -> None:
        if self._smallest <= size <= LARGEST_BUT_PRODUCE and size <= self._max_bytes:
            return
        start = data[position : position + 4]
        if start[:2] == b"\x16\x03":
            raise DecodeError("a TLS handshake on a plain-text listener: set security.protocol=PLAINTEXT")
        if start in (b"GET ", b"POST", b"PUT ", b"HEAD"):
            raise DecodeError("an HTTP request: this port speaks the Kafka protocol")
        if size < self._smallest:
            raise DecodeError(f"a frame of {size} bytes")
        if size > self._max_bytes:
            raise DecodeError(f"a frame of {size} bytes, more than {self._max_bytes}")
        if not self._are_requests:
            return
        key = data[position + 4 : position + 6]
        if len(key) == 2 and int.from_bytes(key, "big", signed=True) != ApiKey.PRODUCE:
            raise DecodeError(f"a frame of {size} bytes that is no Produce request")
