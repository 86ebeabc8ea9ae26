"""TLS on a listener: to the transport below a protocol, to the connection above a transport."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from klamm.net.security.tls_bytes import TlsBytes

if TYPE_CHECKING:
    from klamm.broker.net.newcomers import Admission
    from klamm.net.security.tls_bytes import Subject
    from klamm.protocol.types import Buffer

_JOINED_BYTES: Final = 16 * 1024  # of one TLS record: smaller parts cost more as records of their own
# An alert (internal_error) of TLS 1.2: a client that speaks no TLS has a chance to notice.
_ALERT: Final = bytes.fromhex("15030300020250")


class Above(Protocol):
    """What a connection, or a login, is to its transport."""

    def connection_made(self, transport: Any, /) -> None: ...
    def data_received(self, data: bytes, /) -> None: ...
    def eof_received(self) -> None: ...
    def connection_lost(self, exc: Exception | None, /) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsStream:
    """One connection of a TLS listener."""

    __slots__ = (
        "_above", "_accept", "_context", "_is_paused", "_is_reading", "_listener", "_loop", "_newcomers",
        "_peer", "_raw", "_refuse", "_tls",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        newcomers: Admission,
        listener: str,
        *,
        accept: Callable[[str, Subject | None], Above | None],
        refuse: Callable[[str, str], None],
    ) -> None:
        """`accept` says what goes on after the handshake with a peer, by the subject of its certificate; None
        closes. `refuse` is told peer and reason when the handshake fails."""
        self._context = context
        self._newcomers = newcomers
        self._listener = listener
        self._accept = accept
        self._refuse = refuse
        self._raw: asyncio.Transport | None = None
        self._tls: TlsBytes | None = None  # from the first byte on
        self._above: Above | None = None  # after the handshake
        self._peer = "?"
        self._is_paused = False
        self._is_reading = False
        self._loop = newcomers.loop

    # What the transport below calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's does not say so
        peer = self._raw.get_extra_info("peername")
        if peer:
            self._peer = f"{peer[0]}:{peer[1]}"
        self._newcomers.admit(self, self._raw, self._listener)

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._tls = TlsBytes(self._context, server_side=True)
        self._tls.put(data)
        self._advance()

    def eof_received(self) -> None:
        if self._above is not None:
            self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._newcomers.leave(self)
        if self._above is not None:
            self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    def _advance(self) -> None:
        """As far as the bytes received allow: the handshake, then what it protects."""
        tls, raw = self._tls, self._raw
        if tls is None or raw is None or raw.is_closing() or self._is_reading:
            return
        self._is_reading = True  # what is above may resume reading while it is called
        try:
            if not tls.is_open and tls.shake_hands():
                self._flush(tls)
                self._opened(tls)
            if tls.is_open:
                self._read(tls)
            self._flush(tls)
        except ssl.SSLError as error:
            self._failed(tls, error)
        finally:
            self._is_reading = False

    def _opened(self, tls: TlsBytes) -> None:
        assert self._raw is not None
        self._newcomers.leave(self)
        self._above = self._accept(self._peer, tls.subject())
        if self._above is None:
            self._raw.close()
        else:
            self._above.connection_made(self)

    def _read(self, tls: TlsBytes) -> None:
        """Give what is decrypted to what is above: all records that are there at once."""
        assert self._raw is not None
        while self._above is not None and not self._is_paused and not self._raw.is_closing():
            parts: list[bytes] = []
            while part := tls.read():
                parts.append(part)
            if parts:
                self._above.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
            if part is not None:  # the client has ended its side
                self._above.eof_received()
                self._raw.close()
                return
            if not parts:
                return

    def _failed(self, tls: TlsBytes, error: ssl.SSLError) -> None:
        raw = self._raw
        assert raw is not None
        alert = tls.take()
        if not tls.is_open:
            self._refuse(self._peer, f"TLS handshake failed: {_reason(error)}")
            alert = alert or _ALERT
        if alert:
            raw.write(alert)
        raw.close()

    def _flush(self, tls: TlsBytes) -> None:
        data = tls.take()
        if data and self._raw is not None and not self._raw.is_closing():
            self._raw.write(data)

    # What is above calls, as it calls any transport

    def set_protocol(self, above: Above) -> None:
        self._above = above

    def write(self, data: Buffer) -> None:
        tls = self._tls
        assert tls is not None
        try:
            tls.write(data)
            self._flush(tls)
        except ssl.SSLError:
            self.abort()

    def writelines(self, parts: Iterable[Buffer]) -> None:
        tls = self._tls
        assert tls is not None
        small: list[Buffer] = []
        small_bytes = 0
        try:
            for part in parts:
                if small_bytes + len(part) <= _JOINED_BYTES:
                    small.append(part)
                    small_bytes += len(part)
                    continue
                if small:
                    tls.write(b"".join(small))
                    small, small_bytes = [], 0
                tls.write(part)
            if small:
                tls.write(b"".join(small))
            self._flush(tls)
        except ssl.SSLError:
            self.abort()

    def pause_reading(self) -> None:
        if not self._is_paused and self._raw is not None:
            self._is_paused = True
            if not self._raw.is_closing():
                self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and self._raw is not None:
            self._is_paused = False
            if not self._raw.is_closing():
                self._raw.resume_reading()
                self._loop.call_soon(self._advance)  # what was received before the pause

    def is_closing(self) -> bool:
        return self._raw is None or self._raw.is_closing()

    def close(self) -> None:
        """Send what is written, say so, and close."""
        if self._raw is None or self._raw.is_closing():
            return
        if self._tls is not None and self._tls.is_open:
            self._tls.say_end()
            self._flush(self._tls)
        self._raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As of the transport below, but for the socket: what is written beside TLS is not understood."""
        if name == "socket" or self._raw is None:
            return default
        return self._context if name == "sslcontext" else self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high, low)


_NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "HTTPS_PROXY",
)


def _reason(error: ssl.SSLError) -> str:
    """What went wrong, for people."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is refused: {error.verify_message}"
    if any(name in reason for name in _NO_TLS):
        return "the client does not speak TLS"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client shows no certificate, and ssl.client.auth=required"
    return reason.replace("_", " ").lower() or str(error)
