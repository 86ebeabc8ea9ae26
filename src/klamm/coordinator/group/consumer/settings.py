"""The settings of a group in the consumer protocol: the broker's, or its own."""

from __future__ import annotations

from typing import NamedTuple

from klamm.coordinator.group.mixed.policy import MigrationPolicy


class ConsumerGroupSettings(NamedTuple):
    """What applies to one group now."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
