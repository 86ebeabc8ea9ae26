"""TLS listeners over real sockets."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import klamm
from certificates import Authority, Certificate, encrypted, pkcs12
from internals.jar import Jar
from klamm import TopicPartition
from klamm.config import ConfigError
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.wire import request_bytes, response_from

REQUEST = request_bytes(ApiKey.METADATA, 5, MetadataRequest([]))


class Certificates:
    """A CA, one certificate of it for the broker and one for a client, and a client of another CA."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "ca")
        self.broker = self.authority.issue("broker")
        self.alice = self.authority.issue("alice/O=Ops/C=DE")
        self.stranger = Authority(folder / "other", "other-ca").issue("alice")
        self.expired = self.authority.issue("alice", has_expired=True)

    def client(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if certificate is not None:
            context.load_cert_chain(certificate.chain, certificate.key)
        return context

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(self.broker.together()),
            "ssl.truststore.location": str(self.authority.certificate),
            **{name.replace("_", "."): value for name, value in more.items()},
        }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def broker(certificates: Certificates) -> Iterator[klamm.Broker]:
    with klamm.Broker(settings=certificates.settings()) as broker:
        yield broker


def address(broker: klamm.Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def connected(broker: klamm.Broker, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection(address(broker), timeout=10)
    return context.wrap_socket(raw, server_hostname="localhost")


def received(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (part := stream.recv(count - len(data))):
        data += part
    return data


def asked(stream: socket.socket) -> Any:
    """The answer to a request for metadata; None if the broker closes instead."""
    stream.sendall(REQUEST)
    head = received(stream, 4)
    if len(head) < 4:
        return None
    return response_from(ApiKey.METADATA, 5, received(stream, struct.unpack(">i", head)[0]))[1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_are_spoken_and_metadata_names_the_listener(
    broker: klamm.Broker, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = certificates.client()
    context.minimum_version = context.maximum_version = version
    with connected(broker, context) as stream:
        assert stream.version() == version.name.replace("_", ".", 2).replace("TLSv1.", "TLSv1.")
        answer = asked(stream)
        assert [(each.host, each.port) for each in answer.brokers] == [address(broker)]


def test_a_version_that_the_listener_has_not_is_refused(certificates: Certificates) -> None:
    settings = certificates.settings(ssl_enabled_protocols="TLSv1.2")
    context = certificates.client()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with (
        klamm.Broker(settings=settings) as broker,
        pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"),
    ):
        connected(broker, context)


def test_a_handshake_and_a_request_may_come_byte_by_byte(
    broker: klamm.Broker, certificates: Certificates
) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificates.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(address(broker), timeout=10) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:
            for byte in outgoing.read():
                raw.sendall(bytes([byte]))

        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                send()
                incoming.write(raw.recv(65536))
        tls.write(REQUEST)
        send()
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
            incoming.write(raw.recv(65536))
            try:
                answer += tls.read(65536)
            except ssl.SSLWantReadError:
                continue
    assert response_from(ApiKey.METADATA, 5, answer[4:])[1].controller_id == 1


def test_large_records_go_in_and_come_out_whole(broker: klamm.Broker, certificates: Certificates) -> None:
    values = [os.urandom(900_000) for _ in range(6)]
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority.certificate),
    }
    with klamm.Producer(settings) as producer:
        for value in values:
            producer.send("t", value, partition=0)
    with klamm.Consumer(settings) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 0)
        found: list[bytes | None] = []
        for _ in range(100):
            found += [record.value for record in consumer.poll(1)]
            if len(found) == len(values):
                break
    assert found == values


@pytest.mark.parametrize("kind", ["PKCS12", "inline", "encrypted"])
def test_certificates_come_in_every_form(certificates: Certificates, kind: str) -> None:
    own = certificates.broker
    settings = certificates.settings()
    location = settings.pop("ssl.keystore.location")
    if kind == "PKCS12":
        settings["ssl.keystore.location"] = str(pkcs12(own, certificates.authority, "pw"))
        settings["ssl.keystore.password"] = "pw"
        settings["ssl.keystore.type"] = "PKCS12"
    elif kind == "inline":
        settings["listener.name.ssl.ssl.keystore.key"] = own.key.read_text().replace("\n", "\\n")
        settings["listener.name.ssl.ssl.keystore.certificate.chain"] = own.chain.read_text()
    else:
        both = Path(location).with_suffix(".sealed.pem")
        both.write_text(encrypted(own, "pw").read_text() + own.chain.read_text())
        settings["ssl.keystore.location"], settings["ssl.key.password"] = str(both), "pw"
    with klamm.Broker(settings=settings) as broker, connected(broker, certificates.client()) as stream:
        assert asked(stream).controller_id == 1


# Client certificates


def principal(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, own: Certificate | None, **settings: str
) -> str:
    """Who a client with this certificate is; "refused"; or "anonymous"."""
    caplog.set_level(logging.INFO, "klamm.audit")
    with klamm.Broker(settings=certificates.settings(**settings)) as broker:
        try:
            with connected(broker, certificates.client(own)) as stream:
                if asked(stream) is None:
                    return "refused"
        except (ssl.SSLError, ConnectionError):
            return "refused"
    found = [each for each in caplog.messages if each.startswith("login of User:")]
    return found[0].removeprefix("login of User:").partition(" from")[0] if found else "anonymous"


@pytest.mark.parametrize(
    ("auth", "shown", "expected"),
    [
        ("none", "alice", "anonymous"),
        ("none", None, "anonymous"),
        ("requested", None, "anonymous"),
        ("requested", "alice", "C=DE,O=Ops,CN=alice"),
        ("requested", "stranger", "refused"),
        ("required", None, "refused"),
        ("required", "alice", "C=DE,O=Ops,CN=alice"),
        ("required", "stranger", "refused"),
        ("required", "expired", "refused"),
    ],
)
def test_a_client_is_who_its_certificate_says(
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    auth: str,
    shown: str | None,
    expected: str,
) -> None:
    own = None if shown is None else getattr(certificates, shown)
    assert principal(certificates, caplog, own, ssl_client_auth=auth) == expected


@pytest.mark.parametrize(
    ("rules", "expected"), [("RULE:^.*CN=([^,]+).*$/$1/U", "ALICE"), ("RULE:CN=bob/bob/", "refused")]
)
def test_rules_map_the_subject_of_a_certificate(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, rules: str, expected: str
) -> None:
    settings = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": rules}
    assert principal(certificates, caplog, certificates.alice, **settings) == expected


# What goes wrong


def test_plain_bytes_on_a_tls_listener_get_an_alert_and_are_closed(broker: klamm.Broker) -> None:
    with socket.create_connection(address(broker), timeout=10) as raw:
        raw.sendall(REQUEST)
        answer = received(raw, 1000)
    assert answer[:1] == b"\x15"


def test_a_client_in_plain_text_is_told_that_the_listener_has_tls(broker: klamm.Broker) -> None:
    with pytest.raises(klamm.SslAuthenticationError, match="this is a TLS listener"):  # noqa: SIM117
        with klamm.Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            admin.list_topics()


def test_who_sends_nothing_or_half_a_handshake_is_disconnected(certificates: Certificates) -> None:
    with klamm.Broker(settings=certificates.settings(klamm_login_timeout_ms="100")) as broker:
        for start in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            with socket.create_connection(address(broker), timeout=10) as raw:
                raw.sendall(start)
                try:
                    assert raw.recv(1) == b""
                except ConnectionResetError:
                    continue


@pytest.mark.parametrize(
    ("change", "setting", "advice"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location", "klamm certs"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "ssl.keystore.location", "cannot read /nowhere.pem"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key", "both set"),
        (
            {"ssl.truststore.location": None, "ssl.client.auth": "required"},
            "ssl.truststore.location",
            "required with ssl.client.auth=required",
        ),
        ({"ssl.cipher.suites": "TLS_NO_SUCH_CIPHER"}, "ssl.cipher.suites", "none of these"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules", "rule 1"),
    ],
)
def test_a_listener_that_cannot_have_tls_refuses_to_start_and_names_the_setting(
    certificates: Certificates, change: dict[str, str | None], setting: str, advice: str
) -> None:
    settings = {**certificates.settings(), **change}
    with pytest.raises(ConfigError, match=advice) as refused:
        klamm.Broker(settings={name: value for name, value in settings.items() if value is not None}).start()
    assert refused.value.name == setting


def test_a_cipher_may_be_chosen_by_the_name_that_java_has_for_it(certificates: Certificates) -> None:
    context = certificates.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    suites = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    with klamm.Broker(settings=certificates.settings(ssl_cipher_suites=suites)) as broker:  # noqa: SIM117
        with connected(broker, context) as stream:
            cipher = stream.cipher()
            assert cipher is not None
            assert cipher[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"


# Renewal


def serial(broker: klamm.Broker, certificates: Certificates) -> int:
    """Of the certificate that a new connection gets."""
    with connected(broker, certificates.client()) as stream:
        return int(stream.getpeercert()["serialNumber"], 16)  # type: ignore[index,arg-type]


def admin_of(broker: klamm.Broker, certificates: Certificates) -> klamm.Admin:
    return klamm.Admin(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates.authority.certificate),
        }
    )


def test_a_certificate_is_renewed_without_a_restart(certificates: Certificates, tmp_path: Path) -> None:
    keystore = tmp_path / "broker.pem"
    keystore.write_text(certificates.broker.together().read_text())
    settings = certificates.settings(ssl_keystore_location=str(keystore))
    name = "listener.name.ssl.ssl.keystore.location"
    with klamm.Broker(settings=settings) as broker, admin_of(broker, certificates) as admin:
        before = serial(broker, certificates)
        with connected(broker, certificates.client()) as stream:
            keystore.write_text(certificates.authority.issue("broker").together().read_text())
            admin.alter_configs("broker", "1", {name: str(keystore)})
            renewed = serial(broker, certificates)
            assert renewed != before
            assert asked(stream).controller_id == 1  # a connection that was open goes on
            # The same value again: the file is read again.
            keystore.write_text(certificates.authority.issue("broker").together().read_text())
            admin.alter_configs("broker", "1", {name: str(keystore)})
            assert serial(broker, certificates) not in (before, renewed)


def trusted_by(jar: Jar) -> int:
    """How many CAs connections to other brokers trust."""
    context = jar.services.peers.security.context
    assert context is not None
    return len(context.get_ca_certs())


def test_connections_to_other_brokers_use_the_renewed_certificates_too(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(certificates.authority.certificate.read_text())
    settings = certificates.settings(ssl_truststore_location=str(trusted), inter_broker_listener_name="SSL")
    jar = Jar(settings)
    try:
        assert trusted_by(jar) == 1
        trusted.write_text(
            trusted.read_text() + Authority(tmp_path / "next", "next-ca").certificate.read_text()
        )
        jar.broker.reload_certificates()
        assert trusted_by(jar) == 2
        trusted.write_text("broken")
        jar.broker.reload_certificates()
        assert trusted_by(jar) == 2
        assert "connections to other brokers keep their former certificates: " in caplog.text
    finally:
        jar.close()


def test_a_certificate_that_cannot_be_read_leaves_the_former_one(
    certificates: Certificates, tmp_path: Path
) -> None:
    keystore = tmp_path / "broker.pem"
    keystore.write_text(certificates.broker.together().read_text())
    settings = certificates.settings(ssl_keystore_location=str(keystore))
    with klamm.Broker(settings=settings) as broker, admin_of(broker, certificates) as admin:
        before = serial(broker, certificates)
        for value in (str(tmp_path / "absent.pem"), str(keystore)):
            keystore.write_text("broken")
            with pytest.raises(klamm.KlammError, match=r"listener\.name\.ssl\.ssl\.keystore\.location"):
                admin.alter_configs("broker", "1", {"listener.name.ssl.ssl.keystore.location": value})
            assert serial(broker, certificates) == before


def test_a_setting_of_a_listener_that_needs_a_restart_is_refused(certificates: Certificates) -> None:
    with (
        klamm.Broker(settings=certificates.settings()) as broker,
        admin_of(broker, certificates) as admin,
        pytest.raises(klamm.KlammError, match="restart it"),
    ):
        admin.alter_configs("broker", "1", {"listener.name.ssl.sasl.enabled.mechanisms": "PLAIN"})
