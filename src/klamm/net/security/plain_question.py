"""Does a listener speak Kafka's protocol without TLS? One request that every broker answers tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from klamm.protocol.api import ApiKey
from klamm.protocol.headers import request_frame

if TYPE_CHECKING:
    from klamm.errors import KlammError
    from klamm.net.network import Link

_ID: Final = 0x6B6C616D  # nothing else answers with it
_MAX_BYTES: Final = 64 * 1024
_START_BYTES: Final = 8  # of a response: its size and the id of its request


class Answered(Protocol):
    """Who asked."""

    def __call__(self, *, is_plain: bool) -> None: ...


class PlainQuestion:
    """ApiVersions on a connection of its own; it has no secret, not even the name of the client."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self._data = b""
        self._is_over = False
        self.link: Link | None = None

    def connected(self) -> None:
        assert self.link is not None
        self.link.send(request_frame(ApiKey.API_VERSIONS, 0, _ID, None, []))

    def received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) >= _START_BYTES:
            size = int.from_bytes(self._data[:4])
            has_id = self._data[4:_START_BYTES] == _ID.to_bytes(4)
            self._end(is_plain=has_id and 4 < size <= _MAX_BYTES)

    def room(self) -> memoryview | None:
        return None

    def filled(self, count: int) -> None:
        raise AssertionError(f"{count} bytes for which there was no room")

    def lost(self, error: OSError | KlammError | None) -> None:
        self._end(is_plain=False)

    def _end(self, *, is_plain: bool) -> None:
        if not self._is_over:
            self._is_over = True
            self._answered(is_plain=is_plain)
