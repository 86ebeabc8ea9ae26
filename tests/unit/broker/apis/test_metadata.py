"""Metadata in every version: what is listed, what is created, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.protocol.types import ZERO_ID
from klamm.storage.engines.segments.files import remove_tree
from unit.broker.apis.admin_jar import AdminJar

MakeJar = Callable[..., AdminJar]
Restart = Callable[[AdminJar], AdminJar]


def by_name(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def by_id(*ids: bytes) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id=topic_id) for topic_id in ids]


def ask(
    jar: AdminJar,
    topics: Sequence[MetadataRequestTopic] | None,
    version: int = 13,
    *,
    creates: bool = False,
    **more: Any,
) -> MetadataResponse:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=creates, **more)
    response: MetadataResponse = jar.client.ask(ApiKey.METADATA, version, request)
    return response


def codes(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize(
    ("topics", "version", "expected"),
    [
        (None, 1, {"t", "u"}),
        ([], 1, set()),
        (by_name("t"), 1, {"t"}),
        ([], 0, {"t", "u"}),
        (by_name("t", "t"), 13, {"t"}),
        (None, 13, {"t", "u"}),
    ],
)
def test_null_asks_for_all_and_an_empty_list_only_does_so_in_version_0(
    jar: AdminJar, topics: list[MetadataRequestTopic] | None, version: int, expected: set[str]
) -> None:
    jar.create_topic("t")
    jar.create_topic("u")
    assert set(codes(ask(jar, topics, version))) == expected


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_what_it_has_room_for(make_jar: MakeJar, version: int) -> None:
    jar = make_jar({"broker.rack": "north", "listeners": "PLAINTEXT://localhost:9095"})
    topic_id = jar.create_topic("t", partitions=2)
    response = ask(jar, by_name("t"), version, creates=version < 4)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9095)
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("t", ErrorCode.none, False)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.leader_id, list(partition.replica_nodes), list(partition.isr_nodes)) == (
            1,
            [1],
            [1],
        )
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert not partition.offline_replicas
    assert broker.rack == ("north" if version >= 1 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (jar.services.image.cluster_id if version >= 2 else None)
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_ID)


def test_asking_creates_a_topic_that_is_complete_in_the_same_answer(make_jar: MakeJar) -> None:
    jar = make_jar({"num.partitions": "3"})
    (topic,) = ask(jar, by_name("new"), creates=True).topics
    assert topic.error_code == ErrorCode.none
    assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
    assert set(jar.logs) == {("new", 0), ("new", 1), ("new", 2)}
    assert jar.services.cluster.topics()["new"].topic_id == topic.topic_id


def test_nothing_is_created_when_client_or_broker_forbid_it(make_jar: MakeJar) -> None:
    jar = make_jar()
    assert codes(ask(jar, by_name("new"))) == {"new": ErrorCode.unknown_topic_or_partition}
    strict = make_jar({"auto.create.topics.enable": "false"})
    assert codes(ask(strict, by_name("new"), creates=True)) == {"new": ErrorCode.unknown_topic_or_partition}
    assert not jar.logs
    assert not strict.logs


@pytest.mark.parametrize("creates", [True, False])
def test_an_impossible_name_is_told_so(jar: AdminJar, creates: bool) -> None:
    jar.create_topic("t.x")
    expected = {"a b": ErrorCode.invalid_topic_exception, "": ErrorCode.invalid_topic_exception}
    assert codes(ask(jar, by_name("a b", ""), creates=creates)) == expected


def test_a_colliding_name_or_an_unreachable_factor_go_into_the_answer(make_jar: MakeJar) -> None:
    jar = make_jar()
    jar.create_topic("t.x")
    assert codes(ask(jar, by_name("t_x"), creates=True)) == {"t_x": ErrorCode.invalid_topic_exception}
    wide = make_jar({"default.replication.factor": "3"})
    assert codes(ask(wide, by_name("n"), creates=True)) == {"n": ErrorCode.invalid_replication_factor}


def test_an_internal_topic_is_created_with_its_own_settings(jar: AdminJar) -> None:
    (topic,) = ask(jar, by_name("__consumer_offsets"), creates=True).topics
    assert (len(topic.partitions), topic.is_internal) == (50, True)
    assert jar.logs["__consumer_offsets", 49].config.is_compacted


def test_an_absent_internal_topic_is_internal_all_the_same(jar: AdminJar) -> None:
    (topic,) = ask(jar, by_name("__transaction_state")).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.unknown_topic_or_partition, True)


def test_kafkas_metadata_log_is_never_created(jar: AdminJar) -> None:
    (topic,) = ask(jar, by_name("__cluster_metadata"), creates=True).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.unknown_topic_or_partition, False)
    assert "__cluster_metadata" not in jar.services.image.topics


def test_topics_are_found_by_id(jar: AdminJar) -> None:
    topic_id = jar.create_topic("t")
    known, unknown = ask(jar, by_id(topic_id, b"x" * 16), 12).topics
    assert (known.name, known.error_code) == ("t", ErrorCode.none)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (
        None,
        b"x" * 16,
        ErrorCode.unknown_topic_id,
    )


def test_beside_an_id_a_bare_name_is_ignored_and_not_created(jar: AdminJar) -> None:
    topic_id = jar.create_topic("t")
    response = ask(jar, [*by_id(topic_id), *by_name("new")], 12, creates=True)
    assert codes(response) == {"t": ErrorCode.none}
    assert "new" not in jar.services.image.topics


@pytest.mark.parametrize(
    ("topics", "version"),
    [
        (by_id(b"x" * 16), 11),
        ([MetadataRequestTopic(topic_id=b"x" * 16, name="t")], 10),
        ([MetadataRequestTopic(name=None)], 11),
    ],
)
def test_ids_before_version_12_make_no_sense(
    jar: AdminJar, topics: list[MetadataRequestTopic], version: int
) -> None:
    response = ask(jar, topics, version)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.invalid_request]


def test_each_listener_tells_its_own_address(make_jar: MakeJar) -> None:
    jar = make_jar(
        {
            "listeners": "PLAINTEXT://localhost:9092,OUTSIDE://localhost:9093",
            "advertised.listeners": "PLAINTEXT://inside:9092,OUTSIDE://outside:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )
    for listener, address in (("PLAINTEXT", ("inside", 9092)), ("OUTSIDE", ("outside", 9093))):
        response = jar.connect(listener=listener).ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
        assert [(broker.host, broker.port) for broker in response.brokers] == [address]


@pytest.mark.parametrize(
    ("version", "expected"), [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)]
)
def test_a_listener_that_is_not_advertised_leads_nowhere(
    make_jar: MakeJar, version: int, expected: ErrorCode
) -> None:
    jar = make_jar(
        {
            "listeners": "PLAINTEXT://localhost:9092,HIDDEN://localhost:9093",
            "advertised.listeners": "PLAINTEXT://inside:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT",
        }
    )
    jar.create_topic("t")
    response = jar.connect(listener="HIDDEN").ask(
        ApiKey.METADATA, version, MetadataRequest(topics=by_name("t"))
    )
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, list(response.brokers)) == (expected, -1, [])


def test_a_log_that_cannot_be_read_has_no_leader(jar: AdminJar, restart: Restart) -> None:
    jar.create_topic("t")
    jar.close()
    remove_tree(jar.files, "/logs/t-0")
    jar.files.write_file("/logs/t-0", b"a file in the place of a directory", sync=True)
    jar = restart(jar)
    (partition,) = ask(jar, by_name("t")).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
    assert list(partition.offline_replicas) == [1]


def test_operations_are_told_only_to_who_asks(jar: AdminJar) -> None:
    jar.create_topic("t")
    quiet = ask(jar, by_name("t"), 9)
    told = ask(
        jar,
        by_name("t"),
        9,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert (quiet.topics[0].topic_authorized_operations, quiet.cluster_authorized_operations) == (
        -(2**31),
    ) * 2
    assert (told.topics[0].topic_authorized_operations, told.cluster_authorized_operations) == (3576, 8096)


def test_two_clients_that_ask_at_once_get_the_same_new_topic(jar: AdminJar) -> None:
    request = MetadataRequest(topics=by_name("new"))
    clients = [jar.connect(), jar.connect()]
    for client in clients:
        client.send(ApiKey.METADATA, 12, request)
    jar.loop.settle()
    ids = {client.new_answers()[0].topics[0].topic_id for client in clients}
    assert len(ids) == 1
    assert ids != {ZERO_ID}


def test_a_restart_takes_every_partition_at_the_next_epoch(jar: AdminJar, restart: Restart) -> None:
    jar.create_topic("t")
    jar = restart(jar)
    (partition,) = ask(jar, by_name("t")).topics[0].partitions
    assert partition.leader_epoch == 1
    assert jar.logs["t", 0].leader_epoch == 1
