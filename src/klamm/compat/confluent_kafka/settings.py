"""librdkafka's settings as klamm's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.compat.confluent_kafka.setting_rules import RULES
from klamm.compat.settings import ClientKind, with_ports
from klamm.config import INT_MAX, ConfigError

RESETS: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
MOST_IN_FLIGHT: Final = 5  # of an idempotent producer
# Where librdkafka's default gives other results than klamm's.
DEFAULTS: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "latest",
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range,roundrobin",
    "allow.auto.create.topics": False,
}
PRODUCER_DEFAULTS: Final[Mapping[str, Any]] = {
    "partitioner.class": "consistent_random",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "max.request.size": 1_000_000,
    "buffer.memory": 1_048_576 * 1024,
    "message.timeout.ms": 300_000,
}
CALLBACKS: Final = ("error_cb", "stats_cb", "on_commit", "on_delivery", "oauth_cb")


def configuration(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a client: a dict, and keyword arguments."""
    if config is not None and not isinstance(config, Mapping):
        raise TypeError("expected configuration dict")
    return {**(config or {}), **settings}


def own_settings(given: Mapping[str, Any], kind: ClientKind) -> dict[str, Any]:
    """What klamm's client takes, and what the compat classes use themselves, under librdkafka's names."""
    flat = {**given.get("default.topic.config", {}), **given}
    flat.pop("default.topic.config", None)
    dotted = {name if _is_spelled_so(name) else name.replace("_", "."): flat[name] for name in flat}
    for name in CALLBACKS:
        if dotted.get(name) is not None and not callable(dotted[name]):
            raise TypeError(f"expected {name} property as a callable function")
    settings = RULES.applied(dotted, kind)
    settings["bootstrap.servers"] = ",".join(with_ports(settings.get("bootstrap.servers") or ""))
    if settings.get("connections.max.idle.ms") == 0:
        settings["connections.max.idle.ms"] = INT_MAX  # never, there
    if kind is ClientKind.CONSUMER:
        _consumers(settings)
    elif kind is ClientKind.PRODUCER:
        _producers(settings)
    return settings


def _is_spelled_so(name: str) -> bool:
    return "." in name or RULES.names(name)


def _consumers(settings: dict[str, Any]) -> None:
    for name, value in DEFAULTS.items():
        settings.setdefault(name, value)
    reset = settings["auto.offset.reset"]
    settings["auto.offset.reset"] = RESETS.get(reset, reset)
    if settings.get("auto.commit.interval.ms") == 0:
        settings["enable.auto.commit"] = False  # 0: never, there


def _producers(settings: dict[str, Any]) -> None:
    if "buffer.kbytes" in settings:
        settings["buffer.memory"] = int(settings.pop("buffer.kbytes")) * 1024
    level = settings.pop("compression.level", -1)
    codec = settings.get("compression.type")
    if codec == "inherit":
        del settings["compression.type"]
    elif int(level) >= 0 and codec in ("gzip", "lz4", "zstd"):
        settings[f"compression.{codec}.level"] = level
    in_flight = settings.get("max.in.flight.requests.per.connection", 0)
    if int(in_flight) > MOST_IN_FLIGHT and "transactional.id" not in settings:
        settings.setdefault("enable.idempotence", False)  # its default there
    for name, value in PRODUCER_DEFAULTS.items():
        settings.setdefault(name, value)
    settings["batch.size"] = min(int(settings["batch.size"]), int(settings["max.request.size"]))


def split_own(settings: dict[str, Any], kind: ClientKind) -> dict[str, Any]:
    """Take out what the compat classes use themselves."""
    mine = RULES.own[kind] - {"oauth_cb"}  # klamm's client has that one, too
    return {name: settings.pop(name) for name in list(settings) if name in mine}


def flag(name: str, value: Any) -> bool:
    """A setting that is true or false."""
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(name, f"{name}={value!r}: write true or false")
    return text == "true"
