"""SCRAM credentials in the cluster store: one configuration per user, with a value for each mechanism."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from klamm.broker.security.credentials import ScramCredential
from klamm.storage.cluster import ConfigResourceType, ConflictError

if TYPE_CHECKING:
    from random import Random

    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.security.session import LoginSession
    from klamm.storage.cluster import ClusterChanges, ClusterStore

STORED_AS: Final = ConfigResourceType.USER
# The protocol's numbers.
MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_SALTS: Final = "salts of unknown users"
_SECRET_BYTES: Final = 32
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def user_key(user: str) -> str:
    """The name of a user's configuration. JSON escapes what a database does not take."""
    return json.dumps(user)


class StoredCredentials:
    """The SCRAM users of the cluster, as this broker has applied them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def find(self, user: str, mechanism: str, /) -> ScramCredential | None:
        value = self._image.configs(STORED_AS, user_key(user)).get(mechanism)
        return None if value is None else credential_of(value)

    def users(self) -> Sequence[str]:
        """Everyone with a credential."""
        return [json.loads(key) for key in self._image.configured(STORED_AS)]

    def mechanisms(self, user: str) -> Mapping[str, ScramCredential]:
        """A user's credentials; empty if there are none."""
        stored = self._image.configs(STORED_AS, user_key(user))
        return {mechanism: credential_of(value) for mechanism, value in stored.items()}


class SessionCloser:
    """Closes the connections of users whose credentials are deleted (klamm.scram.close.on.delete)."""

    def __init__(
        self, credentials: StoredCredentials, sessions: Callable[[], Iterable[LoginSession]]
    ) -> None:
        self._credentials = credentials
        self._sessions = sessions

    def __call__(self, changes: ClusterChanges) -> None:
        """The image has applied changes."""
        users = {json.loads(key) for resource_type, key in changes.configs if resource_type is STORED_AS}
        if not users:
            return
        for session in list(self._sessions()):
            who, mechanism = session.principal, session.mechanism
            if who is None or who.name not in users or mechanism not in MECHANISMS.values():
                continue
            if self._credentials.find(who.name, mechanism) is None:
                session.end()


def salt_secret(cluster: ClusterStore, random: Random) -> bytes:
    """What makes the salts of unknown users: made once, and the same on all brokers. Blocks."""
    if not cluster.configs(ConfigResourceType.SECRET, _SALTS):
        made = {_SALTS: random.randbytes(_SECRET_BYTES).hex()}
        with suppress(ConflictError):  # another broker has made it at the same time
            cluster.replace_configs(ConfigResourceType.SECRET, _SALTS, made, expected={})
    return bytes.fromhex(cluster.configs(ConfigResourceType.SECRET, _SALTS)[_SALTS])


def credential_from(mechanism: str, iterations: int, salt: bytes, salted_password: bytes) -> ScramCredential:
    """What is kept of a salted password (RFC 5802, section 3)."""
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
        iterations,
    )


def key_bytes(mechanism: str) -> int:
    """How long the keys of a mechanism are, and its salted passwords."""
    return hashlib.new(_HASHES[mechanism]).digest_size


def stored_value(credential: ScramCredential) -> str:
    secrets = (credential.salt, credential.stored_key, credential.server_key)
    return ":".join([str(credential.iterations), *(b64encode(each).decode("ascii") for each in secrets)])


def credential_of(value: str) -> ScramCredential:
    iterations, *secrets = value.split(":")
    salt, stored_key, server_key = map(b64decode, secrets)
    return ScramCredential(salt, stored_key, server_key, int(iterations))
