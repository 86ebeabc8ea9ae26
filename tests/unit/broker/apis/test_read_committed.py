"""What readers see of transactions, from Produce over markers to Fetch, ListOffsets and a restart.

Numbers in parentheses are those of the scenarios in the specification of transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from internals.jar import Jar
from internals.transactions import SmallCoordinator
from klamm.broker.partitions.markers import TransactionMarker
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.fetch import PartitionData
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers
from klamm.records.committed import visible_batches
from klamm.records.record import decode_records
from klamm.storage.log import EngineLog
from klamm.testing.requests import a_batch, a_fetch, a_produce

A, B = 4001, 4002
T0 = TopicPartition("t", 0)
MIB = 1024 * 1024


class World:
    """One topic, its writers and readers, and the records that a reader is given."""

    def __init__(self, jar: Jar) -> None:
        self.jar = jar
        self.coordinator = jar.services.verifier = SmallCoordinator()
        self.sequences = {A: 0, B: 0}

    def write(self, producer_id: int | None = None, *values: bytes) -> None:
        """One batch with these values, in a transaction of the producer or, without one, outside any."""
        options: dict[str, Any] = {}
        if producer_id is not None:
            self.coordinator.begin(str(producer_id), producer_id, 0, T0)
            options = {"producer_id": producer_id, "transactional": True}
            options["base_sequence"] = self.sequences[producer_id]
            self.sequences[producer_id] += 1
        for value in values:
            batch = a_batch(self.jar, value=value, **options)
            request = a_produce(
                self.jar, batch, transactional_id=None if producer_id is None else str(producer_id)
            )
            answer = self.jar.connect().ask(ApiKey.PRODUCE, 11, request)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
            if producer_id is not None and value is not values[-1]:
                options["base_sequence"] = self.sequences[producer_id]
                self.sequences[producer_id] += 1

    def end(self, producer_id: int, *, commits: bool) -> None:
        written = self.jar.services.markers.write(TransactionMarker(producer_id, 0, commits, 0), [T0])
        self.jar.loop.settle()
        assert written.response == {T0: 0}

    def fetch(self, offset: int = 0, *, committed: bool = True, **options: Any) -> PartitionData:
        request = a_fetch(self.jar, offset=offset, isolation_level=int(committed), **options)
        data: PartitionData = self.jar.connect().ask(ApiKey.FETCH, 12, request).responses[0].partitions[0]
        return data

    def read(self, offset: int = 0, *, committed: bool = True) -> tuple[list[bytes | None], int]:
        """(values that a client hands out, its position afterwards), from an offset to the end."""
        values: list[bytes | None] = []
        while True:
            data = self.fetch(offset, committed=committed)
            assert data.error_code == 0
            if not data.records:
                return values, offset
            aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
            for position, _ in visible_batches(data.records, first_offset=offset, aborted=aborted):
                records = decode_records(data.records, position)
                values += [each.value for each in records if each.offset >= offset]
            offset = max(header.next_offset for _, header in iter_headers(data.records))

    def latest(self, *, committed: bool) -> int:
        topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])
        request = ListOffsetsRequest(-1, int(committed), [topic])
        answer = self.jar.connect().ask(ApiKey.LIST_OFFSETS, 5, request)
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    @property
    def log(self) -> EngineLog:
        found = self.jar.services.partitions.get("t", 0)
        assert found is not None
        return cast(EngineLog, found.log)


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def world(jar: Jar) -> World:
    return World(jar)


def a_world() -> World:
    """One whose broker does not outlive the test's crash."""
    jar = Jar()
    jar.create_topic("t")
    return World(jar)


def restarted(world: World, *, is_clean: bool) -> World:
    jar = world.jar
    if is_clean:
        jar.close()
    else:
        jar.files.crash()
    again = World(Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster))
    again.sequences = world.sequences
    return again


def test_an_open_transaction_is_seen_only_by_those_that_read_uncommitted(world: World) -> None:
    # (64, 73)
    world.write(None, b"before")
    world.write(A, b"1", b"2", b"3")
    assert world.read() == ([b"before"], 1)
    assert world.read(committed=False) == ([b"before", b"1", b"2", b"3"], 4)
    assert world.fetch().last_stable_offset == world.latest(committed=True) == 1
    assert world.latest(committed=False) == 4


def test_a_committed_transaction_is_seen_and_its_marker_is_not(world: World) -> None:
    # (65)
    world.write(A, b"1", b"2", b"3")
    world.end(A, commits=True)
    assert world.read() == world.read(committed=False) == ([b"1", b"2", b"3"], 4)
    assert world.fetch().aborted_transactions == []


def test_an_aborted_transaction_is_seen_only_by_those_that_read_uncommitted(world: World) -> None:
    # (66)
    world.write(A, b"1", b"2", b"3")
    world.end(A, commits=False)
    assert world.read() == ([], 4)
    aborted = world.fetch().aborted_transactions
    assert aborted is not None
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(A, 0)]
    assert world.read(committed=False) == ([b"1", b"2", b"3"], 4)
    assert world.fetch(committed=False).aborted_transactions is None


def test_what_others_wrote_above_an_open_transaction_is_held_back_too(world: World) -> None:
    # (67)
    world.write(A, b"a1")
    world.write(B, b"b1")
    world.write(A, b"a2")
    world.write(None, b"plain")
    world.end(A, commits=True)
    assert world.read() == ([b"a1"], 1)
    world.end(B, commits=True)
    assert world.read() == ([b"a1", b"b1", b"a2", b"plain"], 6)


