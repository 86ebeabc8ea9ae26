"""WriteTxnMarkers: what a marker does to its partition, which ones are refused, and when the answer comes.

Numbers in parentheses are those of the scenarios in the specification of transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from internals.jar import Jar, JarClient
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import OffsetPended
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import TimestampType, crc_is_valid, parse_header
from klamm.records.layout import OffsetCommitValue
from klamm.records.markers import decode_marker
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.storage.log import AppendOrigin, EngineLog
from klamm.testing.requests import a_batch

PRODUCER = 4001


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"offsets.topic.num.partitions": "1"})
    jar.create_topic("t", partitions=2)
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def log_of(jar: Jar, topic: str = "t", partition: int = 0) -> EngineLog:
    found = jar.services.partitions.get(topic, partition)
    assert found is not None
    return cast(EngineLog, found.log)


def open_transaction(
    jar: Jar, *, topic: str = "t", partition: int = 0, producer_id: int = PRODUCER, epoch: int = 0
) -> None:
    """Three records of a transaction, as if they had been verified."""
    batch = a_batch(
        jar, count=3, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    log = log_of(jar, topic, partition)
    log.append(batch, now_ms=jar.clock.now_ms(), timestamp_ms=jar.clock.timestamp_ms())
    found = jar.services.partitions.get(topic, partition)
    assert found is not None
    jar.services.flusher.mark(found)
    jar.loop.settle()


def a_marker(
    *partitions: int,
    topic: str = "t",
    producer_id: int = PRODUCER,
    epoch: int = 0,
    commits: bool = True,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic(topic, partitions or (0,))]
    return WritableTxnMarker(producer_id, epoch, commits, topics, coordinator_epoch, version)


def codes(response: WriteTxnMarkersResponse) -> dict[int, dict[tuple[str, int], int]]:
    return {
        marker.producer_id: {
            (topic.name, partition.partition_index): partition.error_code
            for topic in marker.topics
            for partition in topic.partitions
        }
        for marker in response.markers
    }


def write(client: JarClient, *markers: WritableTxnMarker, version: int = 2) -> dict[tuple[str, int], int]:
    """The results of markers of one producer."""
    found = codes(client.ask(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers)))
    assert len(found) == 1, found
    return next(iter(found.values()))


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_ends_the_transaction_and_frees_the_readers(
    jar: Jar, client: JarClient, commits: bool
) -> None:
    # (65, 66) Given an open transaction that holds the last stable offset
    open_transaction(jar)
    log = log_of(jar)
    assert log.last_stable_offset == 0
    # When its marker is written
    assert write(client, a_marker(commits=commits, coordinator_epoch=7)) == {("t", 0): 0}
    # Then it is a control batch of one record after the data, and the stable offset passes it
    stored = log.read(3, until_offset=4, max_bytes=1000, at_least_one=True)
    header, marker = parse_header(stored), decode_marker(stored)
    assert marker is not None
    assert (len(stored), header.base_offset, header.base_sequence, header.attributes) == (78, 3, -1, 0x30)
    assert (header.producer_id, header.producer_epoch) == (PRODUCER, 0)
    assert (marker.is_commit, marker.coordinator_epoch) == (commits, 7)
    assert crc_is_valid(stored, 0, header)
    assert log.last_stable_offset == 4
    aborted = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, 4)]
    assert aborted == ([] if commits else [(PRODUCER, 0)])


def test_two_markers_of_two_producers_in_one_request_are_both_written(jar: Jar, client: JarClient) -> None:
    # (99)
    open_transaction(jar)
    open_transaction(jar, partition=1, producer_id=4002)
    request = WriteTxnMarkersRequest([a_marker(), a_marker(1, producer_id=4002, commits=False)])
    found = codes(client.ask(ApiKey.WRITE_TXN_MARKERS, 1, request))
    assert found == {PRODUCER: {("t", 0): 0}, 4002: {("t", 1): 0}}
    assert [log_of(jar, partition=index).last_stable_offset for index in (0, 1)] == [4, 4]


def test_a_marker_for_a_partition_that_is_unknown_or_led_elsewhere_is_refused(
    jar: Jar, client: JarClient
) -> None:
    # (98)
    assert write(client, a_marker(0, 9)) == {
        ("t", 0): 0,
        ("t", 9): ErrorCode.unknown_topic_or_partition,
    }
    assert write(client, a_marker(topic="nope")) == {("nope", 0): ErrorCode.unknown_topic_or_partition}
    jar.services.partitions._topics["t"].pop(1)  # led by another broker, as far as this one knows
    assert write(client, a_marker(1)) == {("t", 1): ErrorCode.not_leader_or_follower}


def test_a_late_marker_of_an_old_coordinator_is_fenced(jar: Jar, client: JarClient) -> None:
    # (86) Given a partition that has a marker of coordinator epoch 7
    open_transaction(jar)
    assert write(client, a_marker(coordinator_epoch=7)) == {("t", 0): 0}
    # When one comes from epoch 6, then nothing is written; an equal epoch is a harmless repeat
    assert write(client, a_marker(coordinator_epoch=6)) == {
        ("t", 0): ErrorCode.transaction_coordinator_fenced
    }
    assert log_of(jar).log_end_offset == 4
    assert write(client, a_marker(coordinator_epoch=7)) == {("t", 0): 0}
    assert log_of(jar).log_end_offset == 5


def test_a_marker_of_an_older_producer_epoch_is_refused(jar: Jar, client: JarClient) -> None:
    open_transaction(jar, epoch=3)
    assert write(client, a_marker(epoch=2)) == {("t", 0): ErrorCode.invalid_producer_epoch}
    assert log_of(jar).log_end_offset == 3


def test_a_marker_that_bumps_the_epoch_must_be_above_that_of_an_open_transaction(
    jar: Jar, client: JarClient
) -> None:
    # transaction.version 2: a marker with the epoch of the records is one of an earlier transaction, late
    open_transaction(jar, epoch=3)
    assert write(client, a_marker(epoch=3, version=2)) == {("t", 0): ErrorCode.invalid_producer_epoch}
    assert write(client, a_marker(epoch=4, version=2)) == {("t", 0): 0}
    # With nothing open, the same one again is a repeat
    assert write(client, a_marker(epoch=4, version=2)) == {("t", 0): 0}
    (status,) = log_of(jar).producers()
    assert (status.producer_epoch, status.last_sequence, status.current_txn_start_offset) == (4, -1, -1)


def test_a_marker_without_a_producer_is_an_error_of_the_server_and_writes_nothing(
    jar: Jar, client: JarClient
) -> None:
    for marker in (a_marker(producer_id=-1), a_marker(epoch=-1)):
        assert write(client, marker) == {("t", 0): ErrorCode.unknown_server_error}
    assert log_of(jar).log_end_offset == 0


def test_such_a_marker_fails_the_request_but_not_what_is_written_by_then(jar: Jar, client: JarClient) -> None:
    markers = [a_marker(), a_marker(producer_id=8), a_marker(1, producer_id=8, epoch=-1), a_marker(1)]
    response = client.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest(markers))
    assert codes(response) == {PRODUCER: {("t", 1): -1}, 8: {("t", 1): -1}}  # the last marker of each
    assert log_of(jar).log_end_offset == 2


def test_the_failure_names_markers_for_no_partition_too(client: JarClient) -> None:
    markers = [a_marker(epoch=-1), WritableTxnMarker(8, 0, True, [])]
    response = client.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest(markers))
    assert codes(response) == {PRODUCER: {("t", 0): -1}, 8: {}}


def test_such_a_marker_for_a_partition_that_is_not_there_is_only_that(client: JarClient) -> None:
    missing = ErrorCode.unknown_topic_or_partition
    assert write(client, a_marker(77, epoch=-1)) == {("t", 77): missing}


def test_a_marker_below_any_epoch_is_fenced(jar: Jar, client: JarClient) -> None:
    assert write(client, a_marker(epoch=-2)) == {("t", 0): ErrorCode.invalid_producer_epoch}
    fenced = ErrorCode.transaction_coordinator_fenced
    assert write(client, a_marker(coordinator_epoch=-2)) == {("t", 0): fenced}
    assert write(client, a_marker(producer_id=-2, epoch=-2)) == {
        ("t", 0): 0
    }  # nothing is known of such a one
    assert log_of(jar).log_end_offset == 1


def test_a_marker_of_an_unknown_transaction_version_is_an_error_of_the_server(
    jar: Jar, client: JarClient
) -> None:
    open_transaction(jar)
    expected = {("t", 0): ErrorCode.unknown_server_error, ("t", 7): ErrorCode.unknown_topic_or_partition}
    assert write(client, a_marker(0, 7, version=-1)) == expected
    assert log_of(jar).last_stable_offset == 0
    assert write(client, a_marker(0, version=-2)) == {("t", 0): 0}, "as any version below 2"


def test_a_marker_of_an_unknown_transaction_version_and_a_stale_epoch_is_fenced(client: JarClient) -> None:
    assert write(client, a_marker(epoch=6)) == {("t", 0): 0}
    for epoch, expected in (
        (5, ErrorCode.invalid_producer_epoch),
        (-2, ErrorCode.invalid_producer_epoch),
        (-1, ErrorCode.unknown_server_error),
        (6, ErrorCode.unknown_server_error),
        (7, ErrorCode.unknown_server_error),
    ):
        assert write(client, a_marker(epoch=epoch, version=-1)) == {("t", 0): expected}, epoch
    unknown = a_marker(producer_id=8, epoch=-2, version=-1)
    response = client.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest([unknown]))
    assert codes(response) == {8: {("t", 0): ErrorCode.unknown_server_error}}


def test_a_marker_for_no_partition_is_not_in_the_answer(client: JarClient) -> None:
    marker = WritableTxnMarker(PRODUCER, 0, True, [])
    assert codes(client.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))) == {}


def test_a_partition_that_is_named_twice_gets_one_marker(jar: Jar, client: JarClient) -> None:
    assert write(client, a_marker(0, 0)) == {("t", 0): 0}
    assert log_of(jar).log_end_offset == 1


def test_the_answer_waits_for_the_disk(jar: Jar, client: JarClient) -> None:
    open_transaction(jar)
    jar.disk.delay_ms = 5
    client.send(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([a_marker(0, 1)]))
    jar.loop.settle()
    # (71) The marker is in the log, but not below the high watermark: readers do not see its effect
    log = log_of(jar)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (4, 3, 0)
    assert client.new_answers() == []
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    assert codes(answer) == {PRODUCER: {("t", 0): 0, ("t", 1): 0}}
    assert log.last_stable_offset == 4


def test_a_marker_that_the_disk_refuses_leaves_the_transaction_open(jar: Jar, client: JarClient) -> None:
    open_transaction(jar)
    jar.files.faults.append(FailingOperation("sync"))
    assert write(client, a_marker()) == {("t", 0): ErrorCode.kafka_storage_error}
    log = log_of(jar)
    assert (log.log_end_offset, log.last_stable_offset) == (3, 0)
    # The coordinator tries again
    assert write(client, a_marker()) == {("t", 0): 0}
    assert log.last_stable_offset == 4


def test_a_marker_on_a_topic_with_append_time_says_when_it_was_appended(jar: Jar, client: JarClient) -> None:
    jar.create_topic("stamped", message_timestamp_type="LogAppendTime")
    timestamp_ms = jar.clock.timestamp_ms()
    assert write(client, a_marker(topic="stamped")) == {("stamped", 0): 0}
    stored = log_of(jar, "stamped").read(0, until_offset=1, max_bytes=1000, at_least_one=True)
    header = parse_header(stored)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp_ms == timestamp_ms
    assert crc_is_valid(stored, 0, header)


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_in_consumer_offsets_decides_the_pending_offsets(
    jar: Jar, client: JarClient, commits: bool
) -> None:
    # (75) Given a group's offset 50, pending in a transaction of this producer
    jar.services.groups.topic.create()
    jar.loop.settle()
    groups = jar.services.groups
    (shard,) = groups.shards
    pended = OffsetPended("g", "t", 0, OffsetCommitValue(50, -1, "", 0, -1, ZERO_ID), PRODUCER, 0)
    partition = jar.services.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    result = partition.log.append(
        encode_records([pended], jar.clock.timestamp_ms()),
        now_ms=jar.clock.now_ms(),
        timestamp_ms=jar.clock.timestamp_ms(),
        origin=AppendOrigin.COORDINATOR,
    )
    shard.on_written_by_others(pended, result.base_offset)
    jar.services.flusher.mark(partition)
    jar.loop.settle()
    assert fetched(client) == -1
    # When the marker is written by a client that knows nothing of groups
    assert write(client, a_marker(topic="__consumer_offsets", commits=commits)) == {
        ("__consumer_offsets", 0): 0
    }
    # Then the offset is there, or it is not and never will be
    assert fetched(client) == (50 if commits else -1)


def fetched(client: JarClient) -> int:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[topic])])
    response = client.ask(ApiKey.OFFSET_FETCH, 8, request)
    offset: int = response.groups[0].topics[0].partitions[0].committed_offset
    return offset
