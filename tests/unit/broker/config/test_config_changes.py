"""AlterConfigs: all or nothing, and the error that Kafka gives."""

from __future__ import annotations

import pytest

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.changes import (
    AlterError,
    Change,
    ConfigOperation,
    alter_broker,
    alter_topic,
    altering,
    replacing,
)
from klamm.protocol.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def altered(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return alter_topic(BrokerConfig(), "t", current, altering([Change(*change) for change in changes]))


def replaced(*entries: tuple[str, str | None], topic: str = "t") -> dict[str, str]:
    return alter_topic(BrokerConfig(), topic, {"segment.ms": "7"}, replacing(entries))


def test_set_replaces_and_delete_removes_also_what_is_not_there() -> None:
    assert altered({"retention.ms": "1"}, ("retention.ms", SET, "2")) == {"retention.ms": "2"}
    assert altered({"retention.ms": "1"}, ("retention.ms", DELETE, None)) == {}
    assert altered({}, ("retention.ms", DELETE, None), ("nonsense", DELETE, None)) == {}


def test_lists_grow_and_shrink_from_the_topics_value_or_the_built_in_default() -> None:
    grown = altered({}, ("cleanup.policy", APPEND, "compact"))
    assert grown == {"cleanup.policy": "delete,compact"}
    assert altered(grown, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": "compact"}
    assert altered(grown, ("cleanup.policy", APPEND, "compact, delete")) == grown
    assert altered({}, ("cleanup.policy", SUBTRACT, "compact")) == {"cleanup.policy": "delete"}
    assert altered({}, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("changes", "error_code"),
    [
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.invalid_request),
        ([("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([("cleanup.policy", APPEND, None)], ErrorCode.invalid_request),
        ([("retention.ms", 9, "1")], ErrorCode.invalid_request),
        ([("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([("nonsense", SUBTRACT, "1")], ErrorCode.invalid_config),
        ([("retention.ms", SET, "x")], ErrorCode.invalid_config),
        ([("nonsense", SET, "1")], ErrorCode.invalid_config),
        ([("segment.ms", SET, "5"), ("retention.ms", SET, "x")], ErrorCode.invalid_config),
        (
            [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")],
            ErrorCode.invalid_config,
        ),
        ([("cleanup.policy", APPEND, "shred")], ErrorCode.invalid_config),
    ],
)
def test_one_bad_change_refuses_all_of_them(
    changes: list[tuple[str, int, str | None]], error_code: ErrorCode
) -> None:
    current = {"retention.ms": "7"}
    with pytest.raises(AlterError) as refused:
        altered(current, *changes)
    assert refused.value.error_code is error_code
    assert current == {"retention.ms": "7"}


def test_replacing_forgets_what_is_not_named() -> None:
    assert replaced(("retention.ms", "5")) == {"retention.ms": "5"}
    for entries, error_code in (
        ([("retention.ms", None)], ErrorCode.invalid_request),
        ([("retention.ms", "1"), ("retention.ms", "2")], ErrorCode.invalid_request),
        ([("retention.ms", "x")], ErrorCode.invalid_config),
    ):
        with pytest.raises(AlterError) as refused:
            replaced(*entries)
        assert refused.value.error_code is error_code


def test_broker_settings_change_for_one_or_for_all() -> None:
    config = BrokerConfig.from_settings(
        {}, dynamic_default={"max.connections": "5"}, dynamic={"max.connections": "6"}
    )
    change = altering([Change("log.retention.ms", SET, "9")])
    assert alter_broker(config, change, cluster_wide=True) == {
        "max.connections": "5",
        "log.retention.ms": "9",
    }
    assert alter_broker(config, change, cluster_wide=False) == {
        "max.connections": "6",
        "log.retention.ms": "9",
    }
    replace = replacing([("log.retention.ms", "9")])
    assert alter_broker(config, replace, cluster_wide=True) == {"log.retention.ms": "9"}


@pytest.mark.parametrize(
    ("name", "value", "error_code"),
    [
        ("log.dirs", "x", ErrorCode.invalid_request),
        ("log.retention.hours", "1", ErrorCode.invalid_request),
        ("nonsense", "1", ErrorCode.invalid_config),
        ("max.connections", "-1", ErrorCode.invalid_request),
        ("max.connections.per.ip", "0", ErrorCode.invalid_request),
        ("log.cleaner.threads", "500", ErrorCode.invalid_request),
    ],
)
def test_what_a_running_broker_cannot_change_is_refused(name: str, value: str, error_code: ErrorCode) -> None:
    with pytest.raises(AlterError) as refused:
        alter_broker(BrokerConfig(), altering([Change(name, SET, value)]), cluster_wide=True)
    assert refused.value.error_code is error_code


@pytest.mark.parametrize(
    ("topic", "value", "error_code"),
    [
        ("", "x", ErrorCode.invalid_request),
        ("a b", "x", ErrorCode.invalid_topic_exception),
        ("no such topic is no matter here".replace(" ", "-"), "x", ErrorCode.invalid_config),
    ],
)
def test_a_topics_name_is_judged_before_its_values(topic: str, value: str, error_code: ErrorCode) -> None:
    with pytest.raises(AlterError) as refused:
        replaced(("retention.ms", value), topic=topic)
    assert refused.value.error_code is error_code


def test_a_missing_value_anywhere_is_told_before_a_list_operation_on_no_list() -> None:
    with pytest.raises(AlterError) as refused:
        altered({}, ("retention.ms", APPEND, "1"), ("segment.ms", SET, None))
    assert refused.value.error_code is ErrorCode.invalid_request
