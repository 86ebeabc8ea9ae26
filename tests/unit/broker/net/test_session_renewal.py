"""Sessions that end, and logins on open connections (KIP-368), on virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from internals.logins import USERS, log_in, sasl_jar
from klamm.net.security.sasl import Plain, Scram
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest
from klamm.testing.requests import a_fetch

METADATA = MetadataRequest([])


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = sasl_jar({"connections.max.reauth.ms": "3000"})
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    client = jar.connect(listener="SASLP")
    assert log_in(jar, client, Plain("alice", USERS["alice"])).session_lifetime_ms == 3000
    return client


def works(client: JarClient) -> bool:
    return bool(client.ask(ApiKey.METADATA, 5, METADATA).controller_id == 1)


def test_a_client_that_logs_in_again_goes_on(jar: Jar, client: JarClient) -> None:
    jar.pass_ms(1000)
    assert log_in(jar, client, Plain("alice", USERS["alice"])).session_lifetime_ms == 3000
    jar.pass_ms(2500)
    assert works(client)
    assert log_in(jar, client, Plain("alice", USERS["alice"])).error_code == 0
    jar.pass_ms(2900)
    assert works(client)


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.API_VERSIONS])
def test_a_request_after_the_end_of_the_session_closes_without_an_answer(
    jar: Jar, client: JarClient, api_key: ApiKey
) -> None:
    jar.pass_ms(3500)
    assert jar.broker.server.connection_count == 1
    client.send(api_key, 1, METADATA if api_key is ApiKey.METADATA else ApiVersionsRequest())
    jar.loop.settle()
    assert client.is_closed
    assert client.new_answers() == []


def test_a_login_after_the_end_of_the_session_is_welcome(jar: Jar, client: JarClient) -> None:
    jar.pass_ms(3500)
    assert log_in(jar, client, Plain("alice", USERS["alice"])).error_code == 0
    assert works(client)


def test_a_connection_that_stays_silent_after_its_session_is_closed(jar: Jar, client: JarClient) -> None:
    jar.pass_ms(62_900)
    assert not client.is_closed
    jar.pass_ms(200)
    assert client.is_closed


@pytest.mark.parametrize(
    ("user", "password", "message"),
    [
        (
            "bob",
            "pw",
            "Cannot change principals during re-authentication from User.alice: User.bob",
        ),
        ("alice", "wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_another_user_or_a_wrong_password_is_refused_and_closed(
    jar: Jar, client: JarClient, user: str, password: str, message: str
) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(Plain(user, password).first()))
    jar.pass_ms(99)
    assert client.new_answers() == []
    jar.pass_ms(5)
    (answer,) = client.new_answers()
    assert (answer.error_code, answer.error_message) == (58, message)
    assert client.is_closed


def test_another_mechanism_is_refused(jar: Jar, client: JarClient) -> None:
    scram = Scram("SCRAM-SHA-256", "alice", USERS["alice"], "nonce")
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(scram.name))
    first = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(scram.first()))
    proof = scram.respond(first.auth_bytes)
    assert proof is not None
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(proof))
    jar.pass_ms(105)
    assert [each.error_code for each in client.new_answers()] == [58]
    assert client.is_closed


def test_a_mechanism_that_is_off_is_refused(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI"))
    jar.pass_ms(105)
    assert [each.error_code for each in client.new_answers()] == [33]
    assert client.is_closed


def test_another_request_between_handshake_and_token_is_refused_in_its_shape(
    jar: Jar, client: JarClient
) -> None:
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(ApiKey.METADATA, 1, METADATA)
    jar.pass_ms(105)
    (answer,) = client.new_answers()
    assert (answer.topics, answer.controller_id) == ([], -1)
    assert client.is_closed


def test_a_fetch_that_waits_over_the_end_is_answered_and_the_next_request_closes(jar: Jar) -> None:
    jar.create_topic("t")
    client = jar.connect(listener="SASLP")
    log_in(jar, client, Plain("alice", USERS["alice"]))
    jar.pass_ms(2900)
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=500))
    jar.pass_ms(600)
    assert len(client.new_answers()) == 1
    client.send(ApiKey.METADATA, 5, METADATA)
    jar.loop.settle()
    assert client.is_closed


def test_where_sessions_do_not_end_a_login_on_an_open_connection_is_an_error_that_leaves_it_open() -> None:
    jar = sasl_jar()
    client = jar.connect(listener="SASLP")
    log_in(jar, client, Plain("bob", "pw"))
    handshake = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    assert (handshake.error_code, list(handshake.mechanisms)) == (34, [])
    token = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0bob\0pw"))
    assert token.error_code == 34
    assert token.error_message == "SaslAuthenticate request received after successful authentication"
    assert works(client)
    jar.close()
