"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId, DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from klamm.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.records.compression import Codec
from klamm.storage.cluster import ClusterStoreError
from klamm.storage.engines.simulated_disk import FailingOperation
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


def partition_of(jar: Jar) -> Partition:
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    return partition


def fill(jar: Jar, *batches: bytes, topic: str = "t") -> None:
    writer = jar.connect()
    for batch in batches:
        writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic=topic))
    writer.close()
    jar.loop.settle()


def a_lookup(timestamp: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])


def list_offset(
    client: JarClient,
    timestamp: int,
    version: int = 7,
    *,
    topic: str = "t",
    leader_epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(0, leader_epoch, timestamp)
    request = ListOffsetsRequest(replica_id, isolation_level, [ListOffsetsTopic(topic, [asked])])
    response = client.ask(ApiKey.LIST_OFFSETS, version, request)
    answer = response.topics[0].partitions[0]
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def found(answer: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 11))
def test_the_ends_of_a_log(jar: Jar, client: JarClient, version: int) -> None:
    fill(jar, a_batch(jar, count=3))
    assert found(list_offset(client, -1, version)) == (0, 3, -1)
    assert found(list_offset(client, -2, version)) == (0, 0, -1)
    if version >= 4:
        assert list_offset(client, -1, version).leader_epoch == 0
        assert list_offset(client, -2, version).leader_epoch == 0


def test_a_time_stands_for_the_first_record_not_before_it(jar: Jar, client: JarClient) -> None:
    fill(jar, *(a_batch(jar, timestamps_ms=[time]) for time in (10, 30, 20)))
    assert found(list_offset(client, 10)) == (0, 0, 10)
    assert found(list_offset(client, 15)) == (0, 1, 30)
    assert found(list_offset(client, 25)) == (0, 1, 30)
    assert found(list_offset(client, 31)) == (0, -1, -1)
    assert found(list_offset(client, -3)) == (0, 1, 30)


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, (0, 3, -1)), (-3, (0, 2, 30)), (25, (0, 2, 30))])
def test_what_was_acknowledged_is_in_the_answer_even_if_the_disk_has_it_a_little_later(
    jar: Jar, client: JarClient, timestamp: int, expected: tuple[int, int, int]
) -> None:
    fill(jar, a_batch(jar, timestamps_ms=[10]))
    jar.disk.delay_ms = 100
    for time in (20, 30):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, timestamps_ms=[time]), acks=1))
    assert found(list_offset(client, -2)) == (0, 0, -1)
    client.send(ApiKey.LIST_OFFSETS, 7, a_lookup(timestamp))
    jar.loop.settle()
    assert client.new_answers() == []
    jar.pass_ms(250)
    (answer,) = client.new_answers()
    assert found(answer.topics[0].partitions[0]) == expected


def test_a_lookup_does_not_wait_forever_for_a_disk(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar))
    jar.disk.delay_ms = 60_000
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    client.send(ApiKey.LIST_OFFSETS, 7, a_lookup(-1))
    jar.pass_ms(5_010)
    (answer,) = client.new_answers()
    assert found(answer.topics[0].partitions[0]) == (0, 1, -1)
    assert not partition_of(jar).watchers


def test_a_lookup_that_nobody_waits_for_any_more_is_forgotten(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 100
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    client.send(ApiKey.LIST_OFFSETS, 7, a_lookup(-1))
    jar.loop.settle()
    assert partition_of(jar).watchers
    client.close()
    jar.loop.settle()
    assert not partition_of(jar).watchers


def test_a_lookup_hears_that_its_partition_is_gone_or_cut_back(jar: Jar, client: JarClient) -> None:
    jar.files.faults.append(FailingOperation("sync"))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    assert found(list_offset(client, -1)) == (0, 0, -1)
    jar.disk.delay_ms = 100
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    client.send(ApiKey.LIST_OFFSETS, 7, a_lookup(-1))
    jar.loop.settle()
    partition_of(jar).fail(ErrorCode.not_leader_or_follower)
    jar.loop.settle()
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == 6


def test_a_time_inside_a_compressed_batch_finds_its_record(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar, timestamps_ms=[10, 20, 30], codec=Codec.ZSTD))
    assert found(list_offset(client, 15)) == (0, 1, 20)
    assert found(list_offset(client, -3)) == (0, 2, 30)


