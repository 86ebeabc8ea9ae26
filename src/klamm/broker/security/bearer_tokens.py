"""Validation of bearer tokens: signed ones by the keys of a JWKS, unsigned ones for development."""

from __future__ import annotations

import base64
import binascii
import json
import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.broker.security.sasl_bearer import MAX_TOKEN_BYTES, TokenRefusedError
from klamm.clock import Clock

FETCH_AGAIN_MS: Final = 10_000  # an unknown key is looked for no sooner after the last fetch
FETCH_TIMEOUT_S: Final = 10
_MAX_KEYS_BYTES: Final = 1024 * 1024
# By the type of a key that does not name its algorithm. Signatures alone: never "none", no shared secrets.
_ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}


@dataclass(frozen=True, slots=True)
class ValidToken:
    """A token that was accepted."""

    user: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class _VerifyingKey:
    """A public key of a JWKS."""

    key_id: str
    key: Any
    algorithms: list[str]


def _key_of(listed: Mapping[str, Any]) -> _VerifyingKey | None:
    """A key for signatures; None if it is none, or of a kind that is not known."""
    import jwt  # noqa: PLC0415 - an optional dependency

    key_id = listed.get("kid")
    kind = (str(listed.get("kty")), listed["crv"] if isinstance(listed.get("crv"), str) else None)
    allowed = _ALGORITHMS.get(kind, ())
    algorithms = [name for name in allowed if listed.get("alg", name) == name]
    if not isinstance(key_id, str) or not algorithms or listed.get("use", "sig") != "sig":
        return None
    try:
        return _VerifyingKey(key_id, jwt.PyJWK(dict(listed), algorithms[0]).key, algorithms)
    except jwt.PyJWTError:
        return None


class UnsecuredTokens:
    """Tokens without a signature (alg none). Anybody can make one: for development only."""

    def __init__(self, clock: Clock, principal_claim: str = "sub") -> None:
        self._clock = clock
        self._claim = principal_claim

    def validate(self, token: str, /) -> ValidToken:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefusedError("it is signed or no token: expected header.claims. without a signature")
        header, claims = (_decoded(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise TokenRefusedError("its algorithm is not none")
        now_s = self._clock.timestamp_ms() / 1000
        return _checked(claims, self._claim, now_s, skew_s=0, needs_issue_time=False)


class SignedTokens:
    """Tokens signed with a key of a JWKS. Keys are fetched again when a token names an unknown one."""

    def __init__(
        self,
        fetch: Callable[[], bytes],  # the JWKS; blocks
        clock: Clock,
        *,
        audience: Collection[str] = (),
        issuer: str,
        principal_claim: str = "sub",
        skew_s: int = 30,
        refresh_ms: int = 3_600_000,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._audience = list(audience)
        self._issuer = issuer
        self._claim = principal_claim
        self._skew_s = skew_s
        self._refresh_ms = refresh_ms
        self._keys: Mapping[str, _VerifyingKey] = {}
        self._fetched_at_ms: int | None = None
        self._fetching = threading.Lock()

    def load(self) -> None:
        """Fetch the keys. Blocks; raises OSError, ValueError, or ImportError without the package PyJWT."""
        import jwt  # noqa: F401, PLC0415 - an optional dependency: without it, not one key could be used

        self._fetched_at_ms = self._clock.now_ms()
        found = json.loads(self._fetch()[:_MAX_KEYS_BYTES])
        listed = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise ValueError("it is no JWKS: expected an object with a list of keys")
        keys = (_key_of(each) for each in listed if isinstance(each, dict))
        self._keys = {key.key_id: key for key in keys if key is not None}

    def validate(self, token: str, /) -> ValidToken | Callable[[], ValidToken]:
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenRefusedError("it is too long")
        key_id = self._key_id(token)
        key = self._keys.get(key_id)
        if key is not None and not self._is_due(self._refresh_ms):
            return self._verified(token, key)
        if not self._is_due(FETCH_AGAIN_MS):
            if key is None:
                raise TokenRefusedError("the JWKS does not have its key")
            return self._verified(token, key)
        return lambda: self._after_fetch(token, key_id)

    def _is_due(self, after_ms: int) -> bool:
        return self._fetched_at_ms is None or self._clock.now_ms() - self._fetched_at_ms >= after_ms

    def _after_fetch(self, token: str, key_id: str) -> ValidToken:
        with self._fetching:
            if self._is_due(FETCH_AGAIN_MS):
                try:
                    self.load()
                except (OSError, ValueError) as error:
                    if key_id not in self._keys:
                        raise TokenRefusedError(f"the JWKS cannot be fetched: {error}") from error
        key = self._keys.get(key_id)
        if key is None:
            raise TokenRefusedError("the JWKS does not have its key")
        return self._verified(token, key)

    def _key_id(self, token: str) -> str:
        import jwt  # noqa: PLC0415 - an optional dependency

        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            raise TokenRefusedError("it is no JWT") from None
        if not isinstance(key_id, str):
            raise TokenRefusedError("it does not name its key (kid)")
        return key_id

    def _verified(self, token: str, key: _VerifyingKey) -> ValidToken:
        import jwt  # noqa: PLC0415 - an optional dependency

        try:
            # Times are checked below, on the broker's clock.
            claims = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                audience=self._audience or None,
                issuer=self._issuer,
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                    "verify_aud": bool(self._audience),
                },
            )
        except jwt.PyJWTError as error:
            raise TokenRefusedError(f"{type(error).__name__}, of issuer {self._issuer}") from None
        now_s = self._clock.timestamp_ms() / 1000
        return _checked(claims, self._claim, now_s, skew_s=self._skew_s, needs_issue_time=True)


def _checked(
    claims: Mapping[str, Any], claim: str, now_s: float, *, skew_s: int, needs_issue_time: bool
) -> ValidToken:
    user = claims.get(claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenRefusedError(f"it has no claim {claim}")
    expires_s, issued_s = _number(claims, "exp"), _number(claims, "iat")
    if expires_s is None or (needs_issue_time and issued_s is None):
        raise TokenRefusedError("it has no exp or no iat")
    if expires_s <= now_s - skew_s:
        raise TokenRefusedError("it has expired")
    begins_s = max(value for value in (issued_s, _number(claims, "nbf"), 0.0) if value is not None)
    if begins_s > now_s + skew_s:
        raise TokenRefusedError("it begins in the future")
    return ValidToken(user, int(expires_s * 1000))


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenRefusedError(f"its {name} is no number")
    return float(value)


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefusedError("it is no JWT") from None
    if not isinstance(found, dict):
        raise TokenRefusedError("it is no JWT")
    return found
