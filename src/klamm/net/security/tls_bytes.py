"""The TLS of one connection, between bytes: encrypted ones in and out, plain ones in and out.

Clients, listeners and connections between brokers speak TLS through it, each over its own sockets.
"""

from __future__ import annotations

import ssl
from typing import Final, TypeAlias

from klamm.protocol.types import Buffer

_CHUNK_BYTES: Final = 256 * 1024

Subject: TypeAlias = tuple[
    tuple[tuple[str, str], ...], ...
]  # of a certificate, the least specific part first


class TlsBytes:
    """One end of it. What is to be sent piles up until `take`."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "is_open")

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool = False, host: str | None = None
    ) -> None:
        """Raises ValueError for a host that no certificate can name."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=host
        )
        self.is_open = False  # after the handshake

    def put(self, encrypted: Buffer) -> None:
        """What came from the other side."""
        self._incoming.write(encrypted)

    def take(self) -> bytes:
        """What is to be sent to the other side."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is complete. Raises ssl.SSLError."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_open = True
        return True

    def read(self) -> bytes | None:
        """Plain bytes; none if the other side has ended; None if more has to come. Raises ssl.SSLError."""
        try:
            return self._tls.read(_CHUNK_BYTES)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return b""

    def read_into(self, room: memoryview) -> int | None:
        """As `read`, into a buffer; how many bytes."""
        try:
            return int(self._tls.read(len(room), room))  # type: ignore[call-overload,unused-ignore]
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return 0

    def write(self, plain: Buffer) -> None:
        """Encrypt; `take` has the result."""
        if len(plain):
            self._tls.write(plain)

    def say_end(self) -> None:
        """Tell the other side that nothing more comes; what it sends is not read."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            return  # it has not answered yet, or the connection is broken already

    def subject(self) -> Subject | None:
        """The subject of the other side's verified certificate; None if it showed none."""
        found = self._tls.getpeercert()
        return found["subject"] if found else None  # type: ignore[return-value,unused-ignore]