def test_an_open_transaction_bounds_what_read_committed_finds(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar, timestamps_ms=[10]))
    partition_of(jar).log.append(
        a_batch(jar, producer_id=7, transactional=True, timestamps_ms=[20]), now_ms=0, timestamp_ms=0
    )
    jar.services.flusher.mark(partition_of(jar))
    jar.loop.settle()
    assert found(list_offset(client, -1)) == (0, 2, -1)
    assert found(list_offset(client, -1, isolation_level=1)) == (0, 1, -1)
    assert found(list_offset(client, 15)) == (0, 1, 20)
    assert found(list_offset(client, 15, isolation_level=1)) == (0, -1, -1)
    assert found(list_offset(client, -3, isolation_level=1)) == (0, -1, -1)
    # Only of a consumer, which has the replica id -1.
    assert found(list_offset(client, -1, isolation_level=1, replica_id=-2)) == (0, 2, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-7, 1)])
def test_a_special_time_that_the_version_does_not_know_is_refused(
    jar: Jar, client: JarClient, timestamp: int, version: int
) -> None:
    answer = list_offset(client, timestamp, version)
    assert (found(answer), answer.leader_epoch) == ((35, -1, -1), -1)


def test_special_times_that_need_their_version(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar))
    assert found(list_offset(client, -4, 8)) == (0, 0, -1)
    assert found(list_offset(client, -5, 9)) == (0, -1, -1)
    assert found(list_offset(client, -6, 11)) == (0, -1, -1)


def test_lookups_that_cannot_be(jar: Jar, client: JarClient) -> None:
    assert list_offset(client, -1, topic="nobody").error_code == 3
    assert list_offset(client, -1, leader_epoch=7).error_code == 75
    asked = ListOffsetsPartition(0, -1, -1)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked, asked])])
    response = client.ask(ApiKey.LIST_OFFSETS, 7, request)
    assert [each.error_code for each in response.topics[0].partitions] == [42]
    partition_of(jar).fail(ErrorCode.kafka_storage_error)
    assert list_offset(client, -1).error_code == 56


def epoch_end(client: JarClient, epoch: int, *, topic: str = "t", current: int = -1) -> tuple[int, int, int]:
    asked = OffsetForLeaderPartition(0, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [asked])])
    answer = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_a_log_knows_where_each_leadership_ended() -> None:
    jar = Jar()
    jar.create_topic("t")
    fill(jar, a_batch(jar, count=100))
    for _ in range(3):  # three more leaderships, of which only the last writes
        jar.loop.run(jar.broker.stop())
        jar = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    fill(jar, a_batch(jar, count=50))
    client = jar.connect()
    assert epoch_end(client, 0) == (0, 0, 100)
    assert epoch_end(client, 3) == (0, 3, 150)
    assert epoch_end(client, 4) == (0, -1, -1)
    assert epoch_end(client, 0, topic="nobody") == (3, -1, -1)
    assert epoch_end(client, 0, current=1) == (74, -1, -1)
    assert epoch_end(client, 0, current=4) == (75, -1, -1)
    assert epoch_end(client, 0, current=3) == (0, 0, 100)
    jar.close()


def delete(client: JarClient, offset: int, topic: str = "t") -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])])
    answer = client.ask(ApiKey.DELETE_RECORDS, 2, request).topics[0].partitions[0]
    assert isinstance(answer, DeleteRecordsPartitionResult)
    return answer


def test_deleting_records_raises_the_start_of_the_log_for_good() -> None:
    jar = Jar()
    jar.create_topic("t")
    fill(jar, *(a_batch(jar) for _ in range(10)))
    client = jar.connect()
    assert delete(client, 5).low_watermark == 5
    assert client.ask(ApiKey.FETCH, 12, a_fetch(jar, offset=4)).responses[0].partitions[0].error_code == 1
    assert delete(client, 3).low_watermark == 5
    for offset in (11, -2):
        answer = delete(client, offset)
        assert (answer.error_code, answer.low_watermark) == (1, -1)
    jar.files.crash()
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    assert partition_of(again).log.log_start_offset == 5
    assert delete(again.connect(), -1).low_watermark == 10
    again.close()


