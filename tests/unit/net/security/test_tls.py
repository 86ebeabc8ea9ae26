"""The TLS layer of a connection, against a server in the same test: no sockets."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from certificates import Authority, Certificate
from klamm.errors import DisconnectedError, KlammError, SslAuthenticationError
from klamm.net.network import Address, LinkEvents
from klamm.net.security.certificates import Material, TlsSettings, tls_context
from klamm.net.security.tls import TlsLink, TlsTransport
from klamm.protocol.types import Buffer


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Server:
    """A broker that sends back what it gets; it is the transport below as well."""

    def __init__(self, certificate: Certificate, *, client_ca: Authority | None = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca.certificate)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._is_open = False
        self.is_closed = False
        self.events: LinkEvents | None = None

    def connect(self, address: Address, events: LinkEvents) -> Server:
        self.events = events
        return self

    def send(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._in.write(part)

    def close(self) -> None:
        self.is_closed = True

    def turn(self) -> None:
        """Take what has come and answer, until neither side has more."""
        assert self.events is not None
        for _ in range(20):
            try:
                if not self._is_open:
                    self._tls.do_handshake()
                    self._is_open = True
                while data := self._tls.read(65536):
                    self._tls.write(data)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                self._is_open = True  # what is left is an alert
            if not self._out.pending:
                return
            self.events.received(self._out.read())

    def goodbye(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.turn()


@dataclass
class Owner:
    """Who the connection belongs to."""

    is_connected: bool = False
    data: bytes = b""
    losses: list[OSError | KlammError | None] = field(default_factory=list)
    large: bytearray | None = None
    filled_bytes: int = 0

    def connected(self) -> None:
        self.is_connected = True

    def received(self, data: bytes) -> None:
        self.data += data

    def room(self) -> memoryview | None:
        return None if self.large is None else memoryview(self.large)[self.filled_bytes :]

    def filled(self, count: int) -> None:
        self.filled_bytes += count
        if self.large is not None and self.filled_bytes == len(self.large):
            self.data, self.large = self.data + self.large, None

    def lost(self, error: OSError | KlammError | None) -> None:
        self.losses.append(error)

    @property
    def loss(self) -> str:
        assert len(self.losses) == 1
        return str(self.losses[0])


def trusting(
    authority: Authority, certificate: Certificate | None = None, *, checks_host_names: bool = True
) -> TlsSettings:
    return TlsSettings(
        trusted=[Material("ssl.ca.location", path=str(authority.certificate))],
        certificate=Material("ssl.certificate.location", path=str(certificate.together()))
        if certificate is not None
        else None,
        checks_host_names=checks_host_names,
    )


def connect(server: Server, settings: TlsSettings, host: str = "localhost") -> tuple[Owner, TlsLink]:
    owner = Owner()
    link = TlsTransport(server, tls_context(settings)).connect((host, 9093), owner)
    assert isinstance(link, TlsLink)
    link.connected()
    server.turn()
    return owner, link


@pytest.mark.parametrize("host", ["localhost", "localhost.", "127.0.0.1"])
def test_what_is_sent_arrives_once_the_broker_is_trusted(authority: Authority, host: str) -> None:
    server = Server(authority.issue("broker"))
    owner, link = connect(server, trusting(authority), host)
    assert owner.is_connected
    link.send([b"hello ", b"", memoryview(bytearray(b"world"))])
    server.turn()
    assert owner.data == b"hello world"


def test_a_large_response_is_put_where_it_stays(authority: Authority) -> None:
    server = Server(authority.issue("broker"))
    owner, link = connect(server, trusting(authority))
    owner.large = bytearray(200_000)
    link.send([bytes(200_000), b"next"])
    server.turn()
    assert owner.data == bytes(200_000) + b"next"


def test_an_unknown_ca_is_refused_with_what_to_do(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Authority(tmp_path_factory.mktemp("other"))
    server = Server(other.issue("broker"))
    owner, _ = connect(server, trusting(authority))
    assert isinstance(owner.losses[0], SslAuthenticationError)
    assert "add the certificate of its CA to ssl.truststore.location" in owner.loss
    assert not owner.is_connected
    assert server.is_closed


def test_an_expired_certificate_is_refused_with_what_to_do(authority: Authority) -> None:
    owner, _ = connect(Server(authority.issue("broker", has_expired=True)), trusting(authority))
    assert "certificate has expired" in owner.loss
    assert "the broker needs a new certificate" in owner.loss


def test_another_name_is_refused_unless_names_are_not_checked(authority: Authority) -> None:
    certificate = authority.issue("broker", "DNS:kafka.example")
    owner, _ = connect(Server(certificate), trusting(authority))
    assert "localhost" in owner.loss
    assert "connect to a name that the certificate has" in owner.loss
    owner, _ = connect(Server(certificate), trusting(authority, checks_host_names=False))
    assert owner.is_connected


def test_a_required_client_certificate_is_shown(authority: Authority) -> None:
    server = Server(authority.issue("broker"), client_ca=authority)
    owner, link = connect(server, trusting(authority, authority.issue("alice")))
    link.send([b"hello"])
    server.turn()
    assert owner.data == b"hello"


def test_a_missing_client_certificate_is_named_although_the_handshake_looked_good(
    authority: Authority,
) -> None:
    server = Server(authority.issue("broker"), client_ca=authority)
    owner, _ = connect(server, trusting(authority))
    assert isinstance(owner.losses[0], SslAuthenticationError)
    assert "the broker requires a client certificate: set ssl.keystore.location" in owner.loss


@pytest.mark.parametrize("answer", [b"\0\0\0\x0a not TLS at all", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_answer_that_is_not_tls_is_an_error_at_once(authority: Authority, answer: bytes) -> None:
    owner = Owner()
    link = TlsTransport(Server(authority.issue("broker")), tls_context(trusting(authority))).connect(
        ("localhost", 9092), owner
    )
    assert isinstance(link, TlsLink)
    link.connected()
    link.received(answer)
    assert isinstance(owner.losses[0], SslAuthenticationError)
    assert "the answer is not TLS: set security.protocol to PLAINTEXT" in owner.loss


class Listener:
    """One that closes the first connection; what it says on the second one is up to the test."""

    def __init__(self) -> None:
        self.opened: list[LinkEvents] = []
        self.sent = b""
        self.closed = 0

    def connect(self, address: Address, events: LinkEvents) -> Listener:
        self.opened.append(events)
        return self

    def send(self, parts: Sequence[Buffer]) -> None:
        self.sent = b"".join(map(bytes, parts))

    def close(self) -> None:
        self.closed += 1


def hung_up_on(authority: Authority) -> tuple[Listener, Owner, TlsLink]:
    """A client whose first message was answered with the end of the connection."""
    listener, owner = Listener(), Owner()
    link = TlsTransport(listener, tls_context(trusting(authority))).connect(("localhost", 9092), owner)
    assert isinstance(link, TlsLink)
    link.connected()
    assert listener.sent.startswith(b"\x16\x03")
    link.lost(None)
    assert owner.losses == []
    assert len(listener.opened) == 2
    return listener, owner, link


def test_a_listener_without_tls_is_known_by_its_answer_to_a_plain_request(authority: Authority) -> None:
    listener, owner, _ = hung_up_on(authority)
    question = listener.opened[1]
    question.connected()
    assert listener.sent == bytes.fromhex("0000000a 0012 0000 6b6c616d ffff")  # ApiVersions 0, no client id
    question.received(bytes.fromhex("0000001a 6b6c"))
    assert owner.losses == []
    question.received(bytes.fromhex("616d 0000"))
    assert isinstance(owner.losses[0], SslAuthenticationError)
    assert "the listener has no TLS: set security.protocol to PLAINTEXT" in owner.loss
    assert listener.closed == 1


@pytest.mark.parametrize(
    "answer",
    [
        None,  # closed as well: a broker that stops
        ConnectionRefusedError(111, "Connection refused"),
        bytes.fromhex("15030300020250 00"),  # a TLS listener complains
        bytes.fromhex("0000001a 00000001"),  # some other protocol
        bytes.fromhex("7000001a 6b6c616d"),
    ],
)
def test_whatever_else_it_answers_the_client_tries_again(
    authority: Authority, answer: bytes | OSError | None
) -> None:
    listener, owner, _ = hung_up_on(authority)
    question = listener.opened[1]
    if isinstance(answer, bytes):
        question.connected()
        question.received(answer)
        question.lost(None)
    else:
        question.lost(answer)
    assert isinstance(owner.losses[0], DisconnectedError)
    assert "closed the connection at the start of the TLS handshake" in owner.loss


def test_a_client_that_gives_up_meanwhile_hears_nothing_more(authority: Authority) -> None:
    listener, owner, link = hung_up_on(authority)
    link.close()
    assert listener.closed == 1
    listener.opened[1].lost(None)
    assert owner.losses == []


def test_a_connection_closed_later_in_the_handshake_is_not_suspected(authority: Authority) -> None:
    listener, owner = Listener(), Owner()
    link = TlsTransport(listener, tls_context(trusting(authority))).connect(("localhost", 9092), owner)
    assert isinstance(link, TlsLink)
    link.connected()
    link.received(b"\x16\x03\x03")
    link.lost(None)
    assert isinstance(owner.losses[0], DisconnectedError)
    assert len(listener.opened) == 1


def test_a_refused_connection_keeps_its_own_cause(authority: Authority) -> None:
    owner = Owner()
    link = TlsTransport(Server(authority.issue("broker")), tls_context(trusting(authority))).connect(
        ("localhost", 9092), owner
    )
    assert isinstance(link, TlsLink)
    refused = ConnectionRefusedError(111, "Connection refused")
    link.lost(refused)
    assert owner.losses == [refused]


def test_a_host_that_no_certificate_can_have_is_an_error_of_the_connection(authority: Authority) -> None:
    server = Server(authority.issue("broker"))
    owner = Owner()
    link = TlsTransport(server, tls_context(trusting(authority))).connect((".x", 9092), owner)
    assert isinstance(link, TlsLink)
    link.connected()
    assert "is no name of a host" in owner.loss


def test_a_goodbye_of_the_broker_ends_the_connection(authority: Authority) -> None:
    server = Server(authority.issue("broker"))
    owner, _ = connect(server, trusting(authority))
    server.goodbye()
    assert owner.losses == [None]
