"""An Apache Kafka with a listener for each way in: TLS with and without client certificates, SASL."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from certificates import Authority
from interop.kafka_tools import ApacheKafka, free_port, java_command

FLAGS: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
LISTENERS: Final = {  # name: protocol
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASLP": "SASL_PLAINTEXT",
    "SASLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",  # sessions end after two seconds
}
USER: Final = "alice"
SECRET: Final = "s3cret,=ü"
SESSION_MS: Final = 2_000
_MODULES: Final = "org.apache.kafka.common.security"


class SecuredKafka:
    """The broker, its certificates, and what clients need for each listener."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "certificates")
        self.other_authority = Authority(folder / "others", "other-ca")
        broker = self.authority.issue("broker")
        self.ports = {name: free_port() for name in LISTENERS}
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(broker.together()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "inter.broker.listener.name": "PLAINTEXT",
            **logins(),
        }
        self.kafka = ApacheKafka(folder / "kafka", settings=settings, flags=FLAGS)
        self.kafka.listen_too({name: (LISTENERS[name], port) for name, port in self.ports.items()})

    def __enter__(self) -> SecuredKafka:
        self.kafka.start()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            subprocess.run(
                java_command(
                    "kafka.admin.ConfigCommand", "--bootstrap-server", self.kafka.bootstrap, "--alter",
                    "--entity-type", "users", "--entity-name", USER,
                    "--add-config", f"{mechanism}=[password='{SECRET}']".replace("'", ""),
                ),
                check=True,
                capture_output=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.stop()

    def client(self, listener: str, **settings: Any) -> dict[str, Any]:
        """The settings of a client of this listener that trusts the broker."""
        found: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": LISTENERS[listener],
        }
        if LISTENERS[listener] in ("SSL", "SASL_SSL"):
            found["ssl.ca.location"] = str(self.authority.certificate)
        return {**found, **settings}


def logins() -> dict[str, str]:
    """The users of PLAIN on each listener, and what Kafka wants of the other mechanisms."""
    users = f'username="admin" password="admin" user_admin="admin" user_{USER}="{SECRET}"'
    found = {}
    for listener in ("saslp", "sasls", "short"):
        prefix = f"listener.name.{listener}"
        found[f"{prefix}.plain.sasl.jaas.config"] = f"{_MODULES}.plain.PlainLoginModule required {users};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            found[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
        found[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
            f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        )
    return found


def unsecured_token(expires_in_s: float) -> str:
    """A token without a signature, which Kafka takes unless it is told otherwise."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 1, "exp": now + expires_in_s})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
        + "."
    )
