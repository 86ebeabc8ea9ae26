"""The settings of a consumer group: the broker's defaults for them, and its limits."""

from __future__ import annotations

from collections.abc import Collection

from klamm.broker.config.broker_config import BrokerConfig
from klamm.config import ConfigError, Value, Values


def group_defaults(config: BrokerConfig) -> dict[str, Value]:
    """What applies to a consumer group that has no setting of its own."""
    return {
        "consumer.session.timeout.ms": config.group_consumer_session_timeout_ms,
        "consumer.heartbeat.interval.ms": config.group_consumer_heartbeat_interval_ms,
        "consumer.assignment.interval.ms": config.group_consumer_assignment_interval_ms,
    }


def check_group(values: Values, given: Collection[str], config: BrokerConfig) -> None:
    """Those of a consumer group are within the limits of the broker."""
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