def test_of_two_interleaved_transactions_only_the_committed_one_is_seen(world: World) -> None:
    # (68)
    for number in (b"1", b"2"):
        world.write(A, b"a" + number)
        world.write(B, b"b" + number)
    world.end(A, commits=False)
    world.end(B, commits=True)
    assert world.read() == ([b"b1", b"b2"], 6)


def test_a_reader_that_begins_inside_an_aborted_transaction_is_told_of_it(world: World) -> None:
    # (69)
    world.write(A, b"1", b"2", b"3")
    world.end(A, commits=False)
    world.write(None, b"after")
    aborted = world.fetch(2).aborted_transactions
    assert aborted is not None
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(A, 0)]
    assert world.read(2) == ([b"after"], 5)


def test_an_abort_in_a_later_segment_is_found_by_a_reader_of_an_earlier_one(jar: Jar) -> None:
    # (70) Given a transaction over three segments, aborted in the last
    jar.delete_topic("t")
    jar.create_topic("t", segment_bytes=MIB)
    world = World(jar)
    for _ in range(5):
        world.write(A, bytes(600_000))
    assert world.log.segment_count >= 3
    world.end(A, commits=False)
    world.write(None, b"after")
    # When the first segment is read, then its records are known to be aborted
    aborted = world.fetch(0).aborted_transactions
    assert aborted is not None
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(A, 0)]
    assert world.read() == ([b"after"], 7)


def test_a_marker_wakes_a_reader_that_waits(world: World) -> None:
    # (72)
    world.write(A, b"1")
    client = world.jar.connect()
    client.send(ApiKey.FETCH, 12, a_fetch(world.jar, isolation_level=1, max_wait_ms=60_000))
    world.jar.pass_ms(1_000)
    assert client.new_answers() == []
    world.end(A, commits=True)
    assert len(client.new_answers()) == 1


def test_a_marker_for_a_deleted_topic_finds_no_partition(world: World) -> None:
    # (88)
    world.write(A, b"1")
    world.jar.delete_topic("t")
    written = world.jar.services.markers.write(TransactionMarker(A, 0, True, 0), [T0])
    assert written.response == {T0: ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_open_transaction_holds_readers_back_after_a_restart(is_clean: bool) -> None:
    # (89)
    world = a_world()
    world.write(None, b"before")
    world.write(A, b"1")
    again = restarted(world, is_clean=is_clean)
    assert again.read() == ([b"before"], 1)
    # It goes on where it was: nothing is verified again, and its end frees the readers
    again.write(A, b"2")
    assert again.coordinator.asked == []
    again.end(A, commits=True)
    assert again.read() == ([b"before", b"1", b"2"], 4)
    again.jar.close()


@pytest.mark.parametrize("commits", [True, False])
def test_what_a_marker_decided_stays_decided_after_a_crash(commits: bool) -> None:
    # (90) The marker is durable, the index of aborted transactions is not written yet
    world = a_world()
    world.write(A, b"1")
    world.end(A, commits=commits)
    world.write(None, b"after")
    again = restarted(world, is_clean=False)
    assert again.read() == ([b"1", b"after"] if commits else [b"after"], 3)
    again.jar.close()


def test_deleting_records_past_the_start_of_an_open_transaction_holds_nobody_up(world: World) -> None:
    # (94)
    world.write(A, b"1", b"2", b"3")
    topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])
    answer = world.jar.connect().ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([topic], 30_000))
    assert answer.topics[0].partitions[0].error_code == 0
    data = world.fetch(2)
    assert (data.error_code, data.last_stable_offset, data.log_start_offset, data.records) == (0, 2, 2, b"")
    assert world.fetch(0).error_code == ErrorCode.offset_out_of_range
    world.end(A, commits=True)
    assert world.read(2) == ([b"3"], 4)


def test_producers_are_described_with_what_their_last_marker_left(world: World) -> None:
    # L7: after a marker of transactions v1 the sequence goes on, after one of v2 it begins anew
    def described() -> list[tuple[int, int, int, int, int]]:
        request = DescribeProducersRequest([TopicRequest("t", [0])])
        answer = world.jar.connect().ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
        return [
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in answer.topics[0].partitions[0].active_producers
        ]

    world.write(None, b"before")
    world.write(A, b"1", b"2")
    assert described() == [(A, 0, 1, -1, 1)]
    world.end(A, commits=True)
    assert described() == [(A, 0, 1, 0, -1)]
    world.jar.services.markers.write(TransactionMarker(A, 1, True, 0, bumps_epoch=True), [T0])
    assert described() == [(A, 1, -1, 0, -1)]


def test_a_transaction_that_its_producer_left_open_is_found_and_ended_by_an_administrator(
    world: World,
) -> None:
    """What `kafka-transactions abort` does: DescribeProducers, then a marker with what was found."""
    world.write(A, b"1")
    world.write(None, b"behind it")
    (status,) = world.log.producers()
    assert status.current_txn_start_offset == 0
    world.jar.services.markers.write(
        TransactionMarker(A, status.producer_epoch, False, max(0, status.coordinator_epoch)), [T0]
    )
    world.jar.loop.settle()
    assert world.read() == ([b"behind it"], 3)
