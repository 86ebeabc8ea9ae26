"""The settings of a consumer group: the broker's defaults for them, and its limits."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from klamm.config import ConfigError, Value, Values

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig

_LIMITED: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_SESSION: Final = "consumer.session.timeout.ms"
_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"


def check_consumer_groups(values: Values) -> None:
    """The broker's own settings are within its limits, and a session lasts longer than from beat to beat."""
    for name in _LIMITED:
        low, own, high = (f"group.consumer.{part}{name}" for part in ("min.", "", "max."))
        low_ms, own_ms, high_ms = map(values.integer, (low, own, high))
        if low_ms > high_ms:
            raise ConfigError(low, f"{low}={low_ms} is above {high}={high_ms}: lower it or raise that")
        if own_ms < low_ms:
            raise ConfigError(own, f"{own}={own_ms} is below {low}={low_ms}: raise it or lower that")
        if own_ms > high_ms:
            raise ConfigError(own, f"{own}={own_ms} is above {high}={high_ms}: lower it or raise that")
    session, heartbeat = f"group.{_SESSION}", f"group.{_HEARTBEAT}"
    if values.integer(session) <= values.integer(heartbeat):
        raise ConfigError(session, f"{session} must be above {heartbeat}={values.integer(heartbeat)}")


def group_defaults(config: BrokerConfig) -> dict[str, Value]:
    """What applies to a consumer group that has no setting of its own."""
    return {
        "consumer.session.timeout.ms": config.group_consumer_session_timeout_ms,
        "consumer.heartbeat.interval.ms": config.group_consumer_heartbeat_interval_ms,
        "consumer.assignment.interval.ms": config.group_consumer_assignment_interval_ms,
    }


def check_group(values: Values, given: Collection[str], config: BrokerConfig) -> None:
    """Those of a consumer group are within the limits of the broker, and fit each other."""
    limits = {
        "consumer.session.timeout.ms": (
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        "consumer.heartbeat.interval.ms": (
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        "consumer.assignment.interval.ms": (
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
    }
    for name, (low, high) in limits.items():
        if name in given and not low <= values.integer(name) <= high:
            raise ConfigError(name, f"must be from {low} to {high}, the limits of group.{name} of the broker")
    session_ms, heartbeat_ms = (
        values.integer(name) if name in given else default
        for name, default in (
            (_SESSION, config.group_consumer_session_timeout_ms),
            (_HEARTBEAT, config.group_consumer_heartbeat_interval_ms),
        )
    )
    if session_ms <= heartbeat_ms:
        raise ConfigError(_SESSION, f"{_SESSION}={session_ms} must be above {_HEARTBEAT}={heartbeat_ms}")
