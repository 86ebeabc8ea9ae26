"""TLS for a connection: a transport over another transport, without sockets of its own."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from klamm.errors import DisconnectedError, KlammError, SslAuthenticationError
from klamm.net.network import Address, Link, LinkEvents, Transport
from klamm.net.security.plain_question import PlainQuestion
from klamm.net.security.tls_bytes import TlsBytes
from klamm.protocol.types import Buffer

# What to do about a certificate that this client refuses, by OpenSSL's code.
_CERTIFICATE_ADVICE: Final = {
    9: "check the clock of this machine",
    10: "the broker needs a new certificate; check the clock of this machine too",
    18: "add this certificate to ssl.truststore.location or ssl.ca.location",
    19: "add the certificate of its CA to ssl.truststore.location or ssl.ca.location",
    20: "add the certificate of its CA to ssl.truststore.location or ssl.ca.location",
    21: "add the certificate of its CA to ssl.truststore.location or ssl.ca.location",
    62: "connect to a name that the certificate has, or give the broker a certificate for this one",
    64: "connect to a name that the certificate has, or give the broker a certificate for this address",
}
# What the broker complains about, by a part of OpenSSL's name for its alert.
_ALERT_ADVICE: Final = (
    (
        "CERTIFICATE_REQUIRED",
        "the broker requires a client certificate: set ssl.keystore.location, or "
        "ssl.certificate.location and ssl.key.location",
    ),
    ("CERTIFICATE_EXPIRED", "the broker refused the client certificate: it has expired"),
    ("CERTIFICATE_REVOKED", "the broker refused the client certificate: it is revoked"),
    ("UNKNOWN_CA", "the broker refused the client certificate: it does not trust its CA"),
    (
        "CERTIFICATE",
        "the broker refused the client certificate, or requires one: check ssl.keystore.location or "
        "ssl.certificate.location, its expiry, and that the broker trusts its CA",
    ),
    ("PROTOCOL_VERSION", "the broker supports none of ssl.enabled.protocols"),
    (
        "HANDSHAKE_FAILURE",
        "client and broker have no cipher in common, or the broker requires a client certificate",
    ),
)
_WITHOUT_TLS: Final = (
    "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of a TLS listener"
)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


class TlsTransport:
    """Opens connections through another transport and speaks TLS over them."""

    def __init__(self, transport: Transport, context: ssl.SSLContext) -> None:
        self._transport = transport
        self._context = context

    def connect(self, address: Address, events: LinkEvents) -> Link:
        link = TlsLink(self._context, address, self._transport, events)
        link.attach(self._transport.connect(address, link))
        return link


class TlsLink:
    """One connection: to its owner a link, to the transport below what receives the events.

    A listener without TLS takes the first message for a request that is too large, and closes the connection,
    as a broker that stops does. A second connection tells which: only the former answers without TLS.
    """

    def __init__(
        self, context: ssl.SSLContext, address: Address, transport: Transport, events: LinkEvents
    ) -> None:
        self._events = events
        self._context = context
        self._address = address
        self._transport = transport
        # A final dot is part of a name for resolvers, not of one in a certificate.
        self._host = address[0].rstrip(".")
        self._tls: TlsBytes | None = None  # once there is a connection
        self._below: Link | None = None
        self._has_received = False
        self._is_over = False

    def attach(self, below: Link) -> None:
        self._below = below

    # What the owner calls

    def send(self, parts: Sequence[Buffer]) -> None:
        assert self._tls is not None
        for part in parts:
            self._tls.write(part)
        self._flush(self._tls)

    def close(self) -> None:
        self._is_over = True
        if self._below is not None:
            self._below.close()

    # What the transport below calls

    def connected(self) -> None:
        try:
            self._tls = TlsBytes(self._context, host=self._host or None)
        except ValueError as error:  # an address that resolvers take and certificates cannot have
            self._fail(SslAuthenticationError(f"TLS: {self._host!r} is no name of a host: {error}"))
            return
        self._advance(self._tls)

    def received(self, data: bytes) -> None:
        self._has_received = True
        if self._tls is not None:
            self._tls.put(data)
            self._advance(self._tls)

    def room(self) -> memoryview | None:
        return None  # what comes is encrypted

    def filled(self, count: int) -> None:
        raise AssertionError(f"{count} bytes for which there was no room")

    def lost(self, error: OSError | KlammError | None) -> None:
        is_closed = error is None or isinstance(error, ConnectionError)
        if is_closed and self._tls is not None and not self._tls.is_open:
            if not self._has_received and not self._is_over:
                question = PlainQuestion(self._answered)
                self._below = question.link = self._transport.connect(self._address, question)
                return
            error = DisconnectedError("the broker closed the connection during the TLS handshake")
        self._lose(error)

    def _answered(self, *, is_plain: bool) -> None:
        """Whether the listener speaks without TLS is known."""
        if self._below is not None:
            self._below.close()
        if is_plain:
            self._lose(SslAuthenticationError(f"TLS: the listener has no TLS: {_WITHOUT_TLS}"))
        else:
            self._lose(
                DisconnectedError("the broker closed the connection at the start of the TLS handshake")
            )

    def _lose(self, error: OSError | KlammError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._events.lost(error)

    def _advance(self, tls: TlsBytes) -> None:
        """As far as the bytes received allow: the handshake, then what it protects."""
        if self._is_over:
            return
        try:
            if not tls.is_open and tls.shake_hands():
                self._flush(tls)
                self._events.connected()
            if tls.is_open:
                self._read(tls)
            self._flush(tls)
        except ssl.SSLError as error:
            self._flush(tls)  # the alert, which tells the other side why
            self._fail(SslAuthenticationError(explain(error)))

    def _read(self, tls: TlsBytes) -> None:
        while not self._is_over:
            room = self._events.room()
            if room is not None:
                count = tls.read_into(room)
                if count:
                    self._events.filled(count)
                    continue
                has_ended = count == 0
            else:
                data = tls.read()
                if data:
                    self._events.received(data)
                    continue
                has_ended = data is not None
            if has_ended:
                self._fail(None)
            return

    def _flush(self, tls: TlsBytes) -> None:
        if self._below is not None and not self._is_over and (data := tls.take()):
            self._below.send([data])

    def _fail(self, error: KlammError | None) -> None:
        self._lose(error)
        if self._below is not None:
            self._below.close()


def explain(error: ssl.SSLError) -> str:
    """What a failure of TLS means, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = _CERTIFICATE_ADVICE.get(error.verify_code, "check the certificate of the broker")
        return f"TLS: the certificate of the broker is refused: {error.verify_message}; {advice}"
    reason = error.reason or str(error)
    if any(name in reason for name in _NO_TLS):
        return f"TLS: the answer is not TLS: {_WITHOUT_TLS}"
    for name, advice in _ALERT_ADVICE:
        if name in reason:
            return f"TLS: {advice} ({reason})"
    return f"TLS: {reason}"
