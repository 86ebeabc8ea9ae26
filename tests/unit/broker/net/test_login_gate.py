"""Connections of a SASL listener before their login, and the login itself, on virtual time."""

from __future__ import annotations

import base64
import json
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from internals.logins import USERS, log_in, sasl_jar, users_file
from klamm.net.security.sasl import Mechanism, OAuthBearer, Plain, Scram
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest

VERSIONS = ApiVersionsRequest("kafka", "1")
METADATA = MetadataRequest([])


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = sasl_jar()
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect(listener="SASLP")


def token(jar: Jar, expires_in_s: float = 60, user: str = "alice") -> str:
    now_s = jar.clock.timestamp_ms() / 1000
    parts = ({"alg": "none"}, {"sub": user, "exp": now_s + expires_in_s})
    coded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in parts)
    return ".".join(each.rstrip("=") for each in coded) + "."


def mechanisms(jar: Jar) -> list[Mechanism]:
    return [
        Plain("alice", USERS["alice"]),
        Scram("SCRAM-SHA-256", "alice", USERS["alice"], "nonce"),
        Scram("SCRAM-SHA-512", "alice", USERS["alice"], "nonce"),
        OAuthBearer(token(jar), {}),
    ]


@pytest.mark.parametrize("index", range(4))
def test_every_mechanism_opens_the_connection_and_names_its_principal(jar: Jar, index: int) -> None:
    client = jar.connect(listener="SASLP")
    before = client.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    answer = log_in(jar, client, mechanisms(jar)[index])
    assert (answer.error_code, answer.error_message) == (0, "")
    assert answer.session_lifetime_ms == (0 if index < 3 else pytest.approx(60_000, abs=20))
    assert client.ask(ApiKey.METADATA, 5, METADATA).topics == []
    after = client.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    assert [each.api_key for each in after.api_keys] == [each.api_key for each in before.api_keys]
    assert {17, 36} <= {each.api_key for each in after.api_keys}
    assert str(client.protocol._context.principal) == "User:alice"
    assert client.protocol.client_software == ("kafka", "1")


def test_everything_of_a_login_and_the_first_request_may_be_in_one_segment(
    jar: Jar, client: JarClient
) -> None:
    client.send_bytes(
        client.request(ApiKey.API_VERSIONS, 3, VERSIONS)
        + client.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        + client.request(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(Plain("bob", "pw").first()))
        + client.request(ApiKey.METADATA, 5, METADATA)
    )
    jar.loop.settle()
    assert [number for number, _ in client.answers()] == [1, 2, 3, 4]


def test_a_login_may_come_byte_by_byte(jar: Jar, client: JarClient) -> None:
    for data in (
        client.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")),
        client.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(Plain("bob", "pw").first())),
    ):
        for byte in data:
            client.send_bytes(bytes([byte]))
    jar.loop.settle()
    assert [response.error_code for response in client.new_answers()] == [0, 0]


def test_version_0_of_the_handshake_is_followed_by_tokens_without_headers(
    jar: Jar, client: JarClient
) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN"))
    raw = Plain("bob", "pw").first()
    client.transport.received.clear()
    client.send_bytes(struct.pack(">i", len(raw)) + raw)
    jar.loop.settle()
    assert bytes(client.transport.received) == bytes(4)
    client.transport.received.clear()
    client.send(ApiKey.METADATA, 5, METADATA)
    jar.loop.settle()
    assert len(client.frames()) == 1


def test_a_wrong_raw_token_closes_without_a_word_after_the_delay(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN"))
    client.transport.received.clear()
    client.send_bytes(struct.pack(">i", 6) + b"\0bob\0x")
    jar.pass_ms(99)
    assert jar.broker.server.newcomer_count == 1
    jar.pass_ms(2)
    assert client.is_closed
    assert not client.transport.received


def test_an_unsupported_version_of_api_versions_may_be_tried_again(jar: Jar, client: JarClient) -> None:
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    jar.loop.settle()
    assert bytes(client.transport.received)[8:10] == b"\0\x23"
    client.transport.received.clear()
    assert client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("bad name!", "1")).error_code == 42
    assert client.ask(ApiKey.API_VERSIONS, 3, VERSIONS).error_code == 0


