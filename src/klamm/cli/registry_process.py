"""The registry of `klamm up --registry`: the process of `klamm registry`, with what it must be told."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.net.listeners import is_loopback
from klamm.config import ConfigError
from klamm.extras import install_command

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig

_LAST_PORT: Final = 65535
# Where a process on this machine finds a broker that listens on every address.
_NEAR: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def host_and_port(listen: str) -> tuple[str, int] | None:
    """What `HOST:PORT` names; None if that is no address."""
    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _LAST_PORT:
        return None
    return host.strip("[]"), int(port)


def what_is_missing() -> str | None:
    """Why this installation cannot serve a registry, and what to do; None if it can."""
    try:
        import klamm.registry.server  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError as error:
        return f"the registry needs {error.name}, which is not installed: {install_command('registry')}"
    return None


class RegistryProcess(NamedTuple):
    """How to start it: where it listens, and the file with the profile `secure` if it must log in."""

    listen: str
    profiles: Path | None = None

    def command(self, lines: Sequence[str]) -> list[str]:
        """For the brokers that have said so where they serve."""
        bootstrap = ",".join(map(_address, lines))
        return [sys.executable, "-m", "klamm.cli", "registry", "--listen", self.listen, "-b", bootstrap]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Without the profile of another cluster."""
        others = {name: value for name, value in environ.items() if name != "KLAMM_PROFILE"}
        if self.profiles is None:
            return others
        return {**others, "KLAMM_PROFILE": "secure", "KLAMM_PROFILES": str(self.profiles)}


def registry_beside(listen: str, config: BrokerConfig, secured: Path | None) -> RegistryProcess:
    """The one for such a broker, whose user is in the folder `secured` if it has one. Raises ConfigError."""
    address = host_and_port(listen)
    if address is None:
        raise ConfigError("listeners", f"invalid value {listen} for --registry: expected HOST:PORT")
    if secured is None:
        values = [config.listener_values[each.name] for each in config.listeners]
        if any(each.has_tls or each.has_sasl for each in values):
            raise ConfigError(
                "listeners",
                "--registry cannot log in to these listeners: start it beside the broker, with a profile: "
                f"klamm --profile NAME registry --listen {listen}",
            )
    elif not is_loopback(address[0]):
        raise ConfigError(
            "listeners",
            f"--registry {listen} would let anyone change schemas as the user of --secure: start it "
            f"beside the broker: klamm --profile secure registry --listen {listen} --token-file FILE",
        )
    missing = what_is_missing()
    if missing is not None:
        raise ConfigError("listeners", missing)
    return RegistryProcess(listen, None if secured is None else secured.resolve() / "profiles.toml")


def _address(line: str) -> str:
    """The first address in the line of a broker that serves."""
    host, _, port = line.partition(" listening on ")[2].partition(",")[0].rpartition(":")
    return f"{_NEAR.get(host, host)}:{port}"
