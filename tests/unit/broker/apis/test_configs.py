"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: values, sources, and changes that hold at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ConfigResourceType
from unit.broker.apis.admin_jar import AdminJar
from unit.broker.apis.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Operation,
    Restart,
    alter,
    alter_all,
    describe,
    entry,
    replace,
    synonyms,
)

MakeJar = Callable[..., AdminJar]


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("keys", [None, []])
def test_all_settings_of_a_topic_are_shown(jar: AdminJar, version: int, keys: list[str] | None) -> None:
    jar.create_topic("t")
    result = describe(jar, (TOPIC, "t"), keys, version)
    assert (result.error_code, len(result.configs)) == (ErrorCode.none, 33)
    assert not any(each.read_only or each.is_sensitive for each in result.configs)
    assert all(bool(each.documentation) == (version >= 3) for each in result.configs)


def test_unknown_keys_are_left_out(jar: AdminJar) -> None:
    jar.create_topic("t")
    assert [each.name for each in describe(jar, (TOPIC, "t"), ["retention.ms", "nonsense"]).configs] == [
        "retention.ms"
    ]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ((TOPIC, "a b"), ErrorCode.invalid_topic_exception),
        ((TOPIC, ""), ErrorCode.invalid_topic_exception),
        ((TOPIC, "missing"), ErrorCode.unknown_topic_or_partition),
        ((BROKER, "77"), ErrorCode.invalid_request),
        ((BROKER, "x"), ErrorCode.invalid_request),
        ((BROKER, " 1"), ErrorCode.invalid_request),
        ((8, "2"), ErrorCode.invalid_request),
        ((8, ""), ErrorCode.invalid_request),
        ((16, ""), ErrorCode.invalid_request),
        ((32, ""), ErrorCode.invalid_request),
        ((0, ""), ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_described_is_told_why(
    jar: AdminJar, resource: tuple[int, str], expected: ErrorCode
) -> None:
    result = describe(jar, resource)
    assert (result.error_code, list(result.configs)) == (expected, [])
    assert result.error_message


def test_a_value_changes_its_source_when_set_and_goes_back_when_deleted(jar: AdminJar) -> None:
    jar.create_topic("t")
    topic = (TOPIC, "t")
    assert alter(jar, topic, ("retention.ms", SET, "1000")) == ErrorCode.none
    found = entry(jar, topic, "retention.ms")
    assert (found.value, found.config_source, synonyms(found)) == ("1000", 1, [("retention.ms", "1000", 1)])
    assert alter(jar, topic, ("retention.ms", DELETE, None)) == ErrorCode.none
    assert (entry(jar, topic, "retention.ms").value, entry(jar, topic, "retention.ms").config_source) == (
        "604800000",
        5,
    )
    assert alter(jar, topic, ("retention.ms", DELETE, None)) == ErrorCode.none
    assert alter(jar, topic, ("nonsense", DELETE, None)) == ErrorCode.none


def test_a_change_is_durable_and_reaches_the_logs_before_the_answer(jar: AdminJar) -> None:
    jar.create_topic("t", partitions=2)
    assert alter(jar, (TOPIC, "t"), ("retention.ms", SET, "1000"), version=0) == ErrorCode.none
    assert jar.services.cluster.configs(ConfigResourceType.TOPIC, "t") == {"retention.ms": "1000"}
    assert [log.config.retention_ms for log in jar.logs.values()] == [1000, 1000]


def test_lists_grow_and_shrink(jar: AdminJar) -> None:
    jar.create_topic("t")
    topic = (TOPIC, "t")
    assert alter(jar, topic, ("cleanup.policy", APPEND, "compact")) == ErrorCode.none
    assert entry(jar, topic, "cleanup.policy").value == "delete,compact"
    assert jar.logs["t", 0].config.is_compacted
    assert alter(jar, topic, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.none
    assert entry(jar, topic, "cleanup.policy").value == "compact"
    assert alter(jar, topic, ("retention.ms", APPEND, "5")) == ErrorCode.invalid_config


def test_of_two_settings_one_bad_one_changes_nothing(jar: AdminJar) -> None:
    jar.create_topic("t")
    bad = alter(jar, (TOPIC, "t"), ("retention.ms", SET, "5"), ("segment.ms", SET, "x"))
    assert bad == ErrorCode.invalid_config
    assert jar.services.cluster.configs(ConfigResourceType.TOPIC, "t") == {}


@pytest.mark.parametrize(
    ("resource", "operation", "expected"),
    [
        ((TOPIC, "missing"), ("retention.ms", SET, "x"), ErrorCode.invalid_config),
        ((TOPIC, "missing"), ("retention.ms", SET, "5"), ErrorCode.unknown_topic_or_partition),
        ((TOPIC, "missing"), ("retention.ms", APPEND, "5"), ErrorCode.invalid_config),
        ((TOPIC, ""), ("retention.ms", SET, "x"), ErrorCode.invalid_request),
        ((TOPIC, "a b"), ("retention.ms", SET, "x"), ErrorCode.invalid_topic_exception),
        ((TOPIC, "a b"), ("retention.ms", APPEND, "5"), ErrorCode.invalid_config),
        ((TOPIC, "t"), ("retention.ms", SET, None), ErrorCode.invalid_request),
        ((TOPIC, "t"), ("retention.ms", 9, "5"), ErrorCode.invalid_request),
        ((BROKER, "77"), ("log.retention.ms", SET, "5"), ErrorCode.invalid_request),
        ((BROKER, "x"), ("log.retention.ms", SET, "5"), ErrorCode.invalid_request),
        ((BROKER, "1"), ("log.dirs", SET, "x"), ErrorCode.invalid_request),
        ((BROKER, ""), ("log.dirs", SET, "x"), ErrorCode.invalid_request),
        ((BROKER, ""), ("log.retention.hours", SET, "5"), ErrorCode.invalid_request),
        ((BROKER, ""), ("nonsense", SET, "5"), ErrorCode.invalid_config),
        ((3, "x"), ("a", SET, "b"), ErrorCode.invalid_request),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_a_change_is_refused_by_the_first_check_that_fails(
    jar: AdminJar, resource: tuple[int, str], operation: Operation, expected: ErrorCode, dry: bool
) -> None:
    jar.create_topic("t")
    assert alter(jar, resource, operation, dry=dry) == expected


def test_a_resource_named_twice_is_refused_and_the_others_are_not(jar: AdminJar) -> None:
    jar.create_topic("t")
    jar.create_topic("u")
    operations = [("retention.ms", SET, "5")]
    changes = [((TOPIC, "t"), operations), ((TOPIC, "u"), operations), ((TOPIC, "t"), operations)]
    assert alter_all(jar, changes) == [ErrorCode.invalid_request, ErrorCode.none, ErrorCode.invalid_request]
    assert alter(jar, (TOPIC, "t"), *operations, *operations) == ErrorCode.invalid_request
    assert jar.services.cluster.configs(ConfigResourceType.TOPIC, "t") == {}


def test_validation_alone_changes_nothing(jar: AdminJar) -> None:
    jar.create_topic("t")
    assert alter(jar, (TOPIC, "t"), ("retention.ms", SET, "5"), dry=True) == ErrorCode.none
    assert replace(jar, (TOPIC, "t"), ("retention.ms", "5"), dry=True) == ErrorCode.none
    assert alter(jar, (BROKER, ""), ("log.retention.ms", SET, "5"), dry=True) == ErrorCode.none
    assert jar.services.cluster.all_configs() == {}


@pytest.mark.parametrize("version", range(3))
def test_replacing_forgets_what_is_not_named(jar: AdminJar, version: int) -> None:
    jar.create_topic("t", retention_ms=5, segment_ms=6)
    assert replace(jar, (TOPIC, "t"), ("retention.ms", "7"), version=version) == ErrorCode.none
    assert jar.services.cluster.configs(ConfigResourceType.TOPIC, "t") == {"retention.ms": "7"}
    assert jar.logs["t", 0].config.segment_ms == 604_800_000
    assert replace(jar, (TOPIC, "t"), ("retention.ms", None), version=version) == ErrorCode.invalid_request
    assert replace(jar, (TOPIC, "missing"), version=version) == ErrorCode.unknown_topic_or_partition
    assert replace(jar, (TOPIC, "t"), version=version) == ErrorCode.none
    assert jar.services.cluster.configs(ConfigResourceType.TOPIC, "t") == {}


def test_a_default_for_all_brokers_holds_for_topics_and_after_a_restart(
    jar: AdminJar, restart: Restart
) -> None:
    jar.create_topic("t")
    assert alter(jar, (BROKER, ""), ("log.retention.ms", SET, "7777")) == ErrorCode.none
    for _ in range(2):
        assert jar.logs["t", 0].config.retention_ms == 7777
        found = entry(jar, (TOPIC, "t"), "retention.ms")
        assert (found.value, found.config_source) == ("7777", 3)
        assert synonyms(found) == [("log.retention.ms", "7777", 3), ("log.retention.hours", "168", 5)]
        names = [each.name for each in describe(jar, (BROKER, "")).configs]
        assert names == ["log.retention.ms", "min.insync.replicas"]
        jar = restart(jar)


def test_this_brokers_own_setting_wins_over_the_default_for_all(jar: AdminJar) -> None:
    jar.create_topic("t")
    alter(jar, (BROKER, ""), ("log.retention.ms", SET, "7777"))
    alter(jar, (BROKER, "1"), ("log.retention.ms", SET, "8888"))
    alter(jar, (TOPIC, "t"), ("retention.ms", SET, "9999"))
    assert synonyms(entry(jar, (TOPIC, "t"), "retention.ms")) == [
        ("retention.ms", "9999", 1),
        ("log.retention.ms", "8888", 2),
        ("log.retention.ms", "7777", 3),
        ("log.retention.hours", "168", 5),
    ]
    assert jar.services.config.layers.dynamic == {"log.retention.ms": "8888"}
    assert replace(jar, (BROKER, "1")) == ErrorCode.none
    assert jar.services.config.layers.dynamic == {}


def test_a_default_that_contradicts_a_topic_is_refused_by_its_name(jar: AdminJar) -> None:
    jar.create_topic("t", max_compaction_lag_ms=4)
    change = ("log.cleaner.min.compaction.lag.ms", SET, "5")
    assert alter(jar, (BROKER, ""), change) == ErrorCode.invalid_request
    assert alter(jar, (BROKER, "1"), change, dry=True) == ErrorCode.invalid_request
    assert jar.services.cluster.configs(ConfigResourceType.BROKER, "") == {}


def test_static_settings_are_shown_as_such_and_read_only_where_they_are(make_jar: MakeJar) -> None:
    jar = make_jar({"num.partitions": "4", "log.segment.bytes": "5000"})
    jar.create_topic("t")
    found = entry(jar, (BROKER, "1"), "num.partitions")
    assert (found.value, found.config_source, found.read_only) == ("4", 4, True)
    segment = entry(jar, (TOPIC, "t"), "segment.bytes")
    assert (segment.value, segment.config_source) == ("5000", 4)
    assert synonyms(segment) == [("log.segment.bytes", "5000", 4), ("log.segment.bytes", "1073741824", 5)]


def test_replicas_in_sync_are_set_for_all_brokers_only(jar: AdminJar) -> None:
    jar.create_topic("t")
    assert synonyms(entry(jar, (TOPIC, "t"), "min.insync.replicas")) == [
        ("min.insync.replicas", "1", 3),
        ("min.insync.replicas", "1", 5),
    ]
    name = "min.insync.replicas"
    assert alter(jar, (BROKER, ""), (name, DELETE, None)) == ErrorCode.invalid_config
    assert replace(jar, (BROKER, ""), ("log.retention.ms", "5")) == ErrorCode.invalid_config
    assert alter(jar, (BROKER, "1"), (name, SET, "1")) == ErrorCode.invalid_config
    assert alter(jar, (BROKER, "1"), (name, DELETE, None)) == ErrorCode.invalid_config
    assert replace(jar, (BROKER, "1"), (name, "1")) == ErrorCode.invalid_config
    assert alter(jar, (BROKER, ""), (name, SET, "2")) == ErrorCode.none
    assert replace(jar, (BROKER, ""), (name, "3"), ("log.retention.ms", "5")) == ErrorCode.none
    assert (entry(jar, (TOPIC, "t"), name).value, entry(jar, (TOPIC, "t"), name).config_source) == ("3", 3)


def test_replicas_in_sync_begin_with_the_static_setting(make_jar: MakeJar) -> None:
    jar = make_jar({"min.insync.replicas": "2"})
    assert synonyms(entry(jar, (BROKER, "1"), "min.insync.replicas")) == [
        ("min.insync.replicas", "2", 3),
        ("min.insync.replicas", "2", 4),
        ("min.insync.replicas", "1", 5),
    ]


@pytest.mark.parametrize("name", ["01", "+1"])
def test_a_broker_is_found_by_any_spelling_of_its_id(jar: AdminJar, name: str) -> None:
    assert entry(jar, (BROKER, name), "num.partitions").value == "1"
    assert alter(jar, (BROKER, name), ("log.retention.ms", SET, "8888")) == ErrorCode.none
    assert jar.services.config.layers.dynamic == {"log.retention.ms": "8888"}


def test_an_unknown_operation_is_found_in_its_turn(jar: AdminJar) -> None:
    jar.create_topic("t")
    changes: list[Operation] = [("retention.ms", APPEND, "5"), ("segment.ms", 9, "5")]
    assert alter(jar, (TOPIC, "t"), *changes) == ErrorCode.invalid_config
    assert alter(jar, (TOPIC, "t"), *reversed(changes)) == ErrorCode.invalid_request
