"""OAUTHBEARER (RFC 7628), the broker's side."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from klamm.broker.security.sasl import (
    OAUTHBEARER,
    Challenge,
    LoggedIn,
    LoginRefusedError,
    LoginResult,
    invalid_credentials,
)

MAX_TOKEN_BYTES: Final = 64 * 1024
_INVALID: Final = '{"status":"invalid_token"}'
_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_SCHEME: Final = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)


class TokenRefusedError(Exception):
    """A token that opens nothing; the message is for the broker's log, without what the token claims."""


class BearerToken(Protocol):
    """What a validator found in a token."""

    @property
    def user(self) -> str: ...
    @property
    def expires_at_ms(self) -> int: ...  # on the wall clock


class TokenValidator(Protocol):
    """Checks tokens."""

    def validate(self, token: str, /) -> BearerToken | Callable[[], BearerToken]:
        """Who the token is for; or work for a thread that finds it. Both raise TokenRefusedError."""
        ...


class BearerServer:
    """One login with OAUTHBEARER. A refused token is answered as a challenge, which the client confirms."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: str | None = None

    def evaluate(self, token: bytes, /) -> LoginResult | Callable[[], LoginResult]:
        if self._refusal is not None:
            raise LoginRefusedError(_INVALID, self._refusal)
        authorization_id, bearer = _parsed(token)
        try:
            found = self._validator.validate(bearer)
        except TokenRefusedError as error:
            return self._refused(error)
        if not callable(found):
            return _logged_in(authorization_id, found)
        work = found

        def validate() -> LoginResult:
            try:
                return _logged_in(authorization_id, work())
            except TokenRefusedError as error:
                return self._refused(error)

        return validate

    def _refused(self, error: TokenRefusedError) -> Challenge:
        self._refusal = str(error)
        return Challenge(_INVALID.encode())


def _parsed(token: bytes) -> tuple[str, str]:
    """The authorization id and the bearer token of a first message."""
    match = _MESSAGE.fullmatch(token.decode("latin-1")) if len(token) <= MAX_TOKEN_BYTES else None
    if match is None:
        raise invalid_credentials(OAUTHBEARER, "the message is malformed")
    pairs = [pair.partition("=") for pair in match["pairs"].rstrip("\x01").split("\x01")]
    found = [value for name, _, value in pairs if name == "auth"]
    bearer = _SCHEME.fullmatch(found[0]) if len(found) == 1 else None
    if bearer is None:
        raise invalid_credentials(OAUTHBEARER, "there is not exactly one auth=Bearer TOKEN")
    return match["authzid"] or "", bearer[1]


def _logged_in(authorization_id: str, token: BearerToken) -> LoggedIn:
    if authorization_id not in ("", token.user):
        raise LoginRefusedError(
            f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
            f"different from the token's principal name ({token.user})",
            "the authorization id is not the principal of the token",
            token.user,
        )
    return LoggedIn(token.user, expires_at_ms=token.expires_at_ms)
