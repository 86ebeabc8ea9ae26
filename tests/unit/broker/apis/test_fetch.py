"""Fetch: what is read, how much of it, and how long it is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from klamm.records.batch import iter_headers
from klamm.records.markers import ControlType, encode_marker
from klamm.storage.log import AppendOrigin
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def partition_of(jar: Jar, topic: str = "t", index: int = 0) -> Partition:
    partition = jar.services.partitions.get(topic, index)
    assert partition is not None
    return partition


def fill(jar: Jar, *batches: bytes, topic: str = "t", partition: int = 0) -> None:
    """Produce batches, one request each, and wait until they are safe."""
    writer = jar.connect()
    for batch in batches:
        writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic=topic, partition=partition))
    writer.close()
    jar.loop.settle()


def sized(jar: Jar, size_bytes: int) -> bytes:
    """A batch of exactly this size."""
    empty = len(a_batch(jar, value=bytes(200))) - 200
    batch = a_batch(jar, value=bytes(size_bytes - empty))
    assert len(batch) in (size_bytes, size_bytes + 1)
    return (
        batch[:size_bytes] if len(batch) == size_bytes else a_batch(jar, value=bytes(size_bytes - empty - 1))
    )


def only(response: FetchResponse) -> PartitionData:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def offsets_in(data: PartitionData) -> list[int]:
    """Base offsets of the batches in an answer."""
    assert data.records is not None
    return [header.base_offset for _, header in iter_headers(data.records)]


def fetch(client: JarClient, request: Any, version: int = 12) -> PartitionData:
    return only(client.ask(ApiKey.FETCH, version, request))


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_the_same_bytes(jar: Jar, client: JarClient, version: int) -> None:
    fill(jar, a_batch(jar, count=2), a_batch(jar))
    topic = jar.services.image.topic("t")
    assert topic is not None
    named = {"topic": "", "topic_id": topic.topic_id} if version >= 13 else {"topic": "t"}
    data = fetch(client, a_fetch(jar, **named), version)
    assert offsets_in(data) == [0, 2]
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
    assert data.aborted_transactions is None
    log = partition_of(jar).log
    assert bytes(data.records or b"") == log.read(0, until_offset=3, max_bytes=10**6, at_least_one=False)


def test_an_empty_log_is_waited_at_until_the_deadline(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=500))
    jar.pass_ms(499)
    assert client.frames() == []
    jar.pass_ms(2)
    (answer,) = client.new_answers()
    assert only(answer).records == b""  # never null: librdkafka takes null for an error


def test_an_append_ends_the_wait(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=500))
    jar.pass_ms(100)
    fill(jar, a_batch(jar))
    (answer,) = client.new_answers()
    assert offsets_in(only(answer)) == [0]


def test_what_is_not_on_disk_yet_ends_no_wait(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 50
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=500))
    jar.connect().send(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    jar.pass_ms(49)
    assert client.frames() == []
    jar.pass_ms(5)
    assert offsets_in(only(client.new_answers()[0])) == [0]


def test_min_bytes_are_waited_for_and_then_everything_comes(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=500, min_bytes=1000))
    fill(jar, sized(jar, 600))
    assert client.frames() == []
    fill(jar, sized(jar, 600))
    (answer,) = client.new_answers()
    assert offsets_in(only(answer)) == [0, 1]


def test_the_first_batch_comes_whole_and_nothing_else_with_it(jar: Jar, client: JarClient) -> None:
    jar.create_topic("u", partitions=2)
    for partition in (0, 1):
        fill(jar, sized(jar, 5000), topic="u", partition=partition)
    answer = client.ask(ApiKey.FETCH, 12, a_fetch(jar, topic="u", offsets={0: 0, 1: 0}, max_bytes=1))
    assert [len(each.records or b"") for each in answer.responses[0].partitions] == [5000, 0]


@pytest.mark.parametrize(("min_bytes", "is_enough"), [(5000, True), (5001, False)])
def test_a_first_batch_above_its_partitions_limit_counts_whole(
    jar: Jar, client: JarClient, min_bytes: int, is_enough: bool
) -> None:
    # Given a batch that is larger than its partition's limit, and another partition without records
    jar.create_topic("u", partitions=2)
    fill(jar, sized(jar, 5000), topic="u", partition=1)
    request = a_fetch(
        jar, topic="u", offsets={0: 0, 1: 0}, max_wait_ms=500, min_bytes=min_bytes, partition_max_bytes=100
    )
    client.send(ApiKey.FETCH, 12, request)
    # When it alone is as much as the client waits for, then the answer comes at once
    assert bool(client.frames()) == is_enough
    jar.pass_ms(501)
    (answer,) = client.new_answers()
    assert [len(each.records or b"") for each in answer.responses[0].partitions] == [0, 5000]


@pytest.mark.parametrize(("limit_bytes", "min_bytes"), [(100, 1000), (0, 1)])
def test_of_a_batch_that_comes_later_the_limit_counts(
    jar: Jar, client: JarClient, limit_bytes: int, min_bytes: int
) -> None:
    request = a_fetch(jar, max_wait_ms=500, min_bytes=min_bytes, partition_max_bytes=limit_bytes)
    client.send(ApiKey.FETCH, 12, request)
    fill(jar, sized(jar, 5000))
    assert client.frames() == []
    jar.pass_ms(501)
    assert offsets_in(only(client.new_answers()[0])) == [0]


def test_only_whole_batches_come_that_fit(jar: Jar, client: JarClient) -> None:
    fill(jar, sized(jar, 500), sized(jar, 500))
    assert offsets_in(fetch(client, a_fetch(jar, partition_max_bytes=600))) == [0]
    assert offsets_in(fetch(client, a_fetch(jar, partition_max_bytes=999))) == [0]
    assert offsets_in(fetch(client, a_fetch(jar, partition_max_bytes=1000))) == [0, 1]
    assert offsets_in(fetch(client, a_fetch(jar, partition_max_bytes=0))) == [0]


def test_the_brokers_own_limit_counts_too() -> None:
    jar = Jar({"fetch.max.bytes": "1024"})
    jar.create_topic("t")
    fill(jar, sized(jar, 600), sized(jar, 600))
    assert offsets_in(fetch(jar.connect(), a_fetch(jar))) == [0]
    jar.close()


@pytest.mark.parametrize("offset", [4, 2, -1])
def test_an_offset_outside_the_log_is_out_of_range(jar: Jar, client: JarClient, offset: int) -> None:
    fill(jar, a_batch(jar), a_batch(jar), a_batch(jar))
    partition_of(jar).retention.delete_records(3)
    data = fetch(client, a_fetch(jar, offset=offset, max_wait_ms=10_000))
    assert data.error_code == ErrorCode.offset_out_of_range
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.records == b""


def test_the_log_end_itself_is_waited_at(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar))
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=1, max_wait_ms=100))
    jar.pass_ms(90)
    assert client.frames() == []
    jar.pass_ms(20)
    assert only(client.new_answers()[0]).error_code == 0


def test_above_the_high_watermark_there_is_nothing_yet(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 1000
    jar.connect().send(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, count=3)))
    jar.loop.settle()
    data = fetch(client, a_fetch(jar, offset=2))
    assert (data.error_code, data.high_watermark, data.records) == (0, 0, b"")


@pytest.mark.parametrize(("epoch", "error_code"), [(-1, 6), (0, 75), (5, 75)])
def test_who_claims_to_be_a_replica_reads_nothing(
    jar: Jar, client: JarClient, epoch: int, error_code: int
) -> None:
    # Given a record that is not on disk yet
    jar.disk.delay_ms = 1000
    jar.connect().send(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, count=3)))
    jar.loop.settle()
    # Then nobody reads it, by whatever name
    data = fetch(client, a_fetch(jar, replica_id=1, leader_epoch=epoch))
    assert (data.error_code, data.high_watermark, data.records) == (error_code, -1, b"")
    topic = jar.services.image.topic("t")
    assert topic is not None
    request = a_fetch(
        jar, topic="", topic_id=topic.topic_id, leader_epoch=epoch, replica_state=ReplicaState(1, 0)
    )
    response = client.ask(ApiKey.FETCH, 16, request)
    assert (only(response).error_code, only(response).records) == (error_code, b"")
    assert list(response.node_endpoints) == []


def test_inside_a_batch_the_whole_batch_comes(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar, count=5), a_batch(jar))
    assert offsets_in(fetch(client, a_fetch(jar, offset=3))) == [0, 5]


def test_an_unknown_partition_does_not_end_the_wait_of_the_others(jar: Jar, client: JarClient) -> None:
    request = a_fetch(jar, max_wait_ms=300)
    request.topics = [*request.topics, FetchTopic(topic="nobody", partitions=[FetchPartition(0)])]
    client.send(ApiKey.FETCH, 12, request)
    jar.pass_ms(290)
    assert client.frames() == []
    jar.pass_ms(20)
    (answer,) = client.new_answers()
    assert [topic.partitions[0].error_code for topic in answer.responses] == [0, 3]


def test_nothing_but_unknown_partitions_is_not_waited_for(jar: Jar, client: JarClient) -> None:
    assert fetch(client, a_fetch(jar, topic="nobody", max_wait_ms=10_000)).error_code == 3


@pytest.mark.parametrize(("epoch", "error_code"), [(0, 74), (2, 75), (1, 0), (-1, 0)])
def test_another_leadership_than_ours_is_an_error_at_once(epoch: int, error_code: int) -> None:
    jar = Jar()
    jar.create_topic("t")
    jar.loop.run(jar.broker.stop())
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    client = again.connect()
    client.send(ApiKey.FETCH, 12, a_fetch(again, leader_epoch=epoch, max_wait_ms=1000))
    again.pass_ms(500)
    assert [only(answer).error_code for answer in client.new_answers()] == (
        [error_code] if error_code else []
    )
    again.close()


def test_from_version_16_on_a_fenced_epoch_names_the_leader() -> None:
    jar = Jar()
    topic_id = jar.create_topic("t")
    jar.loop.run(jar.broker.stop())
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    client = again.connect()
    for version, is_named in ((15, False), (16, True)):
        request = a_fetch(again, topic="", topic_id=topic_id, leader_epoch=0)
        response = client.ask(ApiKey.FETCH, version, request)
        data = only(response)
        assert data.error_code == 74
        assert (data.current_leader is not None) == is_named
        assert [each.node_id for each in response.node_endpoints] == ([1] if is_named else [])
    assert data.current_leader is not None
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    response = client.ask(ApiKey.FETCH, 16, a_fetch(again, topic="", topic_id=topic_id, leader_epoch=9))
    assert only(response).error_code == 75
    assert only(response).current_leader is None
    again.close()


def test_an_offset_in_an_old_segment_is_not_waited_at(jar: Jar, client: JarClient) -> None:
    jar.create_topic("s", segment_bytes=1024)
    fill(jar, sized(jar, 900), sized(jar, 900), topic="s")
    data = fetch(client, a_fetch(jar, topic="s", offset=0, min_bytes=10**9, max_wait_ms=10_000))
    assert offsets_in(data) == [0]  # and of one segment alone


def test_a_log_that_rolls_does_not_wake_who_waits_at_its_end(jar: Jar, client: JarClient) -> None:
    jar.create_topic("s", segment_bytes=1024)
    fill(jar, sized(jar, 900), topic="s")
    client.send(ApiKey.FETCH, 12, a_fetch(jar, topic="s", offset=1, min_bytes=1000, max_wait_ms=1000))
    fill(jar, sized(jar, 900), topic="s")
    assert client.frames() == []
    fill(jar, sized(jar, 900), topic="s")
    assert offsets_in(only(client.new_answers()[0])) == [1]


def test_a_log_that_left_the_client_says_where(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar, count=5))
    partition_of(jar).log.truncate(3)
    data = fetch(client, a_fetch(jar, offset=5, last_fetched_epoch=0, max_wait_ms=10_000))
    assert data.diverging_epoch is not None
    assert (data.error_code, data.diverging_epoch.epoch, data.records) == (0, 0, b"")
    assert data.diverging_epoch.end_offset == partition_of(jar).log.log_end_offset
    assert data.high_watermark >= 0
    data = fetch(client, a_fetch(jar, offset=0, last_fetched_epoch=7, max_wait_ms=10_000))
    assert data.error_code == ErrorCode.offset_out_of_range


def test_a_deleted_topic_ends_the_wait_with_an_unknown_partition_also_by_id(
    jar: Jar, client: JarClient
) -> None:
    topic_id = jar.create_topic("u")
    request = a_fetch(jar, topic="", topic_id=topic_id, max_wait_ms=10_000)
    client.send(ApiKey.FETCH, 13, request)
    jar.pass_ms(10)
    jar.delete_topic("u")
    jar.loop.settle()
    assert only(client.new_answers()[0]).error_code == 3
    assert fetch(client, request, 13).error_code == 100
    jar.create_topic("u")
    assert fetch(client, request, 13).error_code == 100


def test_a_log_that_is_offline_says_so_to_who_knows_the_word(jar: Jar, client: JarClient) -> None:
    partition_of(jar).fail(ErrorCode.kafka_storage_error)
    assert fetch(client, a_fetch(jar), 5).error_code == 6
    assert fetch(client, a_fetch(jar), 6).error_code == 56


def test_a_partition_that_another_broker_leads_is_not_ours_to_read(jar: Jar, client: JarClient) -> None:
    partition_of(jar).fail(ErrorCode.not_leader_or_follower)
    assert fetch(client, a_fetch(jar, max_wait_ms=10_000)).error_code == 6


def test_of_a_partition_named_twice_the_last_counts(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar), a_batch(jar))
    request = a_fetch(jar)
    request.topics = [
        FetchTopic(
            topic="t",
            partitions=[
                FetchPartition(0, partition_max_bytes=10_000, fetch_offset=start) for start in (0, 1)
            ],
        )
    ]
    assert offsets_in(fetch(client, request)) == [1]


def transact(jar: Jar, *, commits: bool, producer_id: int = 7) -> None:
    """End a producer's transaction."""
    log = partition_of(jar).log
    marker = encode_marker(
        ControlType.COMMIT if commits else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=jar.clock.timestamp_ms(),
    )
    log.append(
        marker,
        now_ms=jar.clock.now_ms(),
        timestamp_ms=jar.clock.timestamp_ms(),
        origin=AppendOrigin.COORDINATOR,
    )
    jar.services.flusher.mark(partition_of(jar))
    jar.loop.settle()


