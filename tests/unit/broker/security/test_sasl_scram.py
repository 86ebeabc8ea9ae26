"""SCRAM on the broker's side, with klamm's client as the other."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest

from internals.logins import USERS, Credentials, sasl_jar
from klamm.broker.security.sasl import Challenge, LoggedIn, LoginRefusedError
from klamm.broker.security.sasl_scram import ScramServer
from klamm.broker.security.stored_credentials import salt_secret
from klamm.net.security.sasl import Scram
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest
from klamm.storage.engines.memory_cluster import MemoryCluster

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def server(mechanism: str = "SCRAM-SHA-256", users: dict[str, str] | None = None) -> ScramServer:
    return ScramServer(mechanism, Credentials(users or USERS).find, b"secret", Random(1))


def challenged(scram: ScramServer, token: bytes) -> bytes:
    step = scram.evaluate(token)
    assert isinstance(step, Challenge)
    return step.token


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "jörg"])
def test_a_right_password_is_accepted_and_the_broker_proves_that_it_knows_it(
    mechanism: str, user: str
) -> None:
    scram = server(mechanism, {user: "pässword"})
    client = Scram(mechanism, user, "pässword", "abcdef")
    proof = client.respond(challenged(scram, client.first()))
    assert proof is not None
    step = scram.evaluate(proof)
    assert isinstance(step, LoggedIn)
    assert step.user == user
    assert client.respond(step.token) is None  # raises if the signature is wrong


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "s3cret,=ü")])
def test_a_wrong_password_and_an_unknown_user_fail_in_the_same_way(user: str, password: str) -> None:
    scram, client = server(), Scram("SCRAM-SHA-256", user, password, "abcdef")
    proof = client.respond(challenged(scram, client.first()))
    assert proof is not None
    with pytest.raises(LoginRefusedError) as refused:
        scram.evaluate(proof)
    assert str(refused.value) == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-256"
    )
    assert refused.value.cause == "the user is unknown or the password is wrong"


def test_an_unknown_user_has_the_same_salt_each_time_and_another_one_than_others() -> None:
    def salt(user: str) -> bytes:
        return challenged(server(), f"n,,n={user},r=abc".encode()).split(b",")[1]

    assert salt("nobody") == salt("nobody") != salt("no-one")


def told_salt(user: str, cluster: MemoryCluster, seed: int, **settings: str) -> bytes:
    """The salt of an unknown user, of a broker that has just started."""
    jar = sasl_jar(
        {name.replace("_", "."): value for name, value in settings.items()}, cluster=cluster, seed=seed
    )
    try:
        client = jar.connect(listener="SASLP")
        client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-256"))
        first = SaslAuthenticateRequest(f"n,,n={user},r=abc".encode())
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, first)
        return bytes(answer.auth_bytes).split(b",")[1]
    finally:
        jar.close()


def test_the_salt_of_an_unknown_user_is_the_same_on_all_brokers_and_after_a_restart() -> None:
    # Those of users do not change either: who compares salts must not learn which users there are.
    cluster = MemoryCluster(random=Random(1))
    salts = {
        told_salt("nobody", cluster, 1),
        told_salt("nobody", cluster.join(), 2),  # it was started again
        told_salt("nobody", cluster.join(), 3, node_id="2"),
    }
    assert len(salts) == 1
    assert told_salt("no-one", cluster.join(), 4) not in salts
    assert told_salt("nobody", MemoryCluster(random=Random(2)), 5) not in salts


def test_two_brokers_that_start_at_once_make_one_secret_of_salts() -> None:
    cluster = MemoryCluster(random=Random(1))
    found = []

    class Interrupted(Random):
        def randbytes(self, n: int) -> bytes:
            found.append(salt_secret(cluster.join(), Random(2)))
            return super().randbytes(n)

    found.append(salt_secret(cluster, Interrupted(3)))
    assert found[0] == found[1]
    assert len(found[0]) == 32


def test_the_zero_proof_does_not_open_an_unknown_user() -> None:
    """The stored key of an unknown user is made up: no proof may fit it."""
    scram = server()
    first = challenged(scram, b"n,,n=nobody,r=abc").split(b",")[0]
    zero = base64.b64encode(bytes(32))
    with pytest.raises(LoginRefusedError):
        scram.evaluate(b"c=biws," + first + b",p=" + zero)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=a=2Xb,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a\x7fb",
        b"n,,n=alice,r=" + b"x" * 513,
        b"n,,m=ext,n=alice,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"n,a=bob,n=alice,r=abc",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        server().evaluate(message)


@pytest.mark.parametrize("message", [b"n,a=alice,n=alice,r=abc", b"n,,n=alice,r=abc,foo=bar"])
def test_the_users_own_name_as_authorization_id_and_extensions_are_accepted(message: bytes) -> None:
    assert challenged(server(), message).startswith(b"r=abc")


def altered(client: Scram, scram: ScramServer, old: bytes, new: bytes) -> Any:
    proof = client.respond(challenged(scram, client.first()))
    assert proof is not None
    assert old in proof
    return scram.evaluate(proof.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"), [(b"c=biws", b"c=eSws"), (b"r=abc", b"r=abd"), (b",p=", b",q="), (b"p=", b"p=!")]
)
def test_an_altered_final_message_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        altered(Scram("SCRAM-SHA-256", "alice", USERS["alice"], "abc"), server(), old, new)
