"""A topic's configuration, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from klamm.config import LONG_MAX, ConfigError, Value, as_text
from klamm.storage.topic_settings import BROKER_DEFAULT_SETTINGS, BROKER_NAMES, TOPIC_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of a topic; `TopicConfig()` holds Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000

    # What follows from these. Plain fields: every Produce reads them.
    # Whether produced batches need no check of their records under these settings.
    takes_batches_as_they_come: bool = field(init=False, repr=False, compare=False)
    max_batch_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        takes_batches_as_they_come = (
            self.compression_type == "producer"
            and self.message_timestamp_type == "CreateTime"
            and self.message_timestamp_before_max_ms == LONG_MAX
            and "compact" not in self.cleanup_policy
        )
        object.__setattr__(self, "takes_batches_as_they_come", takes_batches_as_they_come)
        object.__setattr__(self, "max_batch_bytes", min(self.max_message_bytes, self.segment_bytes))

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def stamps_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_settings(cls, broker_defaults: Mapping[str, str], overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic with these overrides, on a broker with these settings.

        `broker_defaults` may hold other broker settings too. Raises ConfigError.
        """
        values = effective_values(broker_defaults, overrides)
        check_together(values)
        return cls(**{field: _field_value(values[name]) for field, name in _NAMES_BY_FIELD.items()})


def _field_value(value: Value) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value


_NAMES_BY_FIELD: Final[Mapping[str, str]] = {
    each.name: name
    for each in fields(TopicConfig)
    if (name := each.name.replace("_", ".")) in TOPIC_SETTINGS  # the others follow from these
}


def effective_values(broker_defaults: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, Value]:
    """The value of every topic setting, from a topic's overrides and a broker's settings."""
    given = TOPIC_SETTINGS.parse_given(overrides)
    return {
        name: given[name] if name in given else broker_default(name, broker_defaults)
        for name in TOPIC_SETTINGS.settings
    }


def broker_default(topic_name: str, broker_settings: Mapping[str, str]) -> Value:
    """The broker's default for a topic without an override.

    Of several units the finest that is set applies, wherever it is set.
    """
    for broker in BROKER_NAMES.get(topic_name, ()):
        if broker.name in broker_settings:
            value = BROKER_DEFAULT_SETTINGS[broker.name].parse(broker_settings[broker.name])
            if not isinstance(value, int) or isinstance(value, bool):
                return value
            # A negative retention means unlimited, in each unit.
            return -1 if topic_name == "retention.ms" and value < 0 else value * broker.unit
    return TOPIC_SETTINGS[topic_name].default


def check_together(values: Mapping[str, Value]) -> None:
    """Reject settings that contradict each other."""
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise ConfigError(
            "min.compaction.lag.ms",
            f"min.compaction.lag.ms={shortest} exceeds max.compaction.lag.ms={longest}: "
            f"expected at most {longest}, or raise max.compaction.lag.ms",
        )


def effective_texts(broker_defaults: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """All settings of a topic as CreateTopics and DescribeConfigs show them, sorted by name."""
    values = effective_values(broker_defaults, overrides)
    return {name: as_text(values[name]) for name in sorted(values)}