def open_transaction(jar: Jar, *, producer_id: int = 7, base_sequence: int = 0) -> None:
    """A transactional batch, as the broker would append it once a coordinator vouches for it."""
    partition_of(jar).log.append(
        a_batch(jar, producer_id=producer_id, base_sequence=base_sequence, transactional=True),
        now_ms=jar.clock.now_ms(),
        timestamp_ms=jar.clock.timestamp_ms(),
    )
    jar.services.flusher.mark(partition_of(jar))
    jar.loop.settle()


def test_read_committed_sees_nothing_from_an_open_transaction_on(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar))
    open_transaction(jar)
    fill(jar, a_batch(jar))
    committed = fetch(client, a_fetch(jar, isolation_level=1))
    assert offsets_in(committed) == [0]
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert committed.aborted_transactions == []
    assert offsets_in(fetch(client, a_fetch(jar))) == [0, 1, 2]
    assert fetch(client, a_fetch(jar, isolation_level=1, offset=2)).records == b""


def test_the_end_of_a_transaction_ends_the_wait(jar: Jar, client: JarClient) -> None:
    open_transaction(jar)
    client.send(ApiKey.FETCH, 12, a_fetch(jar, isolation_level=1, max_wait_ms=10_000))
    jar.pass_ms(100)
    assert client.frames() == []
    transact(jar, commits=True)
    (answer,) = client.new_answers()
    assert offsets_in(only(answer)) == [0, 1]


def test_aborted_transactions_are_named_to_read_committed(jar: Jar, client: JarClient) -> None:
    open_transaction(jar)
    transact(jar, commits=False)
    data = fetch(client, a_fetch(jar, isolation_level=1))
    assert offsets_in(data) == [0, 1]
    assert data.aborted_transactions is not None
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(7, 0)]
    assert fetch(client, a_fetch(jar)).aborted_transactions is None


def test_of_many_aborted_transactions_only_those_in_the_answer_are_named(jar: Jar, client: JarClient) -> None:
    for number in range(30):
        open_transaction(jar, base_sequence=number)
        transact(jar, commits=False)
    one_batch = fetch(client, a_fetch(jar, isolation_level=1, partition_max_bytes=1))
    assert one_batch.aborted_transactions is not None
    assert [each.first_offset for each in one_batch.aborted_transactions] == [0]
    everything = fetch(client, a_fetch(jar, isolation_level=1))
    assert everything.aborted_transactions is not None
    assert len(everything.aborted_transactions) == 30
