"""The HTTP ports of a broker, for metrics and control: listeners with settings of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.broker.config.security_settings import SASL_PROTOCOLS
from klamm.broker.net.listeners import Listener, http_listener, is_loopback
from klamm.config import ConfigError, Values

METRICS: Final = "METRICS"
CONTROL: Final = "CONTROL"


@dataclass(frozen=True, slots=True)
class HttpPorts:
    """Those that are set."""

    metrics: Listener | None
    control: Listener | None
    protocols: Mapping[str, str]  # SSL or PLAINTEXT, by name


def http_ports(values: Values, protocols: Mapping[str, str]) -> HttpPorts:
    """From the settings, beside listeners with these protocols. Raises ConfigError."""
    made: dict[str, str] = {}
    found: dict[str, Listener | None] = {}
    for name in (METRICS, CONTROL):
        setting = f"klamm.{name.lower()}.listener"
        found[name], has_tls = http_listener(setting, name, values.optional_text(setting))
        if found[name] is None:
            continue
        if name in protocols:
            raise ConfigError(setting, f"{setting}: a listener is called {name}, too: give it another name")
        made[name] = "SSL" if has_tls else "PLAINTEXT"
    if (control := found[CONTROL]) is not None:
        _check_control(values, control, protocols, has_tls=made[CONTROL] == "SSL")
    return HttpPorts(found[METRICS], control, made)


def _check_control(values: Values, control: Listener, protocols: Mapping[str, str], *, has_tls: bool) -> None:
    """It moves the time, breaks connections and ends the broker: not every program may use it."""
    setting = "klamm.control.token"
    is_local = is_loopback(control.host)
    if not is_local and not has_tls:
        raise ConfigError(
            "klamm.control.listener",
            f"klamm.control.listener={control.host}:{control.port} can be reached from other machines: use "
            f"https://{control.host}:{control.port}, or 127.0.0.1",
        )
    if values[setting] is not None:
        return
    if not is_local:
        raise ConfigError(
            setting, f"{setting} is required: the control port can be reached from other machines"
        )
    is_secured = any(protocol in SASL_PROTOCOLS for protocol in protocols.values())
    if is_secured or values.text("klamm.authorizer") or values.text("authorizer.class.name"):
        raise ConfigError(
            setting,
            f"{setting} is required: the broker has logins or an authorizer, and the control port is above "
            "both",
        )
