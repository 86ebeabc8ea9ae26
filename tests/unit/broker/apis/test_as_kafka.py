"""Answers to odd requests that are Apache Kafka's: each was once a difference under random traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from klamm.protocol.messages.describe_topic_partitions import TopicRequest as TopicName
from klamm.protocol.messages.fetch import FetchRequest, ForgottenTopic
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.messages.produce import ProduceRequest, TopicProduceData
from klamm.records.batch import ATTRIBUTES_AT, parse_header, reseal
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    jar.create_topic("u")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def produced(client: JarClient, request: Any, version: int = 9) -> list[tuple[int, int]]:
    """(error code, base offset) of each partition."""
    response = client.ask(ApiKey.PRODUCE, version, request)
    return [
        (answer.error_code, answer.base_offset)
        for topic in response.responses
        for answer in topic.partition_responses
    ]


def test_bytes_that_cannot_be_a_batch_spoil_the_whole_request(jar: Jar, client: JarClient) -> None:
    no_batch = a_batch(jar)[:8] + (5).to_bytes(4, "big") + a_batch(jar)[12:]
    batches = {("t", 0): a_batch(jar), ("nobody", 0): a_batch(jar), ("u", 0): no_batch}
    assert produced(client, a_produce(jar, batches=batches)) == [(2, -1)] * 3
    assert produced(client, a_produce(jar)) == [(0, 0)]


def test_a_transaction_before_the_bytes_that_cannot_be_a_batch_is_noticed_first(
    jar: Jar, client: JarClient
) -> None:
    no_magic = a_batch(jar)[:16] + b"\7" + a_batch(jar)[17:]
    transactional = a_batch(jar, producer_id=7, transactional=True)
    assert (
        produced(client, a_produce(jar, batches={("t", 0): transactional, ("u", 0): no_magic}))
        == [(53, -1)] * 2
    )
    assert (
        produced(client, a_produce(jar, batches={("t", 0): no_magic, ("u", 0): transactional}))
        == [(2, -1)] * 2
    )


def test_a_transaction_is_noticed_in_a_batch_that_is_refused_for_something_else(
    jar: Jar, client: JarClient
) -> None:
    twice = a_batch(jar, producer_id=7, transactional=True) * 2
    assert (
        produced(client, a_produce(jar, batches={("t", 0): a_batch(jar), ("u", 0): twice})) == [(53, -1)] * 2
    )


def test_any_negative_epoch_of_a_fetch_means_that_none_is_known(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    response = client.ask(ApiKey.FETCH, 12, a_fetch(jar, leader_epoch=-2))
    assert response.responses[0].partitions[0].error_code == 0
    asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -2, -1)])])
    assert client.ask(ApiKey.LIST_OFFSETS, 7, asked).topics[0].partitions[0].error_code == 74


def test_an_epoch_before_the_first_ended_where_the_log_begins(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    for epoch, expected in ((-2, (-2, 0)), (-1, (-1, -1)), (0, (0, 1))):
        asked = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, epoch)])]
        answer = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(-1, asked))
        found = answer.topics[0].partitions[0]
        assert (found.leader_epoch, found.end_offset) == expected


@pytest.mark.parametrize("version", [4, 7, 12, 13])
def test_an_isolation_that_nobody_knows_gets_nothing(jar: Jar, client: JarClient, version: int) -> None:
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    topic = jar.services.image.topic("t")
    assert topic is not None
    request = a_fetch(jar, topic_id=topic.topic_id, isolation_level=2)
    response = client.ask(ApiKey.FETCH, version, request)
    assert response.error_code == (-1 if version >= 7 else 0)
    codes = [data.error_code for topic in response.responses for data in topic.partitions]
    assert codes == ([-1] if version < 13 else [])


def test_a_lookup_with_an_isolation_that_nobody_knows_fails(jar: Jar, client: JarClient) -> None:
    asked = ListOffsetsRequest(-1, 2, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])])
    found = client.ask(ApiKey.LIST_OFFSETS, 7, asked).topics[0].partitions[0]
    assert (found.error_code, found.offset) == (-1, -1)


def test_producers_of_no_topic_and_of_no_name(jar: Jar, client: JarClient) -> None:
    asked = [TopicRequest("t", [0, 9]), TopicRequest("nobody", [0]), TopicRequest("a b", [0])]
    response = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(asked))
    answers = [each for topic in response.topics for each in topic.partitions]
    assert [each.error_code for each in answers] == [0, 3, 3, 17]
    assert [each.error_message is None for each in answers] == [True, True, False, False]


def test_a_batch_that_says_it_is_too_short_harms_only_its_partition(jar: Jar, client: JarClient) -> None:
    short = a_batch(jar)[:8] + (48).to_bytes(4, "big") + a_batch(jar)[12:]
    batches = {("t", 0): a_batch(jar), ("u", 0): short}
    assert produced(client, a_produce(jar, batches=batches)) == [(0, 0), (2, -1)]


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error_code"), [(-1, -1, 0), (5, 3, 0), (5, -1, 42), (-1, 3, 42)]
)
def test_an_id_and_its_epoch_come_together(
    client: JarClient, producer_id: int, epoch: int, error_code: int
) -> None:
    request = InitProducerIdRequest(None, 1000, producer_id, epoch)
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert answer.error_code == error_code
    assert answer.producer_epoch == (-1 if error_code else 0)


def test_a_session_misses_a_deleted_topic_by_name_and_a_new_one_by_its_id(
    jar: Jar, client: JarClient
) -> None:
    topic_id = jar.create_topic("gone")
    request = a_fetch(jar, topic="", topic_id=topic_id, session_epoch=0)
    session_id = client.ask(ApiKey.FETCH, 16, request).session_id
    jar.delete_topic("gone")
    again = FetchRequest(session_id=session_id, session_epoch=1)
    assert client.ask(ApiKey.FETCH, 16, again).responses[0].partitions[0].error_code == 3
    assert client.ask(ApiKey.FETCH, 16, request).responses[0].partitions[0].error_code == 100
    jar.create_topic("gone")
    again.session_epoch = 2
    assert client.ask(ApiKey.FETCH, 16, again).responses[0].partitions[0].error_code == 103


def test_operations_are_told_of_a_topic_that_is_not_there(client: JarClient) -> None:
    request = MetadataRequest(
        [MetadataRequestTopic(name="nobody")],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (topic,) = client.ask(ApiKey.METADATA, 10, request).topics
    assert (topic.error_code, topic.topic_authorized_operations) == (3, 3576)


def test_a_kind_of_resource_that_nobody_knows_spoils_the_whole_question(client: JarClient) -> None:
    asked = [DescribeConfigsResource(2, "t", None), DescribeConfigsResource(64, "t", None)]
    results = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(asked)).results
    assert [result.error_code for result in results] == [42, 42]
    results = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(asked[:1])).results
    assert [result.error_code for result in results] == [0]


def test_a_setting_of_a_topic_is_shown_as_it_was_understood(jar: Jar, client: JarClient) -> None:
    jar.create_topic("v", min_cleanable_dirty_ratio="1e-1")
    asked = DescribeConfigsResource(2, "v", ["min.cleanable.dirty.ratio"])
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([asked], True)).results
    assert result.configs[0].value == "0.1"
    assert result.configs[0].synonyms[0].value == "0.1"


def test_a_partition_that_comes_and_goes_in_one_request_is_read_without_a_session(
    jar: Jar, client: JarClient
) -> None:
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    session_id = client.ask(ApiKey.FETCH, 12, a_fetch(jar, session_epoch=0)).session_id
    request = a_fetch(jar, session_id=session_id, session_epoch=1)
    request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    response = client.ask(ApiKey.FETCH, 12, request)
    assert response.session_id == 0
    assert response.responses[0].partitions[0].high_watermark == 1


def test_a_topic_named_by_id_and_by_name_is_told_once_and_stays(jar: Jar, client: JarClient) -> None:
    topic = jar.services.image.topic("t")
    assert topic is not None
    asked = [DeleteTopicState(None, topic.topic_id), DeleteTopicState("t")]
    responses = client.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(asked, timeout_ms=30_000)).responses
    assert [(each.name, each.topic_id, each.error_code) for each in responses] == [("t", topic.topic_id, 42)]
    asked = [DeleteTopicState("t"), DeleteTopicState("t"), DeleteTopicState(None, topic.topic_id)]
    responses = client.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(asked, timeout_ms=30_000)).responses
    assert sorted(each.error_code for each in responses) == [0, 42]
    assert jar.services.image.topic("t") is None


def test_a_word_twice_in_a_list_counts_once(jar: Jar, client: JarClient) -> None:
    configs = [CreatableTopicConfig("cleanup.policy", "delete,delete")]
    topic = CreatableTopic("v", 1, 1, configs=configs)
    (created,) = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic])).topics
    assert {each.name: each.value for each in created.configs}["cleanup.policy"] == "delete,delete"
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "v", ["cleanup.policy"])])
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked).results
    assert result.configs[0].value == "delete"


def test_an_id_named_twice_spares_its_topic_from_its_name_too(jar: Jar, client: JarClient) -> None:
    topic = jar.services.image.topic("t")
    assert topic is not None
    by_id = DeleteTopicState(None, topic.topic_id)
    request = DeleteTopicsRequest([by_id, by_id, DeleteTopicState("t")], timeout_ms=30_000)
    responses = client.ask(ApiKey.DELETE_TOPICS, 6, request).responses
    assert sorted((each.name or "", each.error_code) for each in responses) == [("", 42), ("t", 42)]
    assert jar.services.image.topic("t") is not None


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_nothing_is_done_for_who_does_not_wait(jar: Jar, client: JarClient, timeout_ms: int) -> None:
    create = CreateTopicsRequest([CreatableTopic("new", 1, 1), CreatableTopic("", 1, 1)], timeout_ms)
    (new, nameless) = client.ask(ApiKey.CREATE_TOPICS, 7, create).topics
    assert (new.name, new.error_code, new.error_message, new.num_partitions) == ("new", 7, None, -1)
    assert nameless.error_code == 7
    grow = CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in ("t", "t", "u")], timeout_ms)
    results = client.ask(ApiKey.CREATE_PARTITIONS, 3, grow).results
    assert [(each.name, each.error_code) for each in results] == [("t", 7), ("t", 7), ("u", 7)]
    delete = DeleteTopicsRequest([DeleteTopicState("t"), DeleteTopicState(None, b"\7" * 16)], (), timeout_ms)
    responses = client.ask(ApiKey.DELETE_TOPICS, 6, delete).responses
    assert [(each.name, each.topic_id, each.error_code) for each in responses] == [
        ("t", bytes(16), 7),
        (None, b"\7" * 16, 7),
    ]
    topics = client.ask(ApiKey.METADATA, 12, MetadataRequest(None)).topics
    assert {topic.name: len(topic.partitions) for topic in topics} == {"t": 1, "u": 1}


def test_names_that_are_all_repeated_are_refused_whatever_the_wait(jar: Jar, client: JarClient) -> None:
    create = CreateTopicsRequest([CreatableTopic("new", 1, 1)] * 2, 0)
    assert [each.error_code for each in client.ask(ApiKey.CREATE_TOPICS, 7, create).topics] == [42]
    grow = CreatePartitionsRequest([CreatePartitionsTopic("t", 2)] * 2, 0)
    assert [each.error_code for each in client.ask(ApiKey.CREATE_PARTITIONS, 3, grow).results] == [42]
    delete = DeleteTopicsRequest([DeleteTopicState("t")] * 2 + [DeleteTopicState(None)])
    assert {each.error_code for each in client.ask(ApiKey.DELETE_TOPICS, 6, delete).responses} == {42}


def test_records_of_a_topic_without_a_policy_can_be_deleted(jar: Jar, client: JarClient) -> None:
    jar.create_topic("v", cleanup_policy="")
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, topic="v"))
    asked = [DeleteRecordsTopic("v", [DeleteRecordsPartition(0, -1)])]
    (topic,) = client.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(asked)).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].low_watermark) == (0, 1)


def test_a_record_is_complained_about_once(jar: Jar, client: JarClient) -> None:
    jar.create_topic("v", cleanup_policy="compact")
    too_late = jar.clock.timestamp_ms() + 7_200_000
    batch = a_batch(jar, key=None, timestamps_ms=[too_late, 0])
    response = client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic="v"))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 87
    assert [each.batch_index for each in answer.record_errors] == [0, 1]


@pytest.mark.parametrize(
    "configs", [{"message_timestamp_type": "LogAppendTime"}, {"compression_type": "gzip"}]
)
def test_bits_without_a_meaning_do_not_survive_a_new_checksum(
    jar: Jar, client: JarClient, configs: dict[str, Any]
) -> None:
    jar.create_topic("v", **configs)
    batch = bytearray(a_batch(jar))
    batch[ATTRIBUTES_AT] = 1
    reseal(batch)
    for topic in ("t", "v"):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic=topic))
    stored = {
        topic: client.ask(ApiKey.FETCH, 12, a_fetch(jar, topic=topic)).responses[0].partitions[0].records
        for topic in ("t", "v")
    }
    assert parse_header(stored["t"]).attributes == 0x100
    assert parse_header(stored["v"]).attributes < 0x80


@pytest.mark.parametrize(
    ("appended", "error_code", "policy"),
    [(",", 0, "delete"), ("compact,,", 0, "delete,compact"), (",compact", 40, "delete"), ("", 40, "delete")],
)
def test_commas_at_the_end_of_a_list_add_nothing(
    client: JarClient, appended: str, error_code: int, policy: str
) -> None:
    changes = [AlterableConfig("cleanup.policy", 2, appended)]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", changes)])
    (answer,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == error_code
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", ["cleanup.policy"])])
    assert client.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked).results[0].configs[0].value == policy


def test_a_topic_without_partitions_is_not_answered(jar: Jar, client: JarClient) -> None:
    produce = ProduceRequest(None, -1, 1000, [TopicProduceData(name="t", partition_data=[])])
    assert client.ask(ApiKey.PRODUCE, 9, produce).responses == []
    lookup = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [])])
    assert client.ask(ApiKey.LIST_OFFSETS, 7, lookup).topics == []
    deletion = DeleteRecordsRequest([DeleteRecordsTopic("t", [])])
    assert client.ask(ApiKey.DELETE_RECORDS, 2, deletion).topics == []
    producers = DescribeProducersRequest([TopicRequest("t", [])])
    assert [topic.name for topic in client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, producers).topics] == ["t"]


def test_a_topic_named_twice_is_answered_in_one_place(jar: Jar, client: JarClient) -> None:
    assert produced(client, a_produce(jar)) == [(0, 0)]
    lookups = [ListOffsetsTopic("t", [ListOffsetsPartition(index, -1, -1)]) for index in (0, 7)]
    found = client.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, lookups)).topics
    assert [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in found
    ] == [("t", [(0, 0), (7, 3)])]
    deletions = [
        DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 99), DeleteRecordsPartition(7, 0)]),
        DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)]),
    ]
    deleted = client.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(deletions, 1000)).topics
    assert [
        (
            topic.name,
            [(each.partition_index, each.low_watermark, each.error_code) for each in topic.partitions],
        )
        for topic in deleted
    ] == [("t", [(0, 1, 0), (7, -1, 3)])]


def test_a_topic_with_neither_name_nor_id_fails_the_request(client: JarClient) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=None), MetadataRequestTopic(name="t")])
    response = client.ask(ApiKey.METADATA, 13, request)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("", -1), ("t", -1)]
    assert (response.error_code, list(response.brokers), response.controller_id) == (-1, [], -1)


def partitions_described(
    client: JarClient, names: list[str], limit: int, cursor: Cursor | None
) -> tuple[list[tuple[str, int, int]], tuple[str, int] | None]:
    """(topic, error code, number of partitions) of each, and the next cursor."""
    request = DescribeTopicPartitionsRequest([TopicName(name) for name in names], limit, cursor)
    response = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    following = response.next_cursor
    return (
        [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics],
        None if following is None else (following.topic_name, following.partition_index),
    )


def test_an_empty_name_without_a_cursor_fails_all_topics(client: JarClient) -> None:
    assert partitions_described(client, ["t", ""], 10, None) == ([("t", -1, 0), ("", -1, 0)], None)
    assert partitions_described(client, ["t", ""], 10, Cursor("", 0)) == ([("", 17, 0), ("t", 0, 1)], None)


@pytest.mark.parametrize(
    ("partition", "limit", "following"),
    [
        (2**31 - 1, 10, ("t", -(2**31) + 9)),
        (2**31 - 2, 2, ("t", -(2**31))),
        (2**31 - 2, 1, None),
        (5, 2, None),
    ],
)
def test_a_cursor_past_the_last_partition_may_wrap(
    client: JarClient, partition: int, limit: int, following: tuple[str, int] | None
) -> None:
    described, found = partitions_described(client, ["t"], limit, Cursor("t", partition))
    assert (described, found) == ([("t", 0, 0)], following)


@pytest.mark.parametrize("partition", [0, 9])
def test_a_batch_of_impossible_length_fails_the_request(jar: Jar, client: JarClient, partition: int) -> None:
    batch = bytearray(a_batch(jar))
    batch[8:12] = (2**31 - 1).to_bytes(4, "big")
    request = a_produce(jar, batches={("t", partition): bytes(batch), ("u", 0): a_batch(jar)})
    assert produced(client, request) == [(-1, -1), (-1, -1)]


def test_an_unknown_codec_is_found_after_wrong_acks(jar: Jar, client: JarClient) -> None:
    batch = bytearray(a_batch(jar))
    batch[ATTRIBUTES_AT + 1] |= 7
    reseal(batch)
    assert produced(client, a_produce(jar, bytes(batch), acks=2)) == [(21, -1)]
    assert produced(client, a_produce(jar, bytes(batch))) == [(76, -1)]


def test_an_epoch_below_that_of_no_producer_is_fenced(jar: Jar, client: JarClient) -> None:
    first = a_batch(jar, producer_id=7, producer_epoch=-2, base_sequence=0)
    assert produced(client, a_produce(jar, first)) == [(47, -1)]
    assert produced(
        client, a_produce(jar, a_batch(jar, producer_id=7, producer_epoch=-1, base_sequence=0))
    ) == [(0, 0)]


def test_a_topic_and_a_partition_that_are_named_twice_are_answered_once(jar: Jar, client: JarClient) -> None:
    twice = a_produce(jar, batches={("t", 0): a_batch(jar), ("t", 9): a_batch(jar)})
    other = a_produce(jar, topic="u")
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[*twice.topic_data, *other.topic_data] * 2)
    response = client.ask(ApiKey.PRODUCE, 9, request)
    assert [
        (topic.name, [(each.index, each.error_code) for each in topic.partition_responses])
        for topic in response.responses
    ] == [("t", [(0, 42), (9, 3)]), ("u", [(0, 42)])]


def test_an_unknown_codec_fails_a_request_of_a_version_without_zstd(jar: Jar, client: JarClient) -> None:
    batch = bytearray(a_batch(jar))
    batch[ATTRIBUTES_AT + 1] |= 7
    reseal(batch)
    request = a_produce(jar, batches={("t", 0): bytes(batch), ("u", 0): a_batch(jar)}, acks=2)
    assert produced(client, request, 6) == [(76, -1), (-1, -1)]
    request = a_produce(jar, batches={("t", 9): bytes(batch), ("u", 0): a_batch(jar)})
    assert produced(client, request, 6) == [(3, -1), (0, 0)]


def test_a_batch_of_half_a_producer_cannot_be_compressed_anew(jar: Jar, client: JarClient) -> None:
    jar.create_topic("gzip", compression_type="gzip")
    for half in (
        a_batch(jar, transactional=True),
        a_batch(jar, producer_id=7, producer_epoch=-1, base_sequence=0),
    ):
        request = a_produce(jar, half, topic="gzip", transactional_id="x")
        assert produced(client, request) == [(-1, -1)]
        assert produced(client, a_produce(jar, half, topic="t", transactional_id="x"))[0][0] == 0
