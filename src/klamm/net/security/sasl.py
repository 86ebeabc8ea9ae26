"""SASL mechanisms, the client's side. Sans-IO: bytes of the broker in, bytes for the broker out."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from klamm.errors import SaslAuthenticationError

# The broker sets the number: the most that a Kafka broker allows is 16,384, and each costs a microsecond on
# the thread that also sends heartbeats.
MAX_ITERATIONS: Final = 131_072
MIN_ITERATIONS: Final = 4_096  # RFC 7677, and the least that a Kafka broker allows
_GS2_HEADER: Final = "n,,"  # no channel binding


class Mechanism(Protocol):
    """One login: made anew for each."""

    name: str

    def first(self) -> bytes:
        """What the client sends first."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """The response to a challenge; None: the login is complete. Raises SaslAuthenticationError."""
        ...

    def explain(self, message: str) -> str:
        """What the broker's refusal means, and what to do."""
        ...


class Plain:
    """PLAIN (RFC 4616)."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username + password:
            raise SaslAuthenticationError("a user name or password for PLAIN must not contain a zero byte")
        self._username = username
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._username}\0{self._password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        return None

    def explain(self, message: str) -> str:
        return f"user {self._username}: {message}; check the user name and the password"


class Scram:
    """SCRAM (RFC 5802, RFC 7677), as Kafka has it: without channel binding, the password as UTF-8."""

    def __init__(self, name: str, username: str, password: str, nonce: str) -> None:
        self.name = name
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[name]
        self._username = username
        self._password = password
        self._nonce = nonce
        self._client_first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return (_GS2_HEADER + self._client_first).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise self._broken("a message that is not UTF-8") from None
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text)
        return None

    def explain(self, message: str) -> str:
        return (
            f"user {self._username}: {message}; check the password, and that the user has a credential for "
            f"{self.name}"
        )

    def _prove(self, server_first: str) -> bytes:
        nonce, salt, iterations = self._parameters(server_first)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        signed = ",".join((self._client_first, server_first, without_proof)).encode()
        signature = self._hmac(stored_key, signed)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _parameters(self, server_first: str) -> tuple[str, bytes, int]:
        """Nonce, salt and iterations of the broker's first message, checked."""
        fields = self._fields(server_first, "r", "s", "i")
        nonce = fields["r"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise self._broken("a nonce that does not extend the client's")
        salt = self._decoded(fields["s"])
        if not salt:
            raise self._broken("an empty salt")
        count = fields["i"]
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            raise self._broken("a number of iterations that is no number")
        if not MIN_ITERATIONS <= int(count) <= MAX_ITERATIONS:
            raise self._broken(f"{count} iterations: expected {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        return nonce, salt, int(count)

    def _verify(self, server_final: str) -> None:
        if server_final.startswith("e="):
            raise SaslAuthenticationError(self.explain(server_final[2:200]))
        signature = self._decoded(self._fields(server_final, "v")["v"])
        if not hmac.compare_digest(signature, self._server_signature or b""):
            raise SaslAuthenticationError(
                f"{self.name}: the broker's signature is wrong: it does not know the password of user "
                f"{self._username}; check that this is the broker you mean"
            )

    def _fields(self, message: str, *names: str) -> dict[str, str]:
        """The attributes of a message, which must begin with these, in this order."""
        parts = [part.partition("=") for part in message.split(",")]
        if [name for name, _, _ in parts[: len(names)]] != list(names):
            raise self._broken(f"a message without the attributes {', '.join(names)}")
        return {name: value for name, _, value in parts[: len(names)]}

    def _decoded(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise self._broken("invalid base64") from None

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)

    def _broken(self, what: str) -> SaslAuthenticationError:
        return SaslAuthenticationError(f"{self.name}: the broker sent {what}")


class OAuthBearer:
    """OAUTHBEARER (RFC 7628)."""

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = dict(extensions)

    def first(self) -> bytes:
        pairs = "".join(f"{name}={value}\x01" for name, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token}\x01{pairs}\x01".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        # A challenge is the refusal, as JSON. The broker ends the login with an error after this.
        return b"\x01" if challenge else None

    def explain(self, message: str) -> str:
        return f"{message}; check that the token has not expired and is meant for this cluster"


MakeMechanism = Callable[[], Mechanism]
