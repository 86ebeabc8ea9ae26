"""`klamm doctor` and `klamm cluster health`: what each layer of a connection says when it is wrong."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from certificates import Authority
from klamm.cli.app import app
from klamm.cli.exit_codes import NEEDS_ATTENTION
from klamm.client.admin.model import ClusterDescription, LogDirDescription
from klamm.client.diagnosis.checks import connection_checks
from klamm.testing import SecureBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with klamm.Broker() as broker:
        yield broker.bootstrap


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens and is no Kafka broker; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        answer(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_a_connection_that_works_is_told_layer_by_layer(bootstrap: str) -> None:
    done = run("doctor", "-b", bootstrap)
    assert done.exit_code == 0, done.output
    assert "FAILED" not in done.stdout
    for text in (
        "127.0.0.1 is 127.0.0.1",
        "accepts connections",
        "it speaks Kafka's protocol",
        "a client can",
    ):
        assert text in done.stdout
    assert "broker 1 can be reached at" in done.stdout
    told = json.loads(run("doctor", "-b", bootstrap, "--json").stdout)
    assert all(each["ok"] for each in told)


def test_a_name_that_does_not_exist_is_named() -> None:
    done = run("doctor", "-b", "no-such-host.invalid:9092", "--timeout", "0.5")
    assert done.exit_code == 1
    assert "FAILED  no-such-host.invalid: the name cannot be resolved" in done.stdout


def test_a_port_without_a_process_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = run("doctor", "-b", f"127.0.0.1:{port}", "--timeout", "0.5")
    assert done.exit_code == 1
    assert f"FAILED  127.0.0.1:{port} cannot be reached: Connection refused" in done.stdout
    assert "is the broker running, and is this its port?" in done.stdout


def http(connection: socket.socket) -> None:
    connection.recv(1_000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def other(connection: socket.socket) -> None:
    connection.recv(1_000)
    connection.sendall(b"220 smtp.example\r\n")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (http, "it speaks HTTP"),
        (other, "it does not speak Kafka's protocol (it answers with 18 other bytes)"),
        (lambda connection: None, "it accepts connections and answers nothing"),
    ],
)
def test_a_port_of_another_program_is_recognized(
    answer: Callable[[socket.socket], None], expected: str
) -> None:
    with server(answer) as address:
        host, port = address.split(":")
        *_, last = connection_checks((host, int(port)), "PLAINTEXT", 2)
    assert (last.is_ok, last.found) == (False, expected)
    assert last.next_step


def test_tls_and_plain_text_are_told_apart(bootstrap: str, tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)

    def tls(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with server(tls) as address:
        host, port = address.split(":")
        *_, plain = connection_checks((host, int(port)), "SASL_PLAINTEXT", 2)
        *_, secure = connection_checks((host, int(port)), "SSL", 2)
    assert plain.found == "it speaks TLS, and security.protocol is SASL_PLAINTEXT"
    assert (secure.is_ok, secure.found) == (True, "it speaks TLS")
    host, port = bootstrap.split(":")
    *_, wrong = connection_checks((host, int(port)), "SASL_SSL", 2)
    assert not wrong.is_ok
    assert "without TLS, and security.protocol is SASL_SSL" in wrong.found
    assert "SASL_PLAINTEXT" in wrong.next_step


def test_the_health_of_a_cluster_is_its_controller_brokers_leaders_and_disks(bootstrap: str) -> None:
    done = run("cluster", "health", "-b", bootstrap)
    assert done.exit_code in (0, NEEDS_ATTENTION), done.output
    assert "ok      controller 1" in done.stdout
    assert "1 active broker" in done.stdout
    assert "have a leader" in done.stdout


def test_a_full_disk_and_a_missing_controller_need_attention(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_admin: Any) -> list[LogDirDescription]:
        return [LogDirDescription(1, "/srv/klamm", None, 1_000, 20, {})]

    def headless(_admin: Any, **_: Any) -> ClusterDescription:
        return ClusterDescription("abc", -1, ())

    monkeypatch.setattr(klamm.Admin, "describe_log_dirs", full)
    done = run("cluster", "health", "-b", bootstrap)
    assert done.exit_code == NEEDS_ATTENTION
    assert "FAILED  broker 1, /srv/klamm: 2% of the disk is free" in done.stdout
    monkeypatch.setattr(klamm.Admin, "describe_cluster", headless)
    assert "FAILED  the cluster has no controller" in run("cluster", "health", "-b", bootstrap).stdout


# --- secured clusters --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured() -> Iterator[SecureBroker]:
    with SecureBroker(clock="system") as broker:
        broker.create_topic("orders")
        broker.client("alice")
        broker.allow("alice", "read", topic="orders")
        broker.allow("alice", "read", group="b", prefixed=True)
        with klamm.Consumer(broker.client("alice"), group_id="billing") as consumer:
            consumer.commit({klamm.TopicPartition("orders", 0): 0})
        yield broker


def doctor(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: str
) -> tuple[int, list[tuple[bool, str, str | None]]]:
    file = tmp_path / "profiles.toml"
    rows = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items())
    file.write_text(f"[p]\n{rows}", encoding="utf-8")
    monkeypatch.setenv("KLAMM_PROFILES", str(file))
    done = run("--profile", "p", "doctor", "-b", settings["bootstrap.servers"], "--json", *more)
    secret = settings.get("sasl.password", "no password")
    assert secret not in done.output
    found = json.loads(done.stdout[done.stdout.index("[") :])
    return done.exit_code, [(each["ok"], each["found"], each["next_step"]) for each in found]


def test_a_secured_connection_that_works_is_told_with_certificate_mechanism_and_rights(
    secured: SecureBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = secured.client("alice")
    rights = ("--topic", "orders", "--group", "billing", "--topic", "secret", "--group", "b2")
    code, found = doctor(settings, monkeypatch, tmp_path, *rights)
    texts = [text for _, text, _ in found]
    assert any(
        text.startswith("certificate 1: CN=broker, of CN=klamm test CA, for 127.0.0.1, localhost")
        for text in texts
    ), texts
    assert any(text.startswith("this client accepts the certificate for 127.0.0.1 (TLSv1.") for text in texts)
    assert "it offers SCRAM-SHA-512 (all: PLAIN, SCRAM-SHA-512)" in texts
    assert "alice may read, describe topic orders" in texts
    assert "alice may read, describe group billing" in texts
    assert "alice may describe group b2, which does not exist; the broker does not tell other rights" in texts
    assert found[-3][1] == "alice may not describe topic secret, or there is no such topic"
    assert "klamm acls add alice --can read,write --topic secret" in str(found[-3][2])
    assert code == 1


def test_each_reason_why_a_secured_connection_fails_is_named_with_what_to_do(
    secured: SecureBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = secured.client("alice")

    def failures(**changed: Any) -> list[tuple[str, str | None]]:
        settings = {**right, **{name.replace("_", "."): value for name, value in changed.items()}}
        settings = {name: value for name, value in settings.items() if value is not None}
        code, found = doctor(settings, monkeypatch, tmp_path)
        assert code == 1
        return [(text, step) for ok, text, step in found if not ok]

    other = Authority(tmp_path / "other").certificate.read_text()
    (untrusted, _), *_ = failures(ssl_ca_pem=other)
    assert "add the certificate of its CA to ssl.truststore.location" in untrusted
    (offer, step), *_ = failures(sasl_mechanism="SCRAM-SHA-256")
    assert offer == "it does not offer sasl.mechanism=SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512"
    assert step == "set sasl.mechanism to PLAIN, with its user and password"
    (login, _), *_ = failures(sasl_password="wrong")
    assert "SCRAM-SHA-512: user alice" in login
    no_login = {"sasl_mechanism": None, "sasl_username": None, "sasl_password": None}
    assert failures(security_protocol="SSL", **no_login)
    (plain, step), *_ = failures(security_protocol="SASL_PLAINTEXT", ssl_ca_pem=None)
    assert plain == "it speaks TLS, and security.protocol is SASL_PLAINTEXT"


def test_an_expired_certificate_is_told_with_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with SecureBroker(clock="system") as broker:
        alice = broker.client("alice")
        broker.expire_certificate()
        code, found = doctor(alice, monkeypatch, tmp_path)
    expired = [text for ok, text, _ in found if not ok]
    assert code == 1
    assert "it has expired on" in expired[0]
    assert "certificate has expired" in expired[1]
