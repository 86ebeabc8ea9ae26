"""The mechanisms: what they send, what they refuse, and that no secret is shown."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from klamm.errors import SaslAuthenticationError
from klamm.net.security.sasl import MAX_ITERATIONS, OAuthBearer, Plain, Scram


def test_plain_sends_user_and_password() -> None:
    login = Plain("alice", "pä,ss=")
    assert login.first() == "\0alice\0pä,ss=".encode()
    assert login.respond(b"") is None


def test_plain_refuses_a_zero_byte_which_would_end_the_name() -> None:
    with pytest.raises(SaslAuthenticationError, match="zero byte"):
        Plain("alice\0admin", "x")


def test_scram_sha_256_is_that_of_its_rfc() -> None:
    # RFC 7677, section 3
    login = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert login.respond(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert login.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_name_with_a_comma_is_escaped() -> None:
    assert Scram("SCRAM-SHA-256", "a,b=c", "x", "nonce").first() == b"n,,n=a=2Cb=3Dc,r=nonce"


class Server:
    """A broker's side of SCRAM-SHA-512, for any password."""

    def __init__(self, password: str) -> None:
        self.salt = b"0123456789abcdef"
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), self.salt, 4096)
        self.server_key = hmac.digest(salted, b"Server Key", "sha512")

    def challenge(self, first: bytes) -> bytes:
        nonce = first.decode().split("r=")[1] + "server"
        return f"r={nonce},s={base64.b64encode(self.salt).decode()},i=4096".encode()

    def signature(self, first: bytes, challenge: bytes, final: bytes) -> bytes:
        signed = first[3:] + b"," + challenge + b"," + final.rpartition(b",p=")[0]
        return b"v=" + base64.b64encode(hmac.digest(self.server_key, signed, "sha512"))


@pytest.mark.parametrize(("known", "is_refused"), [("right", False), ("another", True)])
def test_a_broker_has_to_prove_that_it_knows_the_password(known: str, is_refused: bool) -> None:
    login, server = Scram("SCRAM-SHA-512", "alice", "right", "client-nonce"), Server(known)
    first = login.first()
    challenge = server.challenge(first)
    final = login.respond(challenge)
    assert final is not None
    answer = server.signature(first, challenge, final)
    if is_refused:
        with pytest.raises(SaslAuthenticationError, match="signature is wrong"):
            login.respond(answer)
    else:
        assert login.respond(answer) is None


@pytest.mark.parametrize(
    ("challenge", "cause"),
    [
        (b"", "without the attributes"),
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=nonce,s=AAAA,i=4096", "nonce"),  # the broker has to add its own part
        (b"r=nonceX,s=,i=4096", "salt"),
        (b"r=nonceX,s=*,i=4096", "base64"),
        (b"r=nonceX,s=AAAA,i=1", "1 iterations"),
        (b"r=nonceX,s=AAAA,i=%d" % (MAX_ITERATIONS + 1), "iterations"),
        (b"r=nonceX,s=AAAA,i=-4096", "no number"),
        (b"r=nonceX,s=AAAA,i=" + b"9" * 5000, "no number"),
        (b"m=ext,r=nonceX,s=AAAA,i=4096", "without the attributes"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_bad_challenge_ends_the_login(challenge: bytes, cause: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=cause) as refused:
        Scram("SCRAM-SHA-256", "alice", "marker-secret", "nonce").respond(challenge)
    assert "marker-secret" not in str(refused.value)


def test_an_empty_end_is_no_signature() -> None:
    login = Scram("SCRAM-SHA-256", "alice", "x", "nonce")
    login.respond(b"r=nonceX,s=AAAA,i=4096")
    with pytest.raises(SaslAuthenticationError, match="without the attributes v"):
        login.respond(b"")


def test_oauthbearer_sends_the_token_and_extensions_and_acknowledges_a_refusal() -> None:
    login = OAuthBearer("abc.def", {"logicalCluster": "lkc-1"})
    assert login.first() == b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc-1\x01\x01"
    assert login.respond(b"") is None
    assert login.respond(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize(
    "login",
    [
        Plain("alice", "marker-secret"),
        Scram("SCRAM-SHA-256", "alice", "marker-secret", "n"),
        OAuthBearer("marker-secret", {}),
    ],
)
def test_no_login_shows_its_secret(login: Plain | Scram | OAuthBearer) -> None:
    assert "marker-secret" not in f"{login!r} {login} {login.explain('refused')}"
