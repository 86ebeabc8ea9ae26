"""Logins of connections: before the first request, again before a session ends, and when they are refused."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from klamm.errors import AuthenticationError, KlammError, SaslAuthenticationError, SslAuthenticationError
from klamm.net.connection import LOGIN_RETRY_MS
from klamm.net.metadata import Metadata, MetadataConfig
from klamm.net.network import Network, NetworkConfig, Node
from klamm.net.security.sasl import Plain
from klamm.net.security.security import Security
from klamm.net.security.tokens import Token, TokenSource
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from klamm.protocol.messages.sasl_handshake import SaslHandshakeResponse
from unit.client.fakes import Asked, FakeTransport, every_version

SEED = Node("bootstrap", 0)
PLAIN = Security("SASL_PLAINTEXT", login=lambda: Plain("alice", "marker-secret"))


class World:
    """A network with a login, and the broker as the test plays it."""

    def __init__(self, security: Security = PLAIN) -> None:
        self.transport = FakeTransport()
        self.asides: list[Callable[[], None]] = []
        config = NetworkConfig((("127.0.0.1", 9092),), "test", security=security)
        self.network = Network(config, self.transport, Random(7), 0, self._aside)
        self.endings: list[tuple[Any, KlammError | None]] = []

    def _aside(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)

        self.asides.append(run)

    def ask(self) -> None:
        call = Call(
            ApiKey.LIST_GROUPS, ListGroupsRequest(), lambda *ending: self.endings.append(ending), 60_000
        )
        self.network.call(SEED, call)
        self.transport.open_all()

    def at(self, now_ms: int) -> None:
        self.network.now_ms = now_ms
        self.network.tick()

    @property
    def pending(self) -> list[ApiKey]:
        return [each.api_key for each in self.transport.asked]

    def take(self, api_key: ApiKey) -> Asked:
        return self.transport.take(api_key)

    def log_in(self, session_lifetime_ms: int = 0) -> bytes:
        """Play a good login; the token that was sent."""
        self.take(ApiKey.SASL_HANDSHAKE).answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        asked = self.take(ApiKey.SASL_AUTHENTICATE)
        asked.answer(SaslAuthenticateResponse(session_lifetime_ms=session_lifetime_ms, error_message=""))
        token: bytes = asked.request.auth_bytes
        return token

    def error(self) -> KlammError:
        assert len(self.endings) == 1
        error = self.endings[0][1]
        assert error is not None
        return error


def test_a_request_is_sent_after_the_login() -> None:
    world = World()
    world.ask()
    assert world.pending == [ApiKey.SASL_HANDSHAKE]
    assert world.log_in() == b"\0alice\0marker-secret"
    assert world.pending == [ApiKey.LIST_GROUPS]
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    assert world.endings[0][1] is None


def test_a_wrong_password_fails_what_waits_at_once_and_names_the_user() -> None:
    world = World()
    world.ask()
    world.take(ApiKey.SASL_HANDSHAKE).answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    world.take(ApiKey.SASL_AUTHENTICATE).answer(
        SaslAuthenticateResponse(
            error_code=ErrorCode.sasl_authentication_failed, error_message="Invalid\n\x1b[31mpassword"
        )
    )
    assert isinstance(world.error(), SaslAuthenticationError)
    assert not world.error().retriable
    message = str(world.error())
    assert "127.0.0.1:9092: PLAIN: user alice: Invalid??[31mpassword; check the user name" in message
    assert "marker-secret" not in message


def test_a_mechanism_that_the_broker_has_not_is_an_error_with_those_it_has() -> None:
    world = World()
    world.ask()
    world.take(ApiKey.SASL_HANDSHAKE).answer(
        SaslHandshakeResponse(
            error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=["SCRAM-SHA-512", "GSSAPI"]
        )
    )
    assert "sasl.mechanism=PLAIN; it offers: GSSAPI, SCRAM-SHA-512" in str(world.error())


def test_a_listener_without_sasl_is_an_error_at_once() -> None:
    world = World()
    world.transport.versions = lambda: [
        each for each in every_version() if each.api_key != ApiKey.SASL_HANDSHAKE
    ]
    world.ask()
    assert isinstance(world.error(), SaslAuthenticationError)
    assert "the listener has no SASL: set security.protocol" in str(world.error())


def test_a_tls_listener_is_an_error_at_once() -> None:
    world = World(Security())
    world.transport.negotiates = False
    world.ask()
    world.transport.links[0].events.received(bytes.fromhex("15030300020250"))
    assert isinstance(world.error(), SslAuthenticationError)
    assert "this is a TLS listener: set security.protocol to SSL" in str(world.error())


def test_a_listener_that_wants_sasl_is_named_when_it_hangs_up() -> None:
    world = World(Security())
    world.ask()
    world.transport.links[0].events.lost(None)
    assert "if the listener requires SASL, set security.protocol to SASL_SSL" in str(world.error())


def hung_up_on() -> World:
    """A client without a login: the listener hung up, and is asked when the client connects again."""
    world = World(Security())
    world.ask()
    world.take(ApiKey.LIST_GROUPS)
    world.transport.links[0].events.lost(None)
    world.at(1_000)
    world.ask()
    assert world.pending == [ApiKey.SASL_HANDSHAKE]
    return world


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.unsupported_sasl_mechanism])
def test_a_listener_that_wants_sasl_is_an_error_with_what_it_offers(code: ErrorCode) -> None:
    world = hung_up_on()
    world.take(ApiKey.SASL_HANDSHAKE).answer(
        SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-512", "PLAIN"])
    )
    error = world.endings[1][1]
    assert isinstance(error, SaslAuthenticationError)
    assert "the listener requires a login: set security.protocol to SASL_SSL" in str(error)
    assert "it offers: PLAIN, SCRAM-SHA-512" in str(error)


def test_a_listener_without_sasl_that_hung_up_for_another_cause_is_used_again() -> None:
    world = hung_up_on()
    world.take(ApiKey.SASL_HANDSHAKE).answer(
        SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=[])
    )
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    assert world.endings[1][1] is None


def test_a_broker_that_hangs_up_at_the_question_is_not_asked_again() -> None:
    world = hung_up_on()
    world.take(ApiKey.SASL_HANDSHAKE)
    world.transport.links[1].events.lost(None)
    world.at(5_000)
    world.ask()
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    assert world.endings[2][1] is None


def test_a_broker_that_has_answered_before_is_not_asked() -> None:
    world = World(Security())
    world.ask()
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.transport.links[0].events.lost(None)
    for number in (1, 2):  # it restarts: a new connection is closed as well
        world.at(number * 5_000)
        world.ask()
        world.take(ApiKey.LIST_GROUPS)
        world.transport.links[number].events.lost(None)
    world.at(15_000)
    world.ask()
    assert world.pending == [ApiKey.LIST_GROUPS]


def test_a_broker_that_hangs_up_later_is_not_suspected_of_sasl() -> None:
    world = World(Security())
    world.ask()
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.ask()
    world.transport.links[0].events.lost(None)
    assert "SASL" not in str(world.endings[1][1])


def test_a_new_session_begins_before_the_old_one_ends_and_requests_wait_for_it() -> None:
    world = World()
    world.ask()
    world.log_in(session_lifetime_ms=10_000)
    world.at(8_499)
    assert world.pending == [ApiKey.LIST_GROUPS]
    world.at(9_500)  # between 85 and 95 per cent, as Kafka's clients
    assert world.pending == [ApiKey.LIST_GROUPS, ApiKey.SASL_HANDSHAKE]
    world.ask()
    assert len(world.pending) == 2  # between handshake and token the broker allows nothing else
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.log_in(session_lifetime_ms=10_000)
    assert world.pending == [ApiKey.LIST_GROUPS]
    assert len(world.transport.links) == 1
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.at(19_000)
    assert world.pending == [ApiKey.SASL_HANDSHAKE]


def test_a_session_without_an_end_is_kept() -> None:
    world = World()
    world.ask()
    world.log_in()
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.at(500_000)
    assert world.pending == []


def test_a_refused_new_session_ends_the_connection() -> None:
    world = World()
    world.ask()
    world.log_in(session_lifetime_ms=10_000)
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.at(9_500)
    world.ask()
    world.take(ApiKey.SASL_HANDSHAKE).answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    world.take(ApiKey.SASL_AUTHENTICATE).answer(
        SaslAuthenticateResponse(error_code=ErrorCode.sasl_authentication_failed)
    )
    assert isinstance(world.endings[1][1], SaslAuthenticationError)


def bearer(world: list[Token | Exception]) -> Security:
    def obtain() -> Token:
        found = world.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return Security("SASL_SSL", tokens=TokenSource(obtain))


def test_a_token_is_obtained_aside_before_anything_is_sent() -> None:
    world = World(bearer([Token("t1", 60)]))
    world.ask()
    assert world.pending == []
    world.asides.pop()()
    assert world.log_in() == b"n,,\x01auth=Bearer t1\x01\x01"


def test_a_token_serves_all_connections_while_it_is_fresh() -> None:
    world = World(bearer([Token("t1", 100), Token("t2", 100)]))
    world.ask()
    world.network.call(Node("bootstrap", 0), Call(ApiKey.LIST_GROUPS, ListGroupsRequest(), print, 1))
    world.asides.pop()()
    assert not world.asides
    assert b"Bearer t1" in world.log_in()
    world.network.disconnect(SEED, "test")
    world.at(79_000)
    world.ask()
    assert b"Bearer t1" in world.log_in()
    world.network.disconnect(SEED, "test")
    world.at(81_000)
    world.ask()
    world.asides.pop()()
    assert b"Bearer t2" in world.log_in()


def test_a_token_function_that_raises_is_an_error_at_once_with_its_cause() -> None:
    world = World(bearer([RuntimeError("no metadata server")]))
    world.ask()
    world.asides.pop()()
    assert isinstance(world.error(), SaslAuthenticationError)
    assert "the token function failed: RuntimeError: no metadata server" in str(world.error())
    assert isinstance(world.error().__cause__, RuntimeError)


def test_without_a_token_for_the_next_session_the_present_one_goes_on() -> None:
    world = World(bearer([Token("t1", 10), RuntimeError("away"), Token("t2", 10)]))
    world.ask()
    world.asides.pop()()
    world.log_in(session_lifetime_ms=10_000)
    world.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    world.at(9_500)
    world.asides.pop()()
    world.ask()
    assert world.pending == [ApiKey.LIST_GROUPS]
    world.at(9_500 + LOGIN_RETRY_MS)
    world.asides.pop()()
    assert ApiKey.SASL_HANDSHAKE in world.pending


def test_a_token_that_comes_after_its_connection_is_dropped() -> None:
    world = World(bearer([Token("t1", 60)]))
    world.ask()
    world.network.disconnect(SEED, "test")
    world.asides.pop()()
    assert world.pending == []


def test_who_waits_for_metadata_is_told_of_a_refusal() -> None:
    world = World()
    metadata = Metadata(world.network, MetadataConfig())
    refusals: list[AuthenticationError] = []
    metadata.listen_for_refusal(refusals.append)
    metadata.tick(0)
    world.transport.open_all()
    world.take(ApiKey.SASL_HANDSHAKE).answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    world.take(ApiKey.SASL_AUTHENTICATE).answer(
        SaslAuthenticateResponse(error_code=ErrorCode.sasl_authentication_failed)
    )
    assert refusals == [metadata.error]


@pytest.mark.parametrize("shown", [repr, str])
def test_no_setting_shows_a_secret(shown: Callable[[object], str]) -> None:
    config = NetworkConfig((("127.0.0.1", 9092),), "test", security=PLAIN)
    assert "marker-secret" not in shown(config)
    assert "marker-secret" not in shown(Token("marker-secret", 1, {"a": "marker-secret"}))
