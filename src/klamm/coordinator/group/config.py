"""Settings of the group coordinator, under Kafka's names with `_` for `.`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's own names and defaults."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 0
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_compression_codec: int = 0

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
