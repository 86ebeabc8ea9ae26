"""The admin takes plain values, raises what failed, and answers in types."""

from __future__ import annotations

import asyncio
from collections import namedtuple
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

import klamm
from klamm import Admin, NewTopic, TopicPartition

_numbers = count(1)


@pytest.fixture
def name() -> str:
    return f"topic-{next(_numbers)}"


def partitions_of(admin: Admin, name: str) -> int:
    return len(admin.describe_topics(name)[name].partitions)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (lambda name: name, 1),
        (lambda name: [name], 1),
        (lambda name: iter([name]), 1),
        (lambda name: {name: 3}, 3),
        (lambda name: {name: NewTopic(name, 2)}, 2),
        (lambda name: NewTopic(name, 2), 2),
        (lambda name: [NewTopic(name, num_partitions=4, replication_factor=1)], 4),
        (lambda name: [NewTopic(name, assignments=[[1], [1]])], 2),
        (lambda name: [NewTopic(name, replica_assignments={0: [1]})], 1),
    ],
)
def test_topics_are_created_from_plain_values(admin: Admin, name: str, given: Any, expected: int) -> None:
    assert admin.create_topics(given(name))[name].partitions == expected
    assert partitions_of(admin, name) == expected
    assert name in admin.list_topics()


def test_settings_of_a_new_topic_are_plain_values(admin: Admin, name: str) -> None:
    configs: dict[str, Any] = {
        "retention.ms": 60_000,
        "cleanup.policy": ["compact", "delete"],
        "preallocate": False,
    }
    admin.create_topics(NewTopic(name, topic_configs=configs))
    found = admin.describe_configs("topic", name)["topic", name]
    assert found["retention.ms"].value == "60000"
    assert found["cleanup.policy"].value == "compact,delete"
    assert not found["retention.ms"].is_default


def test_what_failed_is_raised_unless_it_is_wanted(admin: Admin, name: str) -> None:
    admin.create_topics(name)
    with pytest.raises(klamm.TopicAlreadyExistsError, match=f"topic {name}: TOPIC_ALREADY_EXISTS") as caught:
        admin.create_topics([name, f"{name}-b"])
    assert caught.value.results.successes.keys() == {f"{name}-b"}
    results = admin.create_topics([name, f"{name}-c"], raise_errors=False)
    assert results.errors.keys() == {name}
    assert results[f"{name}-c"].name == f"{name}-c"
    with pytest.raises(klamm.UnknownTopicOrPartitionError):
        admin.delete_topics(f"{name}-none")
    with pytest.raises(klamm.UnknownTopicOrPartitionError):
        admin.describe_topics(f"{name}-none")
    with pytest.raises(klamm.GroupIdNotFoundError):
        admin.describe_groups("nosuch")


def test_single_settings_are_changed_by_words(admin: Admin, name: str) -> None:
    admin.create_topics(name)

    def value(setting: str) -> str | None:
        return admin.describe_configs("topic", name, keys=setting)["topic", name][setting].value

    admin.alter_configs("topic", name, {"retention.ms": 60_000, "preallocate": True})
    assert (value("retention.ms"), value("preallocate")) == ("60000", "true")
    admin.alter_configs(
        "TOPIC", name, [("cleanup.policy", "append", "compact"), ("preallocate", "delete", None)]
    )
    assert (value("cleanup.policy"), value("preallocate")) == ("delete,compact", "false")
    admin.alter_configs({("topic", name): {"retention.ms": None}})
    assert value("retention.ms") == "604800000"
    broker = admin.describe_cluster().brokers[0].broker_id
    assert admin.describe_configs([("broker", broker)])["broker", str(broker)]
    with pytest.raises(klamm.BrokerError, match="INVALID_CONFIG"):
        admin.alter_configs("topic", name, {"retention.ms": "soon"})


