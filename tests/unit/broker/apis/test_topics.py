"""CreateTopics, DeleteTopics, CreatePartitions: durable, complete, and refused as Kafka refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import ENOSPC
from random import Random
from typing import Any

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import ClusterStoreError
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.simulated_disk import FailingOperation
from unit.broker.apis.admin_jar import AdminJar

MakeJar = Callable[..., AdminJar]


def create(
    jar: AdminJar, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    response = jar.client.ask(ApiKey.CREATE_TOPICS, version, request)
    assert len({topic.name for topic in response.topics}) == len(response.topics)
    return {topic.name: topic for topic in response.topics}


def a_topic(name: str = "t", partitions: int = -1, factor: int = -1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        factor,
        configs=[CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )


def delete(
    jar: AdminJar, *states: tuple[str | None, bytes], version: int = 6
) -> list[tuple[str | None, bytes, int]]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(*state) for state in states],
        topic_names=[name or "" for name, _ in states],
        timeout_ms=30_000,
    )
    response = jar.client.ask(ApiKey.DELETE_TOPICS, version, request)
    return [(each.name, each.topic_id, each.error_code) for each in response.responses]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_serves_and_is_durable_when_the_answer_comes(jar: AdminJar, version: int) -> None:
    result = create(jar, a_topic("t", 2, 1, retention_ms="5"), version=version)["t"]
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    state = jar.cluster.topics()["t"]
    assert jar.services.image.topic("t") == state
    assert {key: log.config.retention_ms for key, log in jar.logs.items()} == {("t", 0): 5, ("t", 1): 5}
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        configs = {config.name: (config.value, config.config_source) for config in result.configs or ()}
        assert configs["retention.ms"] == ("5", 1)
        assert configs["segment.ms"] == ("604800000", 5)
        assert list(configs) == sorted(configs)
        assert len(configs) == 33
    assert result.topic_id == (state.topic_id if version >= 7 else ZERO_ID)


def test_validation_alone_answers_alike_and_leaves_nothing(jar: AdminJar) -> None:
    result = create(jar, a_topic("t", 2, 1), a_topic("a b"), validate_only=True)
    assert (result["t"].error_code, result["t"].num_partitions) == (ErrorCode.none, 2)
    assert result["a b"].error_code == ErrorCode.invalid_topic_exception
    assert not jar.services.image.topics
    assert not jar.logs
    assert not jar.cluster.topics()


def test_one_refused_topic_does_not_hold_up_the_others(jar: AdminJar) -> None:
    result = create(jar, a_topic("good"), a_topic("bad", 0), a_topic("twice"), a_topic("twice"))
    assert {name: each.error_code for name, each in result.items()} == {
        "good": ErrorCode.none,
        "bad": ErrorCode.invalid_partitions,
        "twice": ErrorCode.invalid_request,
    }
    assert "non-positive" in (result["bad"].error_message or "")
    assert set(jar.services.image.topics) == {"good"}


def test_a_bad_setting_is_told_with_what_to_write_instead(jar: AdminJar) -> None:
    result = create(jar, a_topic("t", retention_ms="x"), a_topic("u", retentoin_ms="1"))
    assert "expected a whole number" in (result["t"].error_message or "")
    assert "did you mean retention.ms" in (result["u"].error_message or "")


def test_a_topic_whose_log_cannot_be_made_is_none(jar: AdminJar) -> None:
    jar.files.faults.append(FailingOperation("create", error_number=ENOSPC))
    result = create(jar, a_topic("t"), a_topic("u"))
    assert {name: each.error_code for name, each in result.items()} == {
        "t": ErrorCode.kafka_storage_error,
        "u": ErrorCode.none,
    }
    assert set(jar.cluster.topics()) == set(jar.services.image.topics) == {"u"}
    assert set(jar.logs) == {("u", 0)}
    assert create(jar, a_topic("t"))["t"].error_code == ErrorCode.none


class FullCluster(MemoryCluster):
    """A store whose disk is full."""

    def create_topic(self, *_: Any) -> None:
        raise ClusterStoreError("klamm.sqlite3: disk is full")


def test_a_topic_that_cannot_be_made_durable_is_refused_with_the_reason(make_jar: MakeJar) -> None:
    jar = make_jar(cluster=FullCluster(random=Random(1)))
    result = create(jar, a_topic("t"))["t"]
    assert result.error_code == ErrorCode.kafka_storage_error
    assert "disk is full" in (result.error_message or "")
    assert not jar.logs


def test_a_store_that_cannot_be_read_back_is_an_error_and_the_next_change_shows_both(
    make_jar: MakeJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = make_jar()

    def unreadable(since_version: int) -> None:
        raise ClusterStoreError("klamm.sqlite3: disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(jar.cluster, "changes", unreadable)
        result = create(jar, a_topic("t"))["t"]
    assert result.error_code == ErrorCode.kafka_storage_error
    assert "disk I/O error" in (result.error_message or "")
    assert create(jar, a_topic("u"))["u"].error_code == ErrorCode.none
    assert set(jar.services.image.topics) == {"t", "u"}
    assert set(jar.logs) == {("t", 0), ("u", 0)}


def test_another_brokers_topic_of_the_same_name_wins_the_race(make_jar: MakeJar) -> None:
    cluster = MemoryCluster(random=Random(1))
    jar, other = make_jar(cluster=cluster), make_jar(cluster=cluster)
    create(other, a_topic("t", 3))
    result = create(jar, a_topic("t"), a_topic("u"))
    assert {name: each.error_code for name, each in result.items()} == {
        "t": ErrorCode.topic_already_exists,
        "u": ErrorCode.none,
    }
    topic = jar.services.image.topic("t")
    assert topic is not None
    assert len(topic.partitions) == 3


def test_a_client_that_hangs_up_does_not_leave_a_topic_half_made(make_jar: MakeJar) -> None:
    jar = make_jar(disk_delay_ms=5)
    jar.client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[a_topic("t", 3)]))
    jar.loop.pass_ms(1)
    jar.client.close()
    jar.loop.pass_ms(50)
    assert set(jar.services.image.topics) == set(jar.cluster.topics()) == {"t"}
    assert len(jar.logs) == 3


def test_topics_are_deleted_by_name_and_by_id(jar: AdminJar) -> None:
    ids = {name: jar.create_topic(name, partitions=2) for name in ("a", "b")}
    assert delete(jar, ("a", ZERO_ID), (None, ids["b"])) == [("b", ids["b"], 0), ("a", ids["a"], 0)]
    assert not jar.services.image.topics
    assert not jar.cluster.topics()
    assert not jar.logs
    assert [entry.name for entry in jar.files.scan("/logs") if not entry.name.endswith("-delete")] == [
        entry.name for entry in jar.files.scan("/logs") if not entry.is_directory
    ]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([("t", b"x" * 16)], [("t", ErrorCode.invalid_request)]),
        ([(None, ZERO_ID)], [(None, ErrorCode.invalid_request)]),
        ([("t", ZERO_ID), ("t", ZERO_ID)], [("t", ErrorCode.invalid_request)]),
        ([(None, b"x" * 16), (None, b"x" * 16)], [(None, ErrorCode.invalid_request)]),
        ([("missing", ZERO_ID)], [("missing", ErrorCode.unknown_topic_or_partition)]),
        ([("a b", ZERO_ID)], [("a b", ErrorCode.unknown_topic_or_partition)]),
        ([(None, b"x" * 16)], [(None, ErrorCode.unknown_topic_id)]),
    ],
)
def test_deletion_is_refused_entry_by_entry(
    jar: AdminJar,
    states: Sequence[tuple[str | None, bytes]],
    expected: Sequence[tuple[str | None, ErrorCode]],
) -> None:
    jar.create_topic("t")
    assert [(name, code) for name, _, code in delete(jar, *states)] == expected
    assert "t" in jar.services.image.topics


def test_a_topic_named_both_ways_in_one_request_stays(jar: AdminJar) -> None:
    topic_id = jar.create_topic("t")
    answers = delete(jar, ("t", ZERO_ID), (None, topic_id))
    assert [code for _, _, code in answers] == [ErrorCode.invalid_request]  # told once, as Kafka does
    assert "t" in jar.services.image.topics


def test_internal_topics_cannot_be_deleted(jar: AdminJar) -> None:
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    ((_, _, code),) = delete(jar, ("__consumer_offsets", ZERO_ID))
    assert code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, ErrorCode.invalid_request), (2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)],
)
def test_where_deletion_is_disabled_nothing_goes(
    make_jar: MakeJar, version: int, expected: ErrorCode
) -> None:
    jar = make_jar({"delete.topic.enable": "false"})
    jar.create_topic("t")
    assert [code for _, _, code in delete(jar, ("t", ZERO_ID), version=version)] == [expected]
    assert "t" in jar.services.image.topics


def test_a_deleted_name_is_free_at_once_with_a_new_id_and_no_settings(jar: AdminJar) -> None:
    old_id = jar.create_topic("t", retention_ms=5)
    delete(jar, ("t", ZERO_ID))
    result = create(jar, a_topic("t"))["t"]
    assert result.error_code == ErrorCode.none
    assert result.topic_id != old_id
    assert jar.logs["t", 0].config.retention_ms == 604_800_000


def test_who_waits_for_records_of_a_deleted_topic_is_told_so(jar: AdminJar) -> None:
    old_id = jar.create_topic("t")
    reader = jar.connect()
    asked = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(old_id, "t", [FetchPartition(0, partition_max_bytes=1 << 20)])],
    )
    reader.send(ApiKey.FETCH, 13, asked)
    jar.loop.settle()
    assert reader.new_answers() == []
    delete(jar, ("t", ZERO_ID))
    jar.loop.settle()
    (told,) = reader.new_answers()
    assert told.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_or_partition
    jar.create_topic("t")
    (stale,) = reader.ask(ApiKey.FETCH, 13, asked.but(max_wait_ms=0)).responses
    assert stale.partitions[0].error_code == ErrorCode.unknown_topic_id
    assert jar.logs["t", 0].log_end_offset == 0


def test_who_keeps_things_per_topic_is_told_of_deletions(jar: AdminJar) -> None:
    jar.create_topic("t")
    told: list[str] = []
    jar.services.follower.deletion_watchers.append(lambda gone: told.extend(topic.name for topic in gone))
    delete(jar, ("t", ZERO_ID), ("missing", ZERO_ID))
    assert told == ["t"]


def grow(jar: AdminJar, name: str, count: int, *, version: int = 3, validate_only: bool = False) -> int:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name, count, None)],
        validate_only=validate_only,
        timeout_ms=30_000,
    )
    (result,) = jar.client.ask(ApiKey.CREATE_PARTITIONS, version, request).results
    assert result.name == name
    assert (result.error_message is None) == (result.error_code == 0)
    return int(result.error_code)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_with_its_own_settings(jar: AdminJar, version: int) -> None:
    jar.create_topic("t", retention_ms=5)
    assert grow(jar, "t", 3, version=version) == ErrorCode.none
    topic = jar.cluster.topics()["t"]
    assert jar.services.image.topic("t") == topic
    assert len(topic.partitions) == 3
    assert jar.logs["t", 2].config.retention_ms == 5


def test_growth_is_refused_or_only_judged(jar: AdminJar) -> None:
    jar.create_topic("t")
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    assert grow(jar, "t", 1) == ErrorCode.invalid_partitions
    assert grow(jar, "missing", 3) == ErrorCode.unknown_topic_or_partition
    assert grow(jar, "__consumer_offsets", 60) == ErrorCode.invalid_topic_exception
    assert grow(jar, "__consumer_offsets", 50) == ErrorCode.invalid_partitions
    assert grow(jar, "t", 3, validate_only=True) == ErrorCode.none
    assert len(jar.cluster.topics()["t"].partitions) == 1