@pytest.mark.parametrize(
    ("api_key", "version", "request_"),
    [
        (ApiKey.METADATA, 5, METADATA),
        (ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(b"\0bob\0pw")),
    ],
)
@pytest.mark.parametrize("after_versions", [False, True])
def test_any_other_request_before_the_login_closes_at_once_without_an_answer(
    jar: Jar, client: JarClient, api_key: ApiKey, version: int, request_: Any, *, after_versions: bool
) -> None:
    if after_versions:
        client.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    client.transport.received.clear()
    client.send(api_key, version, request_)
    jar.loop.settle()
    assert client.is_closed
    assert not client.transport.received


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x04\0\x03\0\x05",
        b"\xff\xff\xff\xff",
        struct.pack(">ihhih", 10, 17, 2, 7, -1),
        struct.pack(">ihhih", 10, 999, 0, 7, -1),
        struct.pack(">i", 524_289),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_login_closes_without_an_answer(jar: Jar, client: JarClient, data: bytes) -> None:
    client.send_bytes(data)
    jar.pass_ms(101)
    assert client.is_closed
    assert not client.transport.received
    assert jar.broker.server.newcomer_count == 0


def test_a_request_of_the_largest_size_is_read(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    filler = SaslAuthenticateRequest(b"x" * (524_288 - 8 - 6 - 4))
    data = client.request(ApiKey.SASL_AUTHENTICATE, 1, filler)
    assert len(data) - 4 == 524_288
    client.send_bytes(data)
    jar.pass_ms(101)
    (answer,) = client.new_answers()
    assert answer.error_code == 58


def test_api_versions_is_served_once(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    client.send(ApiKey.API_VERSIONS, 3, VERSIONS)
    jar.loop.settle()
    assert client.is_closed
    assert client.new_answers() == []


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", ""])
def test_a_mechanism_that_is_off_is_answered_with_those_that_are_on(
    jar: Jar, client: JarClient, mechanism: str
) -> None:
    client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism))
    jar.pass_ms(99)
    assert client.new_answers() == []
    jar.pass_ms(2)
    (answer,) = client.new_answers()
    assert answer.error_code == 33
    assert set(answer.mechanisms) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
    assert client.is_closed


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE])
def test_another_request_in_place_of_a_token_is_answered_in_its_own_shape(
    jar: Jar, client: JarClient, api_key: ApiKey
) -> None:
    requests: dict[ApiKey, Any] = {
        ApiKey.METADATA: METADATA,
        ApiKey.API_VERSIONS: VERSIONS,
        ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest("PLAIN"),
    }
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(api_key, 1, requests[api_key])
    jar.pass_ms(101)
    (answer,) = client.new_answers()
    if api_key is ApiKey.METADATA:
        assert (answer.topics, answer.controller_id) == ([], -1)
    else:
        assert answer.error_code == 34
    assert client.is_closed


@pytest.mark.parametrize("delay_ms", [0, 100, 1000])
def test_a_refusal_waits_its_delay_and_then_the_connection_is_closed(delay_ms: int) -> None:
    jar = sasl_jar({"connection.failed.authentication.delay.ms": str(delay_ms)})
    client = jar.connect(listener="SASLP")
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
    if delay_ms:
        jar.pass_ms(delay_ms - 1)
        assert client.new_answers() == []
        assert client.transport.is_unread()
    jar.pass_ms(2)
    (answer,) = client.new_answers()
    assert (answer.error_code, answer.auth_bytes) == (58, b"")
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert client.is_closed
    jar.close()


def test_a_token_that_has_expired_is_confirmed_and_refused(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("OAUTHBEARER"))
    first = OAuthBearer(token(jar, -60), {}).first()
    answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(first))
    assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\x01"))
    jar.pass_ms(101)
    (last,) = client.new_answers()
    assert (last.error_code, last.error_message) == (58, '{"status":"invalid_token"}')


def test_work_on_a_thread_holds_up_its_own_login_and_no_other(tmp_path: Path) -> None:
    path = users_file(tmp_path / "users", {"carol": "row"})
    jar = sasl_jar({"klamm.users.file": str(path)})
    jar.disk.delay_ms = 20
    slow, fast = jar.connect(listener="SASLP"), jar.connect(listener="SASLP")
    slow.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    slow.send_bytes(
        slow.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0carol\0row"))
        + slow.request(ApiKey.METADATA, 5, METADATA)
    )
    assert log_in(jar, fast, Plain("bob", "pw")).error_code == 0
    assert slow.new_answers() == []
    jar.pass_ms(25)
    assert len(slow.new_answers()) == 2
    jar.close()