def test_partitions_are_tuples_or_what_other_libraries_have(admin: Admin, name: str) -> None:
    admin.create_topics({name: 2})
    Foreign = namedtuple("Foreign", ["topic", "partition"])
    third = SimpleNamespace(topic=name, partition=1)
    assert admin.list_offsets([(name, 0)])[name, 0].offset == 0
    assert admin.list_offsets([Foreign(name, 1)], "earliest")[name, 1].offset == 0
    assert admin.list_offsets([third], datetime(2026, 1, 31, tzinfo=UTC))[name, 1].offset == -1  # type: ignore[list-item]
    assert admin.list_offsets({(name, 0): "max-timestamp"})[name, 0].offset == -1
    group = f"group-{name}"
    admin.alter_group_offsets(group, {(name, 0): 0})
    admin.alter_group_offsets(group, {TopicPartition(name, 1): klamm.OffsetAndMetadata(0, "note")})
    assert admin.list_group_offsets(group)[TopicPartition(name, 1)].metadata == "note"
    assert admin.reset_group_offsets(group, [(name, 0)], to="earliest") == {(name, 0): 0}
    assert admin.elect_leaders([(name, 0)], "preferred") == {(name, 0): False}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda admin: admin.create_topics([5]), "invalid topic 5: expected a name or klamm.NewTopic"),
        (lambda admin: admin.create_topics({"a": "3"}), "number of partitions of a '3': expected an int"),
        (lambda admin: admin.create_topics({"a": 10**5000}), "invalid number of partitions of a of type int"),
        (lambda admin: admin.create_topics({"a": 2**31}), "expected -2147483648 to 2147483647"),
        (lambda admin: admin.create_topics("a", timeout=float("nan")), "expected 0 to 2147483 seconds"),
        (lambda admin: admin.create_topics("a", timeout="5"), "invalid timeout '5': expected a number"),
        (lambda admin: admin.delete_topics(b"a"), "expected a list of str"),
        (lambda admin: admin.delete_topics("\ud800"), "not valid Unicode"),
        (lambda admin: admin.delete_topics("a" * 40_000), "40000 bytes, the limit is 32767"),
        (lambda admin: admin.delete_records({"a": 1}), "expected TopicPartition"),
        (lambda admin: admin.delete_records({("a", -1): 1}), "invalid partition number -1"),
        (lambda admin: admin.list_offsets([("a", 0)], "newest"), "expected 'earliest', 'latest'"),
        (
            lambda admin: admin.list_offsets([("a", 0)], datetime.now(UTC).replace(tzinfo=None)),
            "with a time zone",
        ),
        (lambda admin: admin.describe_configs("topic"), r"describe_configs\('topic', 'orders'\)"),
        (lambda admin: admin.describe_configs("table", "a"), "expected one of 'topic', 'broker'"),
        (lambda admin: admin.alter_configs("topic", "a"), "write alter_configs"),
        (lambda admin: admin.alter_configs("topic", "a", {"x": float("inf")}), "expected a finite number"),
        (lambda admin: admin.alter_configs("topic", "a", [("x", "add", "1")]), "expected one of 'set'"),
        (lambda admin: admin.alter_group_offsets("g", {("a", 0): -5}), "invalid offset -5"),
        (lambda admin: admin.abort_transaction(("a", 0), 1, 2**15), "invalid producer_epoch 32768"),
        (lambda admin: admin.reset_group_offsets("g", to="newest"), "expected 'earliest', 'latest'"),
        (lambda admin: admin.update_features({"transaction.version": "2"}), "expected an int"),
        (lambda admin: admin.delete_topics("a", raise_errors=1), "expected True or False"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_expected(admin: Admin, call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(admin)


def test_the_asyncio_face_takes_and_raises_the_same(broker: klamm.Broker, name: str) -> None:
    asyncio.run(_use_asyncio(broker, name))


async def _use_asyncio(broker: klamm.Broker, name: str) -> None:
    async with klamm.aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert (await admin.create_topics({name: 2}))[name].partitions == 2
        with pytest.raises(klamm.TopicAlreadyExistsError):
            await admin.create_topics(name)
        assert (await admin.create_topics(name, raise_errors=False)).errors.keys() == {name}
        with pytest.raises(AttributeError, match="write list_groups"):
            admin.list_consumer_groups  # type: ignore[attr-defined]  # noqa: B018
