"""Strangers who begin to connect and do not end: memory stays bounded, and who is logged in is served."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

import klamm
from certificates import Authority
from faults.test_memory import resident_mb
from interop.kafka_tools import free_port
from interop.processes import KlammProcess
from interop.secured_kafka import SECRET, USER
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest

ADDRESSES: Final = [f"127.0.1.{number}" for number in range(1, 16)]  # the limit for one is 100 connections
STRANGERS: Final = 1_500  # 1,000 are let in at a time
LOGIN_TIMEOUT_MS: Final = 4_000
LARGEST_FRAME: Final = 524_288  # before a login
MAX_GROWTH_MB: Final = 120
MAX_WAIT_S: Final = 10.0
HELLO: Final = bytes.fromhex("16 0301 0200 01 0001fc 0303") + bytes(32)  # the start of a ClientHello
# A handshake message of 16 MB, in records of 16 KiB, of which there is no end.
ENDLESS: Final = bytes.fromhex("16 0303 4000 01 ffffff 0303") + bytes(0x4000 - 6)

Stranger = Callable[["Door"], None]


class Door:
    """The listeners of the broker, seen from outside."""

    def __init__(self, ports: dict[str, int], ca: Path, kept: ExitStack) -> None:
        self.ports = ports
        self.kept = kept  # connections that are open until the end
        self.slow: list[socket.socket] = []  # those that send a byte now and then
        self.tls = ssl.create_default_context(cafile=str(ca))
        self._count = 0

    def knock(self, listener: str) -> socket.socket:
        """A connection from one of many addresses."""
        self._count += 1
        source = ADDRESSES[self._count % len(ADDRESSES)]
        connection = self.kept.enter_context(
            socket.create_connection(
                ("127.0.0.1", self.ports[listener]), timeout=5, source_address=(source, 0)
            )
        )
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return connection


def silent(door: Door) -> None:
    door.knock("SASL_SSL")


def half_a_hello(door: Door) -> None:
    connection = door.knock("SASL_SSL")
    connection.sendall(HELLO)
    door.slow.append(connection)


def an_endless_hello(door: Door) -> None:
    connection = door.knock("SASL_SSL")
    connection.settimeout(0.5)
    for _ in range(32):
        connection.sendall(ENDLESS)


def half_a_frame(door: Door) -> None:
    connection = door.knock("SASL_PLAINTEXT")
    connection.settimeout(0.5)
    connection.sendall(struct.pack(">i", LARGEST_FRAME) + bytes(LARGEST_FRAME - 1))


def half_a_token(door: Door) -> None:
    connection = door.knock("SASL_PLAINTEXT")
    connection.settimeout(0.5)
    body = request_encoder(ApiKey.SASL_HANDSHAKE, 1)(SaslHandshakeRequest(mechanism="PLAIN"))
    connection.sendall(b"".join(request_frame(ApiKey.SASL_HANDSHAKE, 1, 1, "stranger", body)))
    connection.sendall(
        struct.pack(">i", LARGEST_FRAME) + struct.pack(">hh", 36, 1) + bytes(LARGEST_FRAME - 5)
    )


def half_a_token_over_tls(door: Door) -> None:
    connection = door.kept.enter_context(
        door.tls.wrap_socket(door.knock("SASL_SSL"), server_hostname="127.0.0.1")
    )
    connection.settimeout(0.5)
    connection.sendall(struct.pack(">i", LARGEST_FRAME) + bytes(LARGEST_FRAME - 1))


def a_giant_frame(door: Door) -> None:
    connection = door.knock("SASL_PLAINTEXT")
    connection.sendall(struct.pack(">i", 2**31 - 1) + bytes(1000))


KINDS: Final[tuple[Stranger, ...]] = (
    silent,
    half_a_hello,
    an_endless_hello,
    half_a_frame,
    half_a_token,
    half_a_token_over_tls,
    a_giant_frame,
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def door(authority: Authority) -> Iterator[Door]:
    with ExitStack() as kept:
        yield Door({"SASL_SSL": free_port(), "SASL_PLAINTEXT": free_port()}, authority.certificate, kept)


@pytest.fixture
def broker(tmp_path: Path, authority: Authority, door: Door) -> Iterator[KlammProcess]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in door.ports.items()),
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "ssl.keystore.location": str(authority.issue("broker").together()),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{module} user_{USER}="{SECRET}";',
        "klamm.login.timeout.ms": str(LOGIN_TIMEOUT_MS),
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    broker = KlammProcess(
        tmp_path / "data",
        stderr_path=tmp_path / "klamm.log",
        environment={"KLAMM_CONFIG": str(file)},
        listen=None,
    )
    yield broker
    broker.kill()


def login(door: Door, authority: Authority) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{door.ports['SASL_SSL']}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": SECRET,
    }


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker has ended it."""
    connection.settimeout(1)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_handshakes_that_do_not_end_cost_little_memory_and_harm_nobody(
    broker: KlammProcess, door: Door, authority: Authority, tmp_path: Path
) -> None:
    settings = login(door, authority)
    let_in = 0
    with klamm.Producer(settings) as producer:
        producer.send("t", b"before", partition=0).result(30)
        before_mb = largest_mb = resident_mb(broker.pid)
        slowest_s = 0.0
        for number in range(STRANGERS):
            with suppress(OSError):  # refused at the door, or while it sends
                KINDS[number % len(KINDS)](door)
                let_in += 1
            if number % 50 == 0:
                largest_mb = max(largest_mb, resident_mb(broker.pid))
                began_at = time.monotonic()
                producer.send("t", b"meanwhile", partition=0).result(30)
                slowest_s = max(slowest_s, time.monotonic() - began_at)
        due_at = time.monotonic() + 2 * LOGIN_TIMEOUT_MS / 1000
        while time.monotonic() < due_at:
            largest_mb = max(largest_mb, resident_mb(broker.pid))
            producer.send("t", b"meanwhile", partition=0).result(30)
            for each in door.slow:
                with suppress(OSError):
                    each.send(b"\0")
        assert all(is_closed(each) for each in door.slow), "a byte now and then does not buy time"
        assert let_in > STRANGERS / 10
        assert largest_mb - before_mb < MAX_GROWTH_MB
        assert slowest_s < MAX_WAIT_S
        # All of them were sent away meanwhile: there is room for who can log in.
        with klamm.Admin(settings) as admin:
            assert admin.list_topics() == ["t"]
    assert broker.stop() == 0
    said = (tmp_path / "klamm.log").read_text(encoding="utf-8")
    assert "Traceback" not in said
    assert said.count("\n") < STRANGERS / 5, "the operator is told, though not of each"
