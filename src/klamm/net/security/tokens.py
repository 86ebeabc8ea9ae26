"""Tokens for OAUTHBEARER, kept while fresh: from a function of the program, or from a token endpoint."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from klamm.config import ConfigError, Password
from klamm.errors import DisconnectedError, KlammError, SaslAuthenticationError
from klamm.net.security.sasl import OAuthBearer

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

    from klamm.net.network import Aside

FRESH: Final = 0.8  # the part of its life in which a token is used for a new login
ENDPOINT_TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 256 * 1024
_PRINTED_BYTES: Final = 200  # of an endpoint's refusal
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

GotToken = Callable[["Token | None", KlammError | None], None]


@dataclass(frozen=True)
class Token:
    """A token; `lifetime_s` counts from when it was obtained."""

    value: str = field(repr=False)
    lifetime_s: float
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)

    def mechanism(self) -> OAuthBearer:
        return OAuthBearer(self.value, self.extensions)


class TokenSource:
    """One token for all connections of a client. On the client's thread, but for `obtain`."""

    def __init__(self, obtain: Callable[[], Token]) -> None:
        self._obtain = obtain
        self._token: Token | None = None
        self._fresh_until_ms = 0
        self._waiting: list[GotToken] = []

    def get(self, now_ms: int, aside: Aside, done: GotToken) -> None:
        """Pass on a fresh token: the one that is kept, or a new one."""
        if self._token is not None and now_ms < self._fresh_until_ms:
            done(self._token, None)
            return
        self._waiting.append(done)
        if len(self._waiting) > 1:
            return

        def obtained(token: Token | None, failure: Exception | None) -> None:
            error = None if failure is None else _as_klamm_error(failure)
            if token is not None:
                self._token = token
                # From when it was asked for: the time on the way counts as its age.
                self._fresh_until_ms = now_ms + round(token.lifetime_s * FRESH * 1000)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each(token, error)

        aside(self._obtain, obtained)


def _as_klamm_error(failure: Exception) -> KlammError:
    if isinstance(failure, KlammError):
        return failure
    error = SaslAuthenticationError(
        f"OAUTHBEARER: the token function failed: {type(failure).__name__}: {failure}"
    )
    error.__cause__ = failure
    return error


def from_function(function: Callable[[str], Any], config: str) -> Callable[[], Token]:
    """Tokens of an `oauth_cb`, as confluent-kafka: (token, seconds since 1970[, principal, extensions])."""

    def obtain() -> Token:
        answer = function(config)
        if not isinstance(answer, tuple) or len(answer) not in (2, 3, 4):
            raise SaslAuthenticationError(
                f"oauth_cb returned {type(answer).__name__}: expected a tuple (token, expires_at_s)"
            )
        value, expires_at_s = answer[0], answer[1]
        if not isinstance(value, str) or not isinstance(expires_at_s, int | float):
            raise SaslAuthenticationError(
                "oauth_cb returned a tuple of other types: expected a text and seconds since 1970"
            )
        extensions = answer[3] if len(answer) == 4 and answer[3] else {}
        return checked(Token(value, expires_at_s - time.time(), extensions))

    return obtain


def checked(token: Token) -> Token:
    """The token, if it can be sent. Raises SaslAuthenticationError."""
    if not token.value or not token.value.isascii() or not token.value.isprintable() or " " in token.value:
        raise SaslAuthenticationError("OAUTHBEARER: the token is empty, or has characters that no token has")
    if token.lifetime_s <= 0:
        raise SaslAuthenticationError(
            f"OAUTHBEARER: the token expired {-token.lifetime_s:.0f} s ago: check the token's source, and "
            "the clock of this machine"
        )
    return token


@dataclass(frozen=True)
class ClientCredentials:
    """Tokens of an OIDC token endpoint, for a client id and its secret (KIP-768)."""

    url: str
    client_id: str
    client_secret: Password
    scope: str | None = None
    ca_location: str | None = None  # None: the system's certificates
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from urllib.parse import urlsplit  # noqa: PLC0415 - slow to import, and few clients need it

        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ConfigError(_URL, f"invalid value for {_URL}: expected https://host/path")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ConfigError(
                _URL, f"{_URL} would send the client's secret unencrypted to {parts.hostname}: use https"
            )

    def obtain(self) -> Token:
        """Ask the endpoint. Raises SaslAuthenticationError if it refuses, DisconnectedError if it is away."""
        from urllib.error import HTTPError, URLError  # noqa: PLC0415 - as above
        from urllib.parse import urlencode  # noqa: PLC0415
        from urllib.request import Request  # noqa: PLC0415

        secret = f"{self.client_id}:{self.client_secret.secret}".encode()
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        request = Request(
            self.url,
            urlencode(form).encode(),
            {
                "Authorization": f"Basic {base64.b64encode(secret).decode()}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        try:
            with self._opener().open(request, timeout=ENDPOINT_TIMEOUT_S) as response:
                return self._token(response.read(MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                reason = _reason(error.read(MAX_ANSWER_BYTES))
            if error.code >= 500 or error.code == 429:
                raise DisconnectedError(f"token endpoint {self.url}: HTTP {error.code}{reason}") from None
            raise SaslAuthenticationError(
                f"token endpoint {self.url} refused client {self.client_id}: HTTP {error.code}{reason}; "
                "check sasl.oauthbearer.client.id, its secret and the scope"
            ) from None
        except (URLError, OSError) as error:
            cause = getattr(error, "reason", error)
            raise DisconnectedError(f"token endpoint {self.url}: {cause}") from error

    def _opener(self) -> OpenerDirector:
        import ssl  # noqa: PLC0415 - as above
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener  # noqa: PLC0415

        class NoRedirects(HTTPRedirectHandler):
            """The secret is for this address only."""

            def redirect_request(self, *_: Any) -> None:
                return None

        context = ssl.create_default_context(cafile=self.ca_location)
        return build_opener(NoRedirects, HTTPSHandler(context=context))

    def _token(self, answer: bytes) -> Token:
        try:
            found = json.loads(answer)
            value = found["access_token"]
            if not isinstance(value, str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise SaslAuthenticationError(
                f"token endpoint {self.url} sent no access_token: is it an OAuth 2.0 token endpoint?"
            ) from None
        expires_in_s = found.get("expires_in")
        if not isinstance(expires_in_s, int | float):
            expires_in_s = _expiry_of(value) - time.time()
        return checked(Token(value, expires_in_s, self.extensions))


_URL: Final = "sasl.oauthbearer.token.endpoint.url"


def _expiry_of(token: str) -> float:
    """`exp` of a JWT. Its signature is the broker's to check."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        raise SaslAuthenticationError(
            "OAUTHBEARER: the token endpoint does not say when its token expires: expected expires_in"
        ) from None


def _reason(answer: bytes) -> str:
    """`error` and `error_description` of a refusal (RFC 6749), shortened."""
    try:
        found = json.loads(answer)
        words = [str(found[key]) for key in ("error", "error_description") if found.get(key)]
    except (ValueError, TypeError, AttributeError):
        return ""
    text = ascii(": ".join(words))[1:-1][:_PRINTED_BYTES]
    return f" ({text})" if text else ""
