"""A klamm with the listeners of `SecuredKafka`: the same programs run against both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from certificates import Authority
from interop.kafka_tools import free_port, run_kafka_tool
from interop.processes import KlammProcess
from interop.secured_kafka import LISTENERS, SECRET, SESSION_MS, USER, logins

_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "listener.name.mtls.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "klamm.oauthbearer.unsecured": "true",
    "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
    "inter.broker.listener.name": "PLAINTEXT",
}


class Unsecured:
    """Its listener without any of that."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


class SecuredKlamm:
    """The broker, its certificates, and what clients need for each listener."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self._folder = folder
        self.authority = Authority(folder / "certificates")
        self.other_authority = Authority(folder / "others", "other-ca")
        broker = self.authority.issue("broker")
        self.ports = {name: free_port() for name in LISTENERS}
        self._plain_port = free_port()
        self.kafka = Unsecured(f"127.0.0.1:{self._plain_port}")
        addresses = {"PLAINTEXT": self._plain_port, **self.ports}
        protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
        self._settings = {
            **_SETTINGS,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in addresses.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "ssl.keystore.location": str(broker.together()),
            "ssl.truststore.location": str(self.authority.certificate),
            **logins(),
            **(settings or {}),
        }
        self._process: KlammProcess | None = None

    @property
    def log(self) -> str:
        return (self._folder / "klamm.log").read_text(encoding="utf-8")

    def __enter__(self) -> SecuredKlamm:
        file = self._folder / "server.properties"
        rows = (f"{name}={value}".replace("\\", "\\\\") for name, value in self._settings.items())
        file.write_text("\n".join(rows) + "\n", encoding="utf-8")
        self._process = KlammProcess(
            self._folder / "data",
            stderr_path=self._folder / "klamm.log",
            environment={"KLAMM_CONFIG": str(file)},
            listen=None,
        )
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            done = run_kafka_tool(
                "kafka.admin.ConfigCommand", "--bootstrap-server", self.kafka.bootstrap, "--alter",
                "--entity-type", "users", "--entity-name", USER,
                "--add-config", f"{mechanism}=[password={SECRET}]",
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.close()

    def client(self, listener: str, **settings: Any) -> dict[str, Any]:
        """The settings of a client of this listener that trusts the broker."""
        found: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": LISTENERS[listener],
        }
        if LISTENERS[listener] in ("SSL", "SASL_SSL"):
            found["ssl.ca.location"] = str(self.authority.certificate)
        return {**found, **settings}
