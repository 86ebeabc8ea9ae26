"""DescribeConfigs: sources and synonyms, in Kafka's order and under Kafka's names."""

from __future__ import annotations

import pytest

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.entries import (
    DescribedSetting,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from klamm.config import ConfigSource, Kind

DEFAULT = ConfigSource.DEFAULT
STATIC = ConfigSource.STATIC_BROKER
CLUSTER = ConfigSource.DYNAMIC_DEFAULT_BROKER
BROKER = ConfigSource.DYNAMIC_BROKER
TOPIC = ConfigSource.TOPIC


def chain(entry: DescribedSetting) -> list[tuple[str, str | None, ConfigSource]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def topic_entry(config: BrokerConfig, overrides: dict[str, str], name: str) -> DescribedSetting:
    (entry,) = describe_topic(config, overrides, [name])
    return entry


def broker_entry(config: BrokerConfig, name: str) -> DescribedSetting:
    (entry,) = describe_broker(config, [name])
    return entry


def test_synonyms_come_in_source_order_under_the_brokers_names() -> None:
    config = BrokerConfig.from_settings(
        {"log.cleanup.policy": "compact"},
        dynamic_default={"log.cleanup.policy": "delete"},
        dynamic={"log.cleanup.policy": "compact,delete"},
    )
    entry = topic_entry(config, {"cleanup.policy": ""}, "cleanup.policy")
    assert entry.value == ""
    assert entry.source is TOPIC
    assert entry.kind is Kind.LIST
    assert (entry.is_read_only, entry.is_sensitive) == (False, False)
    assert chain(entry) == [
        ("cleanup.policy", "", TOPIC),
        ("log.cleanup.policy", "compact,delete", BROKER),
        ("log.cleanup.policy", "delete", CLUSTER),
        ("log.cleanup.policy", "compact", STATIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]


@pytest.mark.parametrize("name", ["retention.ms", "segment.ms", "flush.ms", "segment.jitter.ms"])
def test_a_default_in_another_unit_is_not_shown_as_a_synonym(name: str) -> None:
    entry = topic_entry(BrokerConfig(), {}, name)
    assert (chain(entry), entry.source) == ([], DEFAULT)
    overridden = topic_entry(BrokerConfig(), {name: "7"}, name)
    assert chain(overridden) == [(name, "7", TOPIC)]


def test_hours_show_once_milliseconds_are_set() -> None:
    hours = topic_entry(BrokerConfig.from_settings({"log.retention.hours": "1"}), {}, "retention.ms")
    assert (hours.value, hours.source, chain(hours)) == ("3600000", DEFAULT, [])
    config = BrokerConfig.from_settings({"log.retention.hours": "1", "log.retention.ms": "5"})
    both = topic_entry(config, {}, "retention.ms")
    assert (both.value, both.source) == ("5", STATIC)
    assert chain(both) == [
        ("log.retention.ms", "5", STATIC),
        ("log.retention.hours", "1", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_a_topic_setting_without_a_broker_name_has_no_synonyms() -> None:
    entry = topic_entry(BrokerConfig(), {}, "leader.replication.throttled.replicas")
    assert (entry.value, entry.source, chain(entry)) == ("", DEFAULT, [])


def test_all_keys_are_described_unless_some_are_named() -> None:
    assert len(describe_topic(BrokerConfig(), {})) == 33
    assert len(describe_topic(BrokerConfig(), {}, [])) == 33
    assert describe_topic(BrokerConfig(), {}, ["nonsense"]) == []


def test_a_broker_shows_its_values_and_what_can_change() -> None:
    config = BrokerConfig.from_settings({"node.id": "3"}, dynamic={"max.connections": "10"})
    node_id = broker_entry(config, "node.id")
    assert (node_id.value, node_id.source, node_id.is_read_only) == ("3", STATIC, True)
    assert broker_entry(config, "broker.id").value == "3"
    connections = broker_entry(config, "max.connections")
    assert (connections.value, connections.source, connections.is_read_only) == ("10", BROKER, False)
    assert chain(connections) == [
        ("max.connections", "10", BROKER),
        ("max.connections", "2147483647", DEFAULT),
    ]
    rack = broker_entry(config, "broker.rack")
    assert (rack.value, rack.source, chain(rack)) == (None, DEFAULT, [])


def test_the_cluster_default_lists_only_what_is_set_there() -> None:
    config = BrokerConfig.from_settings({"log.retention.ms": "1"}, dynamic_default={"log.retention.ms": "2"})
    (entry,) = describe_cluster_default(config)
    assert (entry.name, entry.value, entry.source) == ("log.retention.ms", "2", CLUSTER)
    assert chain(entry) == [("log.retention.ms", "2", CLUSTER)]


@pytest.mark.parametrize(
    "name",
    [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ],
)
def test_a_limit_of_a_move_is_shown_while_it_is_set(name: str) -> None:
    assert describe_broker(BrokerConfig(), [name]) == []
    config = BrokerConfig.from_settings({}, dynamic_default={name: "7"}, dynamic={name: "5"})
    entry = broker_entry(config, name)
    assert (entry.value, entry.kind, entry.is_read_only) == ("5", Kind.LONG, False)
    assert chain(entry) == [(name, "5", BROKER), (name, "7", CLUSTER)]