def test_a_client_that_leaves_while_its_password_is_checked_leaves_nothing(tmp_path: Path) -> None:
    path = users_file(tmp_path / "users", {"carol": "row"})
    jar = sasl_jar({"klamm.users.file": str(path)})
    jar.disk.delay_ms = 20
    client = jar.connect(listener="SASLP")
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0carol\0row"))
    client.close()
    jar.pass_ms(50)
    assert (jar.broker.server.newcomer_count, jar.broker.server.connection_count) == (0, 0)
    jar.close()


# Limits


def test_who_does_not_log_in_is_disconnected(jar: Jar) -> None:
    silent, slow = jar.connect(listener="SASLP"), jar.connect(listener="SASLP")
    slow.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    logged_in = jar.connect(listener="SASLP")
    log_in(jar, logged_in, Plain("bob", "pw"))
    jar.pass_ms(10_001)
    assert silent.is_closed
    assert slow.is_closed
    assert not logged_in.is_closed
    assert (jar.broker.server.newcomer_count, jar.broker.server.connection_count) == (0, 1)


def test_newcomers_are_limited_in_all_and_per_address_and_others_are_served_meanwhile() -> None:
    jar = sasl_jar(
        {
            "klamm.max.unauthenticated.connections": "3",
            "klamm.max.unauthenticated.connections.per.ip": "2",
        }
    )
    old = jar.connect(listener="SASLP", ip="10.0.0.9")
    log_in(jar, old, Plain("bob", "pw"))
    greedy = [jar.connect(listener="SASLP", ip="10.0.0.1") for _ in range(3)]
    jar.loop.settle()
    assert [each.is_closed for each in greedy] == [False, False, True]
    others = [jar.connect(listener="SASLP", ip="10.0.0.2") for _ in range(2)]
    jar.loop.settle()
    assert [each.is_closed for each in others] == [False, True]
    assert old.ask(ApiKey.METADATA, 5, METADATA).topics == []
    greedy[0].close()
    jar.loop.settle()
    assert log_in(jar, jar.connect(listener="SASLP", ip="10.0.0.2"), Plain("bob", "pw")).error_code == 0
    jar.close()


def test_max_connections_counts_those_that_log_in() -> None:
    jar = sasl_jar({"max.connections": "2"})
    first = jar.connect(listener="SASLP")
    log_in(jar, first, Plain("bob", "pw"))
    second, third = jar.connect(listener="SASLP"), jar.connect(listener="SASLP")
    jar.loop.settle()
    assert third.is_closed
    assert log_in(jar, second, Plain("bob", "pw")).error_code == 0
    assert not second.is_closed
    jar.close()


def test_after_twenty_failures_an_address_waits_a_second(jar: Jar) -> None:
    for _ in range(20):
        client = jar.connect(listener="SASLP")
        client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
    jar.pass_ms(101)
    guessing, other = jar.connect(listener="SASLP"), jar.connect(listener="SASLP", ip="10.0.0.2")
    assert guessing.transport.is_unread()
    assert not other.transport.is_unread()
    jar.pass_ms(1001)
    assert not guessing.transport.is_unread()
    jar.pass_ms(60_000)
    assert not jar.connect(listener="SASLP").transport.is_unread()


def test_a_broker_that_stops_closes_those_that_log_in(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.API_VERSIONS, 3, VERSIONS)
    jar.loop.run(jar.broker.server.stop())
    jar.loop.settle()
    assert client.is_closed


def test_the_audit_log_names_user_and_address_and_nothing_else(
    jar: Jar, client: JarClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_in(jar, client, Plain("bob", "pw"))
    bad = jar.connect(listener="SASLP")
    bad.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    name = "bob\n\x1b[31m" + "x" * 1000
    bad.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(f"\0{name}\0SECRET".encode()))
    jar.pass_ms(101)
    assert "login of User:bob from 10.0.0.1:50000: PLAIN, listener SASLP" in caplog.messages
    (refused,) = (each for each in caplog.messages if "refused" in each)
    assert refused.startswith(r"login of User:bob\n\x1b[31mxxx")
    assert len(refused) < 400
    assert "SECRET" not in caplog.text
