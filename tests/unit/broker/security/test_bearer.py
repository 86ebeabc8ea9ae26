"""OAUTHBEARER on the broker's side: messages, unsigned tokens, and tokens signed with keys of a JWKS."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from klamm.broker.security.bearer_tokens import SignedTokens, UnsecuredTokens
from klamm.broker.security.sasl import Challenge, LoggedIn, LoginRefusedError, LoginResult
from klamm.broker.security.sasl_bearer import BearerServer, TokenRefusedError
from klamm.clock import ManualClock

KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)


def coded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsigned(clock: ManualClock, alg: str = "none", **claims: Any) -> str:
    now_s = clock.timestamp_ms() / 1000
    return f"{coded({'alg': alg})}.{coded({'sub': 'ann', 'iat': now_s, 'exp': now_s + 60, **claims})}."


def message(token: str, authorization_id: str = "", extension: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{extension}\x01".encode()


def evaluated(server: BearerServer, token: bytes) -> LoginResult:
    step = server.evaluate(token)
    return step() if callable(step) else step


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_an_unsigned_token_names_its_user_and_its_end(clock: ManualClock) -> None:
    server = BearerServer(UnsecuredTokens(clock))
    found = evaluated(server, message(unsigned(clock), "ann", "trace=x y\x01"))
    assert found == LoggedIn("ann", expires_at_ms=clock.timestamp_ms() + 60_000)


@pytest.mark.parametrize(
    "claims",
    [{"exp": 1}, {"exp": None}, {"exp": "soon"}, {"exp": True}, {"sub": None}, {"sub": 7}, {"iat": 9e12},
     {"alg": "HS256"}],
)  # fmt: skip
def test_a_refused_token_is_a_challenge_that_the_client_confirms(
    clock: ManualClock, claims: dict[str, Any]
) -> None:
    server = BearerServer(UnsecuredTokens(clock))
    invalid = '{"status":"invalid_token"}'
    assert evaluated(server, message(unsigned(clock, **claims))) == Challenge(invalid.encode())
    with pytest.raises(LoginRefusedError) as refused:
        server.evaluate(b"\x01")
    assert str(refused.value) == invalid


@pytest.mark.parametrize(
    "token",
    [b"", b"n,,\x01\x01", b"n,,auth=Bearer x\x01\x01", b"n,,\x01auth=Basic eA==\x01\x01",
     b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01", b"n,,\x01auth=Bearer x\x01", b"\xff" * 70_000],
)  # fmt: skip
def test_a_malformed_message_is_refused_at_once(clock: ManualClock, token: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        BearerServer(UnsecuredTokens(clock)).evaluate(token)


def test_another_authorization_id_is_refused(clock: ManualClock) -> None:
    with pytest.raises(LoginRefusedError, match=r"\(bob\) that is different from the token's .* \(ann\)"):
        BearerServer(UnsecuredTokens(clock)).evaluate(message(unsigned(clock), "bob"))


class Keys:
    """A JWKS endpoint."""

    def __init__(self) -> None:
        self.keys = [
            {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "one", "alg": "ES256"},
            {**json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "kid": "rsa"},
        ]
        self.fetches = 0

    def fetch(self) -> bytes:
        self.fetches += 1
        return json.dumps({"keys": self.keys}).encode()


def signed_tokens(clock: ManualClock, keys: Keys) -> SignedTokens:
    tokens = SignedTokens(keys.fetch, clock, audience=["kafka"], issuer="https://issuer")
    tokens.load()
    return tokens


def signed(
    clock: ManualClock, key: Any = KEY, kid: str | None = "one", alg: str = "ES256", **more: Any
) -> str:
    now_s = clock.timestamp_ms() / 1000
    claims = {
        "sub": "ann",
        "iat": now_s,
        "exp": now_s + 60,
        "aud": ["kafka"],
        "iss": "https://issuer",
        **more,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=alg, headers={} if kid is None else {"kid": kid})


def validated(tokens: SignedTokens, token: str) -> str:
    found = tokens.validate(token)
    return (found() if callable(found) else found).user


def test_a_token_signed_with_a_known_key_is_accepted(clock: ManualClock) -> None:
    tokens = signed_tokens(clock, Keys())
    assert validated(tokens, signed(clock)) == "ann"
    assert validated(tokens, signed(clock, RSA_KEY, "rsa", "PS384")) == "ann"


@pytest.mark.parametrize(
    "claims",
    [{"aud": "other"}, {"aud": None}, {"iss": "https://other"}, {"iss": None}, {"exp": None}, {"iat": None},
     {"sub": None}, {"nbf": 9e12}],
)  # fmt: skip
def test_a_token_with_wrong_claims_is_refused(clock: ManualClock, claims: dict[str, Any]) -> None:
    with pytest.raises(TokenRefusedError):
        validated(signed_tokens(clock, Keys()), signed(clock, **claims))


def test_the_clock_of_the_issuer_may_be_off_by_half_a_minute(clock: ManualClock) -> None:
    tokens = signed_tokens(clock, Keys())
    now_s = clock.timestamp_ms() / 1000
    assert validated(tokens, signed(clock, exp=now_s - 20)) == "ann"
    assert validated(tokens, signed(clock, iat=now_s + 20)) == "ann"
    with pytest.raises(TokenRefusedError):
        validated(tokens, signed(clock, exp=now_s - 40))


def test_no_signature_a_shared_secret_and_a_foreign_key_are_refused(clock: ManualClock) -> None:
    tokens = signed_tokens(clock, Keys())
    public = RSA_KEY.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = coded({"alg": "HS256", "kid": "rsa"}) + "." + signed(clock).split(".")[1]
    signature = base64.urlsafe_b64encode(hmac.new(pem, head.encode(), hashlib.sha256).digest()).decode()
    for token in (
        unsigned(clock),
        f"{coded({'alg': 'none', 'kid': 'one'})}.{signed(clock).split('.')[1]}.",
        f"{head}.{signature.rstrip('=')}",
        signed(clock, ec.generate_private_key(ec.SECP256R1())),
        signed(clock, kid=None),
        "x.y.z",
        "",
    ):
        with pytest.raises(TokenRefusedError):
            validated(tokens, token)


def test_an_unknown_key_is_looked_for_once_in_ten_seconds(clock: ManualClock) -> None:
    keys = Keys()
    tokens = signed_tokens(clock, keys)
    clock.advance(10_000)
    other = ec.generate_private_key(ec.SECP256R1())
    for _ in range(100):
        with pytest.raises(TokenRefusedError, match="does not have its key"):
            validated(tokens, signed(clock, other, "two"))
    assert keys.fetches == 2
    clock.advance(10_000)
    keys.keys.append({**json.loads(ECAlgorithm.to_jwk(other.public_key())), "kid": "two", "alg": "ES256"})
    assert validated(tokens, signed(clock, other, "two")) == "ann"


def test_known_keys_are_used_while_the_jwks_cannot_be_fetched(clock: ManualClock) -> None:
    keys = Keys()
    tokens = signed_tokens(clock, keys)
    clock.advance(3_600_000)

    def fails() -> bytes:
        raise OSError("connection refused")

    tokens._fetch = fails
    assert validated(tokens, signed(clock)) == "ann"


def test_keys_that_are_not_for_signatures_are_left_out(clock: ManualClock) -> None:
    keys = Keys()
    secret = {"kty": "oct", "k": "AAAA", "kid": "oct", "alg": "HS256"}
    keys.keys += [secret, {**keys.keys[0], "kid": "enc", "use": "enc"}, {"kty": "EC", "kid": "broken"}]
    tokens = signed_tokens(clock, keys)
    assert set(tokens._keys) == {"one", "rsa"}
