"""SCRAM (RFC 5802, RFC 7677), the broker's side: without channel binding, passwords as UTF-8, as Kafka."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from klamm.broker.security.credentials import ScramCredential
from klamm.broker.security.sasl import (
    Challenge,
    LoggedIn,
    LoginRefusedError,
    LoginResult,
    invalid_credentials,
)
from klamm.broker.security.sasl_plain import DEFAULT_ITERATIONS, HASHES
from klamm.broker.security.stored_credentials import credential_of, stored_value

_NONCE_BYTES: Final = 24
_SALT_BYTES: Final = 24
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,512}")
_NAME: Final = re.compile(r"(?:[^=,\0]|=2C|=3D)+")
_DIFFERENT: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

FindCredential: TypeAlias = Callable[[str, str], ScramCredential | None]


class ScramServer:
    """One login with SCRAM: two messages of the client.

    An unknown user gets a salt that is always the same for its name, and fails where a wrong password does.
    """

    def __init__(self, mechanism: str, find: FindCredential, secret: bytes, random: Random) -> None:
        """`secret` makes the salts of unknown users."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._secret = secret
        self._random = random
        self._credential: ScramCredential | None = None  # after the first message
        self._is_known = False
        self._user = ""
        self._header = ""  # the GS2 header of the first message
        self._nonce = ""
        self._first_messages = ""

    def evaluate(self, token: bytes, /) -> LoginResult:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refused("a message is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _refused(self, cause: str) -> LoginRefusedError:
        return invalid_credentials(self._mechanism, cause, self._user)

    def _first(self, message: str) -> Challenge:
        binding, _, rest = message.partition(",")
        authorization_id, comma, bare = rest.partition(",")
        fields = bare.split(",")
        if binding != "n" or not comma or len(fields) < 2:
            raise self._refused("the first message asks for channel binding or is malformed")
        user = self._named(fields[0], "n=")
        self._user = user
        client_nonce = fields[1].removeprefix("r=")
        if not fields[1].startswith("r=") or not _NONCE.fullmatch(client_nonce):
            raise self._refused("the nonce is missing, too long, or not printable")
        if "tokenauth=true" in fields[2:]:
            raise self._refused("there are no delegation tokens")
        if authorization_id and self._named(authorization_id, "a=") != user:
            raise LoginRefusedError(_DIFFERENT, "the authorization id is not the user", user)
        found = self._find(user, self._mechanism)
        self._is_known = found is not None
        # The same work for both: who measures the time of the answer must not learn which users there are.
        absent = self._absent(user)
        self._credential = credential = credential_of(absent) if found is None else found
        self._header = f"{binding},{authorization_id},"
        self._nonce = client_nonce + base64.b64encode(self._random.randbytes(_NONCE_BYTES)).decode()
        salt = base64.b64encode(credential.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._first_messages = f"{bare},{server_first}"
        return Challenge(server_first.encode())

    def _absent(self, user: str) -> str:
        """What would be stored of an unknown user."""
        salt = hmac.digest(self._secret, f"{self._mechanism}\0{user}".encode(), "sha512")[:_SALT_BYTES]
        key = bytes(hashlib.new(self._hash).digest_size)
        return stored_value(ScramCredential(salt, key, key, DEFAULT_ITERATIONS))

    def _named(self, field: str, prefix: str) -> str:
        """The name in `n=...` or `a=...`, in which commas and equals signs are escaped."""
        name = field.removeprefix(prefix)
        if not field.startswith(prefix) or not _NAME.fullmatch(name):
            raise self._refused("a name is missing or not escaped")
        return name.replace("=2C", ",").replace("=3D", "=")

    def _final(self, message: str, credential: ScramCredential) -> LoggedIn:
        without_proof, _, proof_field = message.rpartition(",")
        fields = without_proof.split(",")
        binding = base64.b64encode(self._header.encode()).decode()
        if fields[0] != f"c={binding}":
            raise self._refused("the channel binding is not that of the first message")
        if len(fields) < 2 or fields[1] != f"r={self._nonce}":
            raise self._refused("the nonce is not that of this login")
        signed = f"{self._first_messages},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        proof = self._proof(proof_field, len(signature))
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key) or not self._is_known:
            raise self._refused("the user is unknown or the password is wrong")
        verifier = hmac.digest(credential.server_key, signed, self._hash)
        return LoggedIn(self._user, b"v=" + base64.b64encode(verifier))

    def _proof(self, field: str, length: int) -> bytes:
        try:
            proof = base64.b64decode(field.removeprefix("p="), validate=True)
        except binascii.Error:
            proof = b""
        if not field.startswith("p=") or len(proof) != length:
            raise self._refused("the proof is missing or malformed")
        return proof
