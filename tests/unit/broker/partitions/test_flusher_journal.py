"""Rounds of the journal: one sync for many logs, one failure for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.closing import close_for_move
from klamm.broker.partitions.flush_order import FlushOrder
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.records.record import Record, encode_batch
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.simulated_disk import FailingOperation, Operation
from klamm.storage.log import LogError
from klamm.testing.requests import a_batch, a_produce

COUNT = 3


@pytest.fixture
def jar() -> Iterator[Jar]:
    """A broker with a topic whose partitions have been flushed once: their next flush is in the journal."""
    jar = Jar({"klamm.journal.file.bytes": "2000"}, disk_delay_ms=0)
    jar.create_topic("t", partitions=COUNT)
    client = jar.connect()
    produce(jar, client)
    jar.pass_ms(20)
    assert errors(client) == [0] * COUNT
    jar.disk.delay_ms = 10
    yield jar
    jar.close()


def produce(jar: Jar, client: JarClient, *numbers: int) -> None:
    client.send_bytes(
        b"".join(
            client.request(ApiKey.PRODUCE, 9, a_produce(jar, partition=number))
            for number in numbers or range(COUNT)
        )
    )


def errors(client: JarClient) -> list[int]:
    return [
        partition.error_code
        for answer in client.new_answers()
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def log_of(jar: Jar, number: int) -> SegmentLog:
    partition = jar.services.partitions.get("t", number)
    assert partition is not None
    assert isinstance(partition.log, SegmentLog)
    return partition.log


def syncs(jar: Jar) -> int:
    return jar.files.counters.by_operation["sync"]


def test_a_round_over_many_logs_is_one_sync(jar: Jar) -> None:
    client = jar.connect()
    before = syncs(jar)
    produce(jar, client)
    jar.pass_ms(20)
    assert errors(client) == [0] * COUNT
    assert syncs(jar) == before + 1
    assert jar.services.flusher.journal_rounds == 1


def test_what_comes_during_a_round_shares_the_next_one(jar: Jar) -> None:
    client = jar.connect()
    produce(jar, client, 0)
    jar.pass_ms(5)
    produce(jar, client)
    jar.pass_ms(6)
    assert errors(client) == [0]
    assert jar.services.flusher.journal_rounds == 2
    jar.pass_ms(10)
    assert errors(client) == [0] * COUNT


def test_a_round_that_fails_fails_for_all_and_the_next_one_succeeds(jar: Jar) -> None:
    client = jar.connect()
    produce(jar, client)
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(5)
    produce(jar, client, 0)  # behind the first, and cut off with it
    jar.pass_ms(30)
    assert errors(client) == [56] * (COUNT + 1)
    assert [log_of(jar, number).log_end_offset for number in range(COUNT)] == [1] * COUNT
    produce(jar, client)
    jar.pass_ms(30)
    assert errors(client) == [0] * COUNT


def test_nobody_is_told_of_a_failed_round_before_it_is_out_of_the_journal(jar: Jar) -> None:
    client = jar.connect()
    produce(jar, client, 0)
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(5)
    produce(jar, client, 1)
    jar.pass_ms(10)  # the round has failed, and a thread removes it
    assert errors(client) == []
    jar.pass_ms(6)
    assert errors(client) == [56]
    jar.pass_ms(10)
    assert errors(client) == [0]  # which had to wait for both


def test_the_journal_is_used_again_after_a_write_that_failed(jar: Jar) -> None:
    client = jar.connect()
    rounds = jar.services.flusher.journal_rounds
    jar.files.faults.append(FailingOperation("write", happens=lambda path: "journal" in path))
    produce(jar, client)
    jar.pass_ms(40)
    assert errors(client) == [0] * COUNT  # by their own files
    assert jar.services.flusher.journal_rounds == rounds
    produce(jar, client)
    jar.pass_ms(40)
    assert errors(client) == [0] * COUNT
    assert jar.services.flusher.journal_rounds == rounds + 1


def test_a_log_takes_appends_again_when_what_a_failed_write_left_is_gone(jar: Jar) -> None:
    client = jar.connect()
    batch = encode_batch([Record(0, jar.clock.timestamp_ms(), None, b"v")])
    jar.files.faults.append(FailingOperation("write"))

    def append() -> None:
        log_of(jar, 0).append(batch, jar.clock.now_ms(), jar.clock.timestamp_ms())

    for _ in range(2):
        with pytest.raises(LogError) as refused:
            append()
        assert refused.value.error_code is ErrorCode.kafka_storage_error
    jar.pass_ms(30)
    append()
    produce(jar, client)
    jar.pass_ms(30)
    assert errors(client) == [0] * COUNT


@pytest.mark.parametrize("operation", ["sync", "truncate"])
def test_logs_whose_failed_round_cannot_be_removed_from_the_journal_are_offline(
    jar: Jar, operation: Operation
) -> None:
    client = jar.connect()
    produce(jar, client, 0, 1)
    jar.files.faults += [FailingOperation("sync"), FailingOperation(operation)]
    jar.pass_ms(30)
    assert errors(client) == [56, 56]
    produce(jar, client)
    jar.pass_ms(30)
    assert errors(client) == [56, 56, 0]
    codes = [partition.error_code for partition in jar.services.partitions.of_topic("t")]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.kafka_storage_error, NO_ERROR]


def test_a_large_batch_is_flushed_in_its_own_file(jar: Jar) -> None:
    client = jar.connect()
    large = a_batch(jar, value=bytes(200_000))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", 0): large, ("t", 1): a_batch(jar)}))
    jar.pass_ms(20)
    assert errors(client) == [0, 0]
    assert [log_of(jar, number).recovery_point for number in range(2)] == [2, 1]


def test_segments_follow_when_a_file_of_the_journal_is_full(jar: Jar) -> None:
    client = jar.connect()
    for _ in range(60):
        produce(jar, client, 0, 1)
        jar.pass_ms(30)
    assert errors(client) == [0] * 120
    log = log_of(jar, 0)
    assert 1 < log.recovery_point <= log.high_watermark == 61
    assert len(jar.files.scan("/logs/journal")) == 2


def test_a_log_whose_segment_cannot_be_synced_keeps_what_was_acknowledged(jar: Jar) -> None:
    # Given a full file of the journal, which waits for the segments of partition 0
    client = jar.connect()
    store = jar.services.logs
    assert isinstance(store, SegmentStore)
    log = log_of(jar, 0)
    for _ in range(60):
        produce(jar, client, 0)
        jar.pass_ms(5)
        if store.journal.lagging():
            break
        jar.pass_ms(10)
    jar.pass_ms(6)
    count = log.high_watermark
    assert (set(errors(client)), log.recovery_point) == ({0}, 1)
    # When their sync fails
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(10)
    assert not jar.files.faults
    # Then nothing is lost, it is not repeated in a loop, and the next round makes up for it
    calls = jar.disk.calls
    jar.pass_ms(30)
    assert (log.recovery_point, log.high_watermark, jar.disk.calls) == (1, count, calls)
    produce(jar, client, 1)
    jar.pass_ms(30)
    assert (log.recovery_point, log.high_watermark) == (count, count)


# --- in order ------------------------------------------------------------------------------------------


def partitions(jar: Jar) -> list[Partition]:
    return list(jar.services.partitions.of_topic("t"))


def produce_in_order(
    jar: Jar, client: JarClient, size: int = 10, acks: int = -1, *, earlier_size: int = 10
) -> None:
    """Append to partition 0, and to partition 1 what comes after it."""
    earlier, later, _ = partitions(jar)
    first, batch = a_batch(jar, value=bytes(earlier_size)), a_batch(jar, value=bytes(size))

    async def in_one_turn() -> None:
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, first, partition=0))
        jar.services.flusher.put_after(later, earlier)
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, batch, partition=1, acks=acks))

    jar.loop.run(in_one_turn())


def test_what_comes_after_another_partition_shares_its_round(jar: Jar) -> None:
    client = jar.connect()
    before = syncs(jar)
    produce_in_order(jar, client)
    jar.pass_ms(11)
    assert errors(client) == [0, 0]
    assert syncs(jar) == before + 1
    assert not log_of(jar, 1).segments[-1].has_pending_writes


def test_what_is_too_large_for_the_round_waits_for_the_next_one(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, size=200_000)
    segment = log_of(jar, 1).segments[-1]
    flusher, (earlier, later, _) = jar.services.flusher, partitions(jar)
    jar.pass_ms(9)
    assert segment.written_bytes == segment.locate(1)
    assert flusher.can_put_after(earlier)
    assert not flusher.can_put_after(later)  # or it would wait for what is new then
    jar.pass_ms(2)
    assert errors(client) == [0]
    jar.pass_ms(10)
    assert errors(client) == [0]
    assert log_of(jar, 1).recovery_point == 2
    assert flusher.can_put_after(later)


def test_what_comes_after_a_batch_that_is_too_large_for_the_round_is_not_in_it_either(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, earlier_size=200_000)
    jar.pass_ms(11)
    assert errors(client) == [0]
    assert [log_of(jar, number).high_watermark for number in range(2)] == [2, 1]
    jar.pass_ms(10)
    assert errors(client) == [0]


def test_with_acks_1_the_response_waits_while_memory_has_the_only_copy(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, acks=1)
    jar.pass_ms(9)
    assert errors(client) == []
    jar.pass_ms(2)
    assert errors(client) == [0, 0]


def test_what_comes_after_a_lost_flush_is_lost_with_it(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, size=200_000)
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(40)
    assert errors(client) == [56, 56]
    assert [log_of(jar, number).log_end_offset for number in range(COUNT)] == [1] * COUNT
    produce_in_order(jar, client)
    jar.pass_ms(20)
    assert errors(client) == [0, 0]


def test_what_comes_after_an_offline_partition_is_removed(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, size=200_000)
    partitions(jar)[0].fail(ErrorCode.kafka_storage_error)
    jar.pass_ms(20)
    assert errors(client) == [56, 56]
    assert log_of(jar, 1).log_end_offset == 1
    produce(jar, client, 1)
    jar.pass_ms(20)
    assert errors(client) == [0]


def test_a_partition_that_moves_waits_for_what_comes_before(jar: Jar) -> None:
    client = jar.connect()
    produce_in_order(jar, client, size=200_000)
    log = log_of(jar, 1)
    jar.loop.run(close_for_move(jar.services, partitions(jar)[1]))
    jar.pass_ms(1)
    assert errors(client) == [0, 0]
    assert log.recovery_point == 2


def test_a_partition_that_moves_waits_for_the_round_under_way_without_looking_again_and_again(
    jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = jar.connect()
    produce(jar, client, 2)
    jar.pass_ms(2)
    produce_in_order(jar, client)
    looks = 0
    waits_for = FlushOrder.waits_for

    def count(self: FlushOrder, partition: Partition) -> object:
        nonlocal looks
        looks += 1
        assert looks < 100
        return waits_for(self, partition)

    monkeypatch.setattr(FlushOrder, "waits_for", count)
    jar.loop.run(close_for_move(jar.services, partitions(jar)[1]))
    jar.pass_ms(1)
    assert errors(client) == [0, 0, 0]
