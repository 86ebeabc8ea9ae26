"""Listeners and advertised listeners."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from klamm.config import ConfigError

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]:/]*)):([0-9]{1,5})")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Listener:
    """A named address. An empty host is every interface; port 0 is any free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(setting: str, texts: Sequence[str]) -> tuple[Listener, ...]:
    """The listeners of a setting, names in capitals, each name and each address once."""
    listeners = tuple(_parse_listener(setting, text) for text in texts)
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ConfigError(setting, f"{setting} contains a listener name twice: use a different name for each")
    fixed = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(fixed)) < len(fixed):
        raise ConfigError(setting, f"{setting} contains an address twice: use a different port for each")
    return listeners


def _parse_listener(setting: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None or int(match[4]) > 65535:
        raise ConfigError(setting, f"invalid value {text} for {setting}: expected NAME://host:port")
    return Listener(match[1].upper(), match[2] or match[3], int(match[4]))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and cannot be reached from another one."""
    from ipaddress import ip_address  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """Whether it is an IP address."""
    from ipaddress import ip_address  # noqa: PLC0415 - as above

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def http_listener(setting: str, name: str, text: str | None) -> tuple[Listener | None, bool]:
    """The listener of an HTTP port, and whether it has TLS: HOST:PORT, or https://HOST:PORT."""
    if text is None:
        return None, False
    address = text.removeprefix("https://")
    try:
        return _parse_listener(setting, f"{name}://{address}"), text.startswith("https://")
    except ConfigError:
        raise ConfigError(
            setting, f"invalid value {text} for {setting}: expected HOST:PORT, or https://HOST:PORT"
        ) from None


def bound_listeners(texts: Sequence[str], controllers: Collection[str]) -> tuple[Listener, ...]:
    """Where to listen, without the listeners meant for Kafka's controllers."""
    names = {name.upper() for name in controllers}
    listeners = tuple(
        listener for listener in parse_listeners("listeners", texts) if listener.name not in names
    )
    if not listeners:
        raise ConfigError(
            "listeners",
            "listeners contains no client listener: expected, for example, PLAINTEXT://localhost:9092",
        )
    return listeners


def advertised_listeners(
    texts: Sequence[str] | None, bound: Sequence[Listener], controllers: Collection[str], hostname: str
) -> tuple[Listener, ...]:
    """The advertised listeners: those that are set, else the bound ones, with a host name for wildcards."""
    if texts is None:
        advertised = tuple(
            replace(listener, host=hostname) if not listener.host else listener for listener in bound
        )
    else:
        names = {name.upper() for name in controllers}
        advertised = tuple(
            listener
            for listener in parse_listeners("advertised.listeners", texts)
            if listener.name not in names
        )
    _check_advertised(advertised, bound)
    return advertised


def _check_advertised(advertised: Sequence[Listener], bound: Sequence[Listener]) -> None:
    setting = "advertised.listeners"
    bound_names = {listener.name for listener in bound}
    for listener in advertised:
        if listener.name not in bound_names:
            raise ConfigError(setting, f"{setting} contains {listener.name}, which is not in listeners")
        if not listener.host or listener.host in _EVERYWHERE:
            raise ConfigError(setting, f"clients cannot connect to {listener}: set {setting} to a host name")
    if not advertised:
        raise ConfigError(setting, f"{setting} contains no client listener")


def inter_broker_listener(
    name: str | None, protocol: str | None, bound: Sequence[Listener], protocols: Mapping[str, str]
) -> str:
    """The name of the listener that other brokers connect to: the first one, unless it is set.

    It may be set by its name, or by its protocol.
    """
    if name is not None and protocol is not None:
        raise ConfigError(
            "security.inter.broker.protocol",
            "inter.broker.listener.name and security.inter.broker.protocol are both set: remove one",
        )
    if protocol is not None:
        found = [listener.name for listener in bound if protocols[listener.name] == protocol]
        if not found:
            raise ConfigError(
                "security.inter.broker.protocol",
                f"security.inter.broker.protocol={protocol}: no listener has this protocol",
            )
        return found[0]
    if name is None:
        return bound[0].name
    names = [listener.name for listener in bound]
    if name.upper() not in names:
        raise ConfigError(
            "inter.broker.listener.name",
            f"inter.broker.listener.name={name} is not in listeners: expected {' or '.join(names)}",
        )
    return name.upper()


def listener_protocols(protocol_map: str, listeners: Sequence[Listener]) -> dict[str, str]:
    """The security protocol of each listener, by its name."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not colon:
            raise ConfigError(setting, f"invalid entry {pair!r}: expected {pair}:PLAINTEXT")
        if protocol not in PROTOCOLS:
            raise ConfigError(setting, f"{setting}: {pair}: expected one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    for listener in listeners:
        if listener.name not in protocols:
            raise ConfigError(
                setting,
                f"{setting} does not say what listener {listener.name} speaks: add "
                f"{listener.name}:PLAINTEXT, or another of {', '.join(PROTOCOLS)}",
            )
    return {listener.name: protocols[listener.name] for listener in listeners}
