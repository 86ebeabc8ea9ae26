"""Topic settings: Kafka's defaults, their broker names, and which of them wins."""

from __future__ import annotations

import dataclasses

import pytest

from klamm.config import LONG_MAX, ConfigError, Kind
from klamm.storage.topic_config import TopicConfig, broker_default, effective_texts, effective_values
from klamm.storage.topic_settings import BROKER_DEFAULT_SETTINGS, BROKER_NAMES, TOPIC_SETTINGS


def test_nothing_set_anywhere_gives_kafkas_defaults() -> None:
    assert TopicConfig.from_settings({}, {}) == TopicConfig()


def test_every_setting_with_an_effect_has_a_typed_field() -> None:
    names = {field.name.replace("_", ".") for field in dataclasses.fields(TopicConfig) if field.init}
    assert names == {name for name, setting in TOPIC_SETTINGS.settings.items() if setting.has_effect}


@pytest.mark.parametrize(
    ("broker", "overrides", "retention_ms"),
    [
        ({}, {}, 604_800_000),
        ({"log.retention.hours": "1"}, {}, 3_600_000),
        ({"log.retention.minutes": "2", "log.retention.hours": "1"}, {}, 120_000),
        ({"log.retention.ms": "5", "log.retention.minutes": "2", "log.retention.hours": "1"}, {}, 5),
        ({"log.retention.ms": "5"}, {"retention.ms": "6"}, 6),
        ({"log.retention.hours": "-1"}, {}, -1),
        ({"log.retention.minutes": "-7"}, {}, -1),
    ],
)
def test_the_finest_unit_wins_and_the_topic_wins_over_all(
    broker: dict[str, str], overrides: dict[str, str], retention_ms: int
) -> None:
    assert TopicConfig.from_settings(broker, overrides).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("topic_name", "broker_name", "text", "expected"),
    [
        ("segment.ms", "log.roll.hours", "2", 7_200_000),
        ("segment.ms", "log.roll.ms", "2", 2),
        ("segment.jitter.ms", "log.roll.jitter.hours", "1", 3_600_000),
        ("flush.ms", "log.flush.scheduler.interval.ms", "9", 9),
        ("flush.ms", "log.flush.interval.ms", "8", 8),
        ("flush.messages", "log.flush.interval.messages", "8", 8),
        ("segment.bytes", "log.segment.bytes", "4096", 4096),
        ("segment.index.bytes", "log.index.size.max.bytes", "800", 800),
        ("max.message.bytes", "message.max.bytes", "70000", 70000),
        ("min.insync.replicas", "min.insync.replicas", "2", 2),
        ("cleanup.policy", "log.cleanup.policy", "compact,delete", ("compact", "delete")),
        ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "0.1", 0.1),
        ("delete.retention.ms", "log.cleaner.delete.retention.ms", "1", 1),
        ("file.delete.delay.ms", "log.segment.delete.delay.ms", "1", 1),
        ("preallocate", "log.preallocate", "true", True),
    ],
)
def test_a_broker_setting_speaks_for_its_topic_setting(
    topic_name: str, broker_name: str, text: str, expected: object
) -> None:
    assert broker_default(topic_name, {broker_name: text, "num.partitions": "3"}) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact,shred"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("segment.bytes", "1023"),
        ("segment.ms", "0"),
        ("segment.index.bytes", "3"),
        ("max.compaction.lag.ms", "0"),
        ("min.cleanable.dirty.ratio", "1.01"),
        ("message.timestamp.type", "createtime"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "1"),
        ("foo", "1"),
    ],
)
def test_a_bad_override_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TopicConfig.from_settings({}, {name: value})
    assert refused.value.name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-5"),
        ("segment.bytes", "1024"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2"),
        ("remote.storage.enable", "false"),
    ],
)
def test_the_edges_of_each_range_are_accepted(name: str, value: str) -> None:
    assert effective_texts({}, {name: value})[name] == value
    TopicConfig.from_settings({}, {name: value})


def test_the_lags_of_compaction_are_judged_together() -> None:
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms"):
        TopicConfig.from_settings({}, {"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms"):
        TopicConfig.from_settings(
            {"log.cleaner.max.compaction.lag.ms": "10"}, {"min.compaction.lag.ms": "11"}
        )
    config = TopicConfig.from_settings({}, {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"})
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (10, 10)


def test_policies_can_be_asked_for() -> None:
    both = TopicConfig.from_settings({}, {"cleanup.policy": "compact,delete"})
    neither = TopicConfig.from_settings({}, {"cleanup.policy": ""})
    assert (both.is_compacted, both.deletes_old_segments) == (True, True)
    assert (neither.is_compacted, neither.deletes_old_segments) == (False, False)
    assert TopicConfig(message_timestamp_type="LogAppendTime").stamps_append_time


def test_each_broker_name_is_defined_with_its_topics_type() -> None:
    for topic_name, brokers in BROKER_NAMES.items():
        topic = TOPIC_SETTINGS[topic_name]
        for broker in brokers:
            kind = BROKER_DEFAULT_SETTINGS[broker.name].kind
            assert kind is (topic.kind if broker.unit == 1 else Kind.INT)


def test_only_the_finest_broker_name_is_dynamic() -> None:
    for brokers in BROKER_NAMES.values():
        assert [BROKER_DEFAULT_SETTINGS[broker.name].dynamic for broker in brokers] == [
            index == 0 for index in range(len(brokers))
        ]


def test_the_texts_are_sorted_and_spelled_as_kafka_spells_them() -> None:
    texts = effective_texts({}, {"cleanup.policy": "compact, delete"})
    assert list(texts) == sorted(texts)
    assert len(texts) == 33
    assert texts["cleanup.policy"] == "compact,delete"
    assert texts["flush.ms"] == str(LONG_MAX)
    assert texts["min.cleanable.dirty.ratio"] == "0.5"
    assert texts["preallocate"] == "false"
    assert effective_values({}, {})["cleanup.policy"] == ("delete",)
