"""`klamm up --secure`: TLS, one SCRAM user and ACLs, in one command."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from klamm.config import ConfigError
from klamm.extras import install_command

FOLDER: Final = "secure"
USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
CONTROL_TOKEN: Final = "control-token"
_BROKER_USER: Final = "broker"
_ITERATIONS: Final = 4096
_RENEW_BEFORE: Final = timedelta(days=30)


def secure_settings(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings of a broker with TLS, SCRAM and ACLs. Makes what the folder does not have.

    Raises ConfigError.
    """
    try:
        from klamm.net.security.authority import (  # noqa: PLC0415 - needs an extra
            CertificateAuthority,
            ends_at,
            write_private,
        )
    except ImportError:
        raise ConfigError(
            "ssl.keystore.location", f"--secure needs the package cryptography: {install_command('tls')}"
        ) from None
    listeners = given["listeners"]
    if not listeners.startswith("PLAINTEXT://") or "," in listeners:
        raise ConfigError(
            "listeners",
            f"listeners={listeners} and --secure cannot be combined: give the address by --listen",
        )
    address = listeners.removeprefix("PLAINTEXT://")
    host = address.rpartition(":")[0].strip("[]")
    hosts = list(dict.fromkeys(["localhost", "127.0.0.1", *_advertised_hosts(given), host]))
    try:
        authority = CertificateAuthority(folder)
        keystore = folder / "broker.pem"
        if not keystore.exists() or ends_at(keystore) < datetime.now(UTC) + _RENEW_BEFORE:
            authority.issue("broker", [each for each in hosts if each not in ("", "0.0.0.0", "::")])
        users = folder / "users"
        passwords = _passwords(folder / "passwords")
        if passwords is None:
            passwords = {name: secrets.token_urlsafe(18) for name in (USER, _BROKER_USER)}
            rows = "".join(f"{name}:{_row(password)}\n" for name, password in passwords.items())
            write_private(users, rows.encode())
            kept = "".join(f"{name}:{password}\n" for name, password in passwords.items())
            write_private(folder / "passwords", kept.encode())
        needs_token = "klamm.control.listener" in given and "klamm.control.token" not in given
        token = _control_token(folder / CONTROL_TOKEN) if needs_token else None
        write_private(
            folder / "client.properties", _client_properties(authority.certificate, passwords[USER])
        )
        write_private(folder / "profiles.toml", _profile(address, authority.certificate, passwords[USER]))
    except (OSError, ValueError) as error:
        raise ConfigError("ssl.keystore.location", f"cannot prepare {folder}: {error}") from error
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    made = {
        "listeners": f"SASL_SSL://{address}",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": MECHANISM,
        "klamm.users.file": str(users),
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.jaas.config": f'{jaas} username="{_BROKER_USER}" password="{passwords[_BROKER_USER]}";',
        "klamm.authorizer": "acl",
        "super.users": f"User:{USER};User:{_BROKER_USER}",
    }
    if token is not None:
        made["klamm.control.token"] = token
    advertised = given.get("advertised.listeners")
    if advertised is not None:
        made["advertised.listeners"] = advertised.replace("PLAINTEXT://", "SASL_SSL://")
    clash = sorted(made.keys() & given.keys() - {"listeners", "advertised.listeners"})
    if clash:
        raise ConfigError(clash[0], f"--secure sets {clash[0]}: remove it, or --secure")
    return {**given, **made}


def tell(folder: Path, *, has_control_token: bool = False) -> None:
    """Say what clients need, on standard error."""
    token = folder / CONTROL_TOKEN
    control = f"  klamm ctl:              export KLAMM_CONTROL_TOKEN=$(cat {token})\n"
    sys.stderr.write(
        f"klamm: TLS, {MECHANISM} user {USER}, ACLs; keys, password and CA are in {folder}\n"
        f"  Java and Kafka's tools: --command-config {folder / 'client.properties'}\n"
        f"  klamm:                  KLAMM_PROFILES={folder / 'profiles.toml'} klamm --profile secure "
        f"topics list\n{control if has_control_token else ''}"
    )


def _advertised_hosts(given: Mapping[str, str]) -> list[str]:
    texts = given.get("advertised.listeners", "").split(",")
    return [text.strip().partition("://")[2].rpartition(":")[0].strip("[]") for text in texts if text.strip()]


def _passwords(file: Path) -> dict[str, str] | None:
    if not file.exists():
        return None
    pairs = (line.partition(":") for line in file.read_text(encoding="utf-8").splitlines())
    found = {name: password for name, _, password in pairs}
    if not {USER, _BROKER_USER} <= found.keys():
        raise ValueError(f"{file} has no password of {USER} or {_BROKER_USER}: remove it")
    return found


def _control_token(file: Path) -> str:
    """The token of the control port: no password, so that who may move the time is no user."""
    from klamm.net.security.authority import write_private  # noqa: PLC0415 - needs an extra

    if not file.exists():
        write_private(file, f"{secrets.token_urlsafe(18)}\n".encode())
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"{file} is empty: remove it")
    return token


def _row(password: str) -> str:
    """A row of klamm.users.file, without the user's name."""
    salt = secrets.token_bytes(24)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    server = hmac.digest(salted, b"Server Key", "sha512")
    coded = [base64.b64encode(each).decode() for each in (salt, stored, server)]
    return f"{MECHANISM}${_ITERATIONS}:{coded[0]}${coded[1]}:{coded[2]}"


def _client_properties(ca: Path, password: str) -> bytes:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return (
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={MECHANISM}\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{password}";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ca.resolve()}\n"
    ).encode()


def _profile(address: str, ca: Path, password: str) -> bytes:
    return (
        "[secure]\n"
        f'bootstrap = "{address}"\n'
        '"security.protocol" = "SASL_SSL"\n'
        f'"sasl.mechanism" = "{MECHANISM}"\n'
        f'"sasl.username" = "{USER}"\n'
        f'"sasl.password" = "{password}"\n'
        f'"ssl.truststore.location" = "{ca.resolve()}"\n'
    ).encode()
