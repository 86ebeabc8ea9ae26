"""Configurations of groups, client metrics and loggers, as Apache Kafka answers for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_config_resources import ListConfigResourcesRequest
from klamm.storage.cluster import ConfigResourceType
from unit.broker.apis.admin_jar import AdminJar
from unit.broker.apis.config_requests import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Operation,
    Restart,
    alter,
    describe,
    entry,
    replace,
    synonyms,
)

LOGGERS, METRICS, GROUP = 8, 16, 32
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
LOGGER = "klamm.broker.cluster.topics"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(LOGGER)
    level = logger.level
    yield logger
    logger.setLevel(level)


def test_a_group_has_the_settings_of_the_newer_kinds(jar: AdminJar) -> None:
    result = describe(jar, (GROUP, "g"))
    assert (result.error_code, len(result.configs)) == (ErrorCode.none, 17)
    assert all(each.config_source == 5 and not each.read_only for each in result.configs)
    assert synonyms(entry(jar, (GROUP, "g"), SESSION)) == [(f"group.{SESSION}", "45000", 5)]
    level = entry(jar, (GROUP, "g"), "share.isolation.level")
    assert synonyms(level) == [("share.isolation.level", "read_uncommitted", 5)]


def test_a_group_without_a_setting_has_the_brokers_and_says_so(make_jar: Callable[..., AdminJar]) -> None:
    jar = make_jar({f"group.{SESSION}": "46000"})
    found = entry(jar, (GROUP, "g"), SESSION)
    assert (found.value, found.config_source) == ("46000", 4)
    assert synonyms(found) == [(f"group.{SESSION}", "46000", 4), (f"group.{SESSION}", "45000", 5)]


def test_settings_of_a_group_are_kept(jar: AdminJar, restart: Restart) -> None:
    assert alter(jar, (GROUP, "g"), (SESSION, SET, " 50000")) == ErrorCode.none
    for _ in range(2):
        found = entry(jar, (GROUP, "g"), SESSION)
        assert (found.value, found.config_source, found.config_type) == ("50000", 8, 3)
        assert synonyms(found) == [(SESSION, "50000", 8), (f"group.{SESSION}", "45000", 5)]
        jar = restart(jar)
    assert entry(jar, (GROUP, "other"), SESSION).config_source == 5
    assert replace(jar, (GROUP, "g"), ("share.isolation.level", "read_committed")) == ErrorCode.none
    assert entry(jar, (GROUP, "g"), SESSION).config_source == 5
    assert alter(jar, (GROUP, "g"), ("share.isolation.level", DELETE, None)) == ErrorCode.none
    assert jar.services.cluster.configs(ConfigResourceType.GROUP, "g") == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "x"),
        (SESSION, ""),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("share.assignment.interval.ms", "-1"),
        ("streams.assignment.interval.ms", "15001"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.partition.max.record.locks", "4001"),
        ("share.renew.acknowledge.enable", "yes"),
        ("streams.num.standby.replicas", "3"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("retention.ms", "5"),
        ("", "5"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_settings_of_a_group_have_limits(jar: AdminJar, name: str, value: str, dry: bool) -> None:
    assert alter(jar, (GROUP, "g"), (name, SET, value), dry=dry) == ErrorCode.invalid_config
    assert replace(jar, (GROUP, "g"), (name, value), dry=dry) == ErrorCode.invalid_config
    assert jar.services.cluster.all_configs() == {}


@pytest.mark.parametrize(
    "given", [{HEARTBEAT: "10000"}, {SESSION: "10000", HEARTBEAT: "10000"}, {SESSION: "4000"}]
)
def test_a_session_lasts_longer_than_from_one_heartbeat_to_the_next(
    make_jar: Callable[..., AdminJar], given: dict[str, str]
) -> None:
    limits = {f"group.consumer.min.{name.removeprefix('consumer.')}": "1000" for name in (SESSION, HEARTBEAT)}
    jar = make_jar({**limits, f"group.{SESSION}": "10000"})
    changes = [(name, SET, value) for name, value in given.items()]
    assert alter(jar, (GROUP, "g"), *changes) == ErrorCode.invalid_config
    assert alter(jar, (GROUP, "g"), (SESSION, SET, "10001"), (HEARTBEAT, SET, "10000")) == ErrorCode.none
    assert alter(jar, (GROUP, "g"), (SESSION, DELETE, None)) == ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:p1dt2h3m4.5s"),
        ("share.partition.max.record.locks", "4000"),
        ("share.renew.acknowledge.enable", "TRUE"),
        ("streams.initial.rebalance.delay.ms", "100000000"),
        ("consumer.assignment.interval.ms", "0"),
    ],
)
def test_other_values_of_a_group_are_taken(jar: AdminJar, name: str, value: str) -> None:
    assert alter(jar, (GROUP, "g"), (name, SET, value), dry=True) == ErrorCode.none
    assert alter(jar, (GROUP, "g"), (name, SET, value)) == ErrorCode.none


def test_client_metrics_are_kept_and_shown_as_parsed(jar: AdminJar) -> None:
    shown = [(each.name, each.value, each.config_type) for each in describe(jar, (METRICS, "m")).configs]
    assert shown == [("interval.ms", "300000", 3), ("match", "", 7), ("metrics", "", 7)]
    assert synonyms(entry(jar, (METRICS, "m"), "interval.ms")) == []
    changes: list[Operation] = [("metrics", SET, "a, b,a"), ("match", SET, " client_id = x.* ")]
    assert alter(jar, (METRICS, "m"), *changes) == ErrorCode.none
    assert synonyms(entry(jar, (METRICS, "m"), "metrics")) == [("metrics", "a,b", 7)]
    assert entry(jar, (METRICS, "m"), "match").value == "client_id = x.*"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (("interval.ms", SET, "99"), ErrorCode.invalid_request),
        (("interval.ms", SET, "3600001"), ErrorCode.invalid_request),
        (("interval.ms", SET, "x"), ErrorCode.invalid_config),
        (("metrics", SET, "a,,b"), ErrorCode.invalid_config),
        (("match", SET, ","), ErrorCode.invalid_config),
        (("match", SET, "client_id"), ErrorCode.invalid_config),
        (("match", SET, "client_id="), ErrorCode.invalid_config),
        (("match", SET, "client_id=a=b"), ErrorCode.invalid_config),
        (("match", SET, "client_id=["), ErrorCode.invalid_config),
        (("match", SET, "host=x"), ErrorCode.invalid_config),
        (("nonsense", SET, "x"), ErrorCode.invalid_request),
        (("nonsense", DELETE, None), ErrorCode.none),
        (("metrics", SET, None), ErrorCode.invalid_request),
        (("metrics", APPEND, "a"), ErrorCode.invalid_config),
        (("metrics", SUBTRACT, "a"), ErrorCode.invalid_config),
    ],
)
def test_client_metrics_have_limits(jar: AdminJar, operation: Operation, expected: ErrorCode) -> None:
    assert alter(jar, (METRICS, "m"), operation) == expected
    assert jar.services.cluster.all_configs() == {}


@pytest.mark.parametrize("kind", [METRICS, GROUP])
def test_these_resources_have_names(jar: AdminJar, kind: int) -> None:
    assert alter(jar, (kind, ""), ("x", SET, "1")) == ErrorCode.invalid_request
    assert replace(jar, (kind, "")) == ErrorCode.invalid_request
    assert alter(jar, (kind, ""), ("metrics", APPEND, "a")) == ErrorCode.invalid_config


def test_levels_of_loggers_are_shown_and_set(jar: AdminJar, logger: logging.Logger) -> None:
    assert alter(jar, (LOGGERS, "1"), (LOGGER, SET, "ERROR")) == ErrorCode.none
    assert logger.level == logging.ERROR
    found = entry(jar, (LOGGERS, "1"), LOGGER)
    assert (found.value, found.config_source, found.config_type) == ("ERROR", 6, 0)
    assert alter(jar, (LOGGERS, "1"), (LOGGER, SET, "DEBUG"), dry=True) == ErrorCode.none
    assert logger.level == logging.ERROR
    assert alter(jar, (LOGGERS, "1"), (LOGGER, DELETE, None)) == ErrorCode.none
    assert logger.level == logging.NOTSET
    assert [each.name for each in describe(jar, (LOGGERS, "01"), ["root", "nonsense"]).configs] == ["root"]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ((LOGGER, SET, "debug"), ErrorCode.invalid_config),
        ((LOGGER, SET, ""), ErrorCode.invalid_config),
        ((LOGGER, SET, None), ErrorCode.invalid_request),
        ((LOGGER, APPEND, "INFO"), ErrorCode.invalid_request),
        ((LOGGER, 9, "INFO"), ErrorCode.invalid_request),
        (("nonsense", SET, "INFO"), ErrorCode.invalid_config),
        (("nonsense", DELETE, None), ErrorCode.invalid_config),
        (("root", DELETE, None), ErrorCode.invalid_request),
    ],
)
def test_levels_of_loggers_are_checked(jar: AdminJar, operation: Operation, expected: ErrorCode) -> None:
    assert alter(jar, (LOGGERS, "1"), operation) == expected


def test_loggers_are_those_of_this_broker_and_changed_one_by_one(jar: AdminJar) -> None:
    assert alter(jar, (LOGGERS, "2"), ("root", SET, "INFO")) == ErrorCode.invalid_request
    assert alter(jar, (LOGGERS, ""), ("root", SET, "INFO")) == ErrorCode.invalid_request
    assert replace(jar, (LOGGERS, "1"), ("root", "INFO")) == ErrorCode.invalid_request


def listed(jar: AdminJar, *types: int, version: int = 1) -> list[tuple[int, str]] | int:
    answer = jar.connect().ask(ApiKey.LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(types))
    if answer.error_code:
        return int(answer.error_code)
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_resources_are_listed_as_kafka_lists_them(jar: AdminJar) -> None:
    for topic in ("tb", "ta"):
        jar.create_topic(topic)
    for kind, name in ((METRICS, "m1"), (METRICS, "a1")):
        assert alter(jar, (kind, name), ("interval.ms", SET, "5000")) == ErrorCode.none
    assert alter(jar, (GROUP, "g1"), (SESSION, SET, "50000")) == ErrorCode.none
    assert alter(jar, (ConfigResourceType.TOPIC, "ta"), ("retention.ms", SET, "5000")) == ErrorCode.none
    topics = [(2, "ta"), (2, "tb")]
    metrics, groups, brokers = [(METRICS, "a1"), (METRICS, "m1")], [(GROUP, "g1")], [(4, "1")]
    # Whoever asks for nothing gets everything, whoever asks twice gets it once
    assert listed(jar) == [*groups, *metrics, (LOGGERS, "1"), *brokers, *topics]
    assert listed(jar, 2, 2) == topics
    assert listed(jar, 2, METRICS, GROUP) == [*groups, *metrics, *topics]
    assert listed(jar, 4) == brokers
    assert listed(jar, version=0) == metrics
    # An unknown type is an error, also beside a known one
    for unknown in ((0,), (1,), (2, 3), (-1,)):
        assert listed(jar, *unknown) == ErrorCode.unsupported_version
    # Without settings a group and client metrics have no resource
    assert alter(jar, (GROUP, "g1"), (SESSION, DELETE, None)) == ErrorCode.none
    assert alter(jar, (METRICS, "m1"), ("interval.ms", DELETE, None)) == ErrorCode.none
    assert listed(jar, GROUP, METRICS) == [(METRICS, "a1")]