def test_while_the_disk_learns_of_a_deletion_others_are_served(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar), a_batch(jar))
    jar.disk.delay_ms = 50
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])])
    client.send(ApiKey.DELETE_RECORDS, 2, request)
    fetched = jar.connect().ask(ApiKey.FETCH, 12, a_fetch(jar, offset=1))
    assert fetched.responses[0].partitions[0].log_start_offset == 1
    jar.pass_ms(40)
    assert client.frames() == []
    jar.pass_ms(20)
    assert client.new_answers()[0].topics[0].partitions[0].low_watermark == 1


def test_a_deletion_that_the_disk_refused_can_be_asked_for_again() -> None:
    jar = Jar()
    jar.create_topic("t")
    fill(jar, a_batch(jar), a_batch(jar))
    client = jar.connect()
    jar.files.faults.append(FailingOperation("sync"))
    answer = delete(client, 1)
    assert (answer.error_code, answer.low_watermark) == (56, -1)
    assert delete(client, 1).low_watermark == 1
    jar.files.crash()
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    assert partition_of(again).log.log_start_offset == 1
    again.close()


def test_records_that_were_acknowledged_can_be_deleted_at_once(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 100
    for _ in range(3):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], timeout_ms=1_000
    )
    client.send(ApiKey.DELETE_RECORDS, 2, request)
    jar.pass_ms(400)
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0] == DeleteRecordsPartitionResult(0, 2, 0)


def test_records_are_deleted_only_where_the_policy_deletes(jar: Jar, client: JarClient) -> None:
    jar.create_topic("c", cleanup_policy="compact")
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    assert delete(client, 0, "c").error_code == 44
    assert delete(client, 0, "nobody").error_code == 3
    assert delete(client, 0, "__consumer_offsets").error_code == 17
    jar.create_topic("both", cleanup_policy="compact,delete")
    assert delete(client, 0, "both").error_code == 0


def test_deleting_records_wakes_a_fetch_that_is_left_behind(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar), a_batch(jar))
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, min_bytes=10**6, max_wait_ms=10_000))
    jar.pass_ms(10)
    assert delete(jar.connect(), 2).low_watermark == 2
    assert client.new_answers()[0].responses[0].partitions[0].error_code == 1


def init(client: JarClient, version: int = 4, transactional_id: str | None = None) -> InitProducerIdResponse:
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(transactional_id, 60_000))
    assert isinstance(answer, InitProducerIdResponse)
    return answer


def test_every_producer_gets_an_id_of_its_own_also_after_a_restart(jar: Jar, client: JarClient) -> None:
    ids = [init(client, version).producer_id for version in range(6)]
    assert ids == list(range(6))
    again = Jar(cluster=jar.cluster)
    assert init(again.connect()).producer_id == 1000
    again.close()


def test_the_next_block_of_ids_is_fetched_before_the_last_one_ends(jar: Jar, client: JarClient) -> None:
    for _ in range(900):
        assert init(client).error_code == 0
    jar.disk.delay_ms = 5
    calls = jar.disk.calls
    for _ in range(100):
        assert init(client).error_code == 0
    assert jar.disk.calls == calls + 1
    assert init(client).producer_id == 1000
    assert jar.disk.calls == calls + 1


def test_a_store_that_gives_no_ids_is_asked_again(
    jar: Jar, client: JarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(count: int) -> range:
        raise ClusterStoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(jar.cluster, "allocate_producer_ids", refuse)
        answer = init(client)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (14, -1, -1)
    assert init(client).error_code == 0

    def exhausted(count: int) -> range:
        raise OverflowError

    with monkeypatch.context() as patch:
        patch.setattr(jar.cluster, "allocate_producer_ids", exhausted)
        other = Jar(cluster=jar.cluster)
        assert init(other.connect()).error_code == -1
        other.close()


def test_the_producers_of_a_partition_are_known(jar: Jar, client: JarClient) -> None:
    fill(jar, a_batch(jar, producer_id=7, producer_epoch=2, count=3))
    request = DescribeProducersRequest([TopicRequest("t", [0, 1]), TopicRequest("nobody", [0])])
    response = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    served, missing = response.topics[0].partitions
    (producer,) = served.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 2)
    assert producer.current_txn_start_offset == -1
    assert missing.error_code == 3
    assert response.topics[1].partitions[0].error_code == 3
