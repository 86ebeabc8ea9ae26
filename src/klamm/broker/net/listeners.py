"""Listeners and advertised listeners."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from klamm.config import ConfigError
from klamm.protocol.lazy_dataclass import dataclass, replace

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]:/]*)):([0-9]{1,5})")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
_ENCRYPTED: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})


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


def metrics_listener(text: str | None) -> Listener | None:
    """The listener for metrics, if there is one."""
    return _http_listener("klamm.metrics.listener", text)


def control_listener(text: str | None) -> Listener | None:
    """The control port, if there is one: for programs on this machine only."""
    setting = "klamm.control.listener"
    listener = _http_listener(setting, text)
    if listener is not None and not is_loopback(listener.host):
        raise ConfigError(
            setting,
            f"invalid value {text} for {setting}: the control port has no password and listens on "
            "this machine only; expected 127.0.0.1:PORT or localhost:PORT",
        )
    return listener


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and cannot be reached from another one."""
    from ipaddress import ip_address  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _http_listener(setting: str, text: str | None) -> Listener | None:
    try:
        return None if text is None else _parse_listener(setting, f"HTTP://{text}")
    except ConfigError:
        raise ConfigError(setting, f"invalid value {text} for {setting}: expected host:port") from None


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


def inter_broker_listener(name: str | None, bound: Sequence[Listener]) -> str:
    """The name of the listener that other brokers connect to: the first one, unless it is set."""
    if name is None:
        return bound[0].name
    names = [listener.name for listener in bound]
    if name.upper() not in names:
        raise ConfigError(
            "inter.broker.listener.name",
            f"inter.broker.listener.name={name} is not in listeners: expected {' or '.join(names)}",
        )
    return name.upper()


def check_protocols(protocol_map: str, listeners: Sequence[Listener]) -> None:
    """Reject a listener with encryption or authentication, which klamm does not have."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon:
            raise ConfigError(
                "listener.security.protocol.map", f"invalid entry {pair!r}: expected {pair}:PLAINTEXT"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    for listener in listeners:
        fallback = listener.name if listener.name in _ENCRYPTED else "PLAINTEXT"
        protocol = protocols.get(listener.name, fallback)
        if protocol != "PLAINTEXT":
            raise ConfigError(
                "listener.security.protocol.map",
                f"listener {listener.name} requires {protocol}: klamm supports PLAINTEXT only",
            )
