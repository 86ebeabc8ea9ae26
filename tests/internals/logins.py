"""Users, and a broker in a jar with a SASL listener, for tests of logins."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from internals.jar import Jar, JarClient
from klamm.broker.security.credentials import ScramCredential
from klamm.broker.security.sasl_plain import HASHES
from klamm.net.security.sasl import Mechanism
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest

MODULES = "org.apache.kafka.common.security"
USERS = {"alice": "s3cret,=ü", "bob": "pw"}
ALL = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"


def credential(password: str, mechanism: str, salt: bytes = b"salt of a test", rounds: int = 4096) -> Any:
    """What a broker keeps of a password."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, rounds)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", name), rounds)


def users_file(path: Path, users: Mapping[str, str], mechanism: str = "SCRAM-SHA-256") -> Path:
    """A file for klamm.users.file."""

    def coded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    rows = []
    for user, password in users.items():
        row = credential(password, mechanism)
        keys = f"{coded(row.salt)}${coded(row.stored_key)}:{coded(row.server_key)}"
        rows.append(f"{user}:{mechanism}${row.iterations}:{keys}")
    path.write_text("# users\n" + "\n".join(rows) + "\n", encoding="utf-8")
    path.chmod(0o600)
    return path


class Credentials:
    """A store of SCRAM users."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.rows = {
            (user, mechanism): credential(password, mechanism)
            for user, password in users.items()
            for mechanism in HASHES
        }

    def find(self, user: str, mechanism: str, /) -> ScramCredential | None:
        return self.rows.get((user, mechanism))


def sasl_jar(settings: Mapping[str, str] | None = None, **arguments: Any) -> Jar:
    """A broker with one SASL listener, SASLP, and the users above."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    jar = Jar(
        {
            "listeners": "SASLP://127.0.0.1:0",
            "listener.security.protocol.map": "SASLP:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ALL,
            "listener.name.saslp.plain.sasl.jaas.config": (
                f"{MODULES}.plain.PlainLoginModule required {users};"
            ),
            "klamm.oauthbearer.unsecured": "true",
            **(settings or {}),
        },
        **arguments,
    )
    jar.services.scram = Credentials(USERS)
    return jar


def log_in(jar: Jar, client: JarClient, mechanism: Mechanism) -> SaslAuthenticateResponse:
    """The last response of a login that needs no time."""
    answer = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism.name))
    assert answer.error_code == 0
    token: bytes | None = mechanism.first()
    while token is not None:
        response = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
        token = None if response.error_code else mechanism.respond(response.auth_bytes)
    assert isinstance(response, SaslAuthenticateResponse)
    return response
