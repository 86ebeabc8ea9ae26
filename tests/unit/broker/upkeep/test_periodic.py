"""What a broker does without being asked."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest

from internals.jar import Jar
from klamm.broker.partitions.registry import Partition
from klamm.broker.upkeep import periodic
from klamm.broker.upkeep.periodic import Chores, Every
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.segments.store import SegmentStore
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.storage.log import LogError, Work
from klamm.storage.topic_config import TopicConfig
from klamm.testing.requests import a_batch, a_produce
from klamm.testing.virtual_loop import VirtualLoop


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    yield jar
    jar.close()


def partition_of(jar: Jar, topic: str) -> Partition:
    partition = jar.services.partitions.get(topic, 0)
    assert partition is not None
    return partition


def fill(jar: Jar, topic: str, *batches: bytes) -> None:
    writer = jar.connect()
    for batch in batches:
        answer = writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic=topic))
        assert answer.responses[0].partition_responses[0].error_code == 0
    writer.close()
    jar.loop.settle()


def values(jar: Jar, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of all records of a topic."""
    log = partition_of(jar, topic).log
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, until_offset=log.log_end_offset, max_bytes=10**6, at_least_one=True)
        for position, header in iter_headers(data):
            if header.record_count:
                found += [(each.offset, each.key, each.value) for each in decode_records(data, position)]
            offset = header.next_offset
    return found


def test_old_segments_go_after_half_a_minute_and_then_every_five(jar: Jar) -> None:
    jar.create_topic("t", retention_ms=1000, segment_bytes=1024)
    fill(jar, "t", *(a_batch(jar, value=bytes(600)) for _ in range(3)))
    jar.pass_ms(20_000)
    assert partition_of(jar, "t").log.log_start_offset == 0
    jar.pass_ms(11_000)
    assert partition_of(jar, "t").log.log_start_offset == 3
    fill(jar, "t", a_batch(jar, value=bytes(600)))
    jar.pass_ms(290_000)
    assert partition_of(jar, "t").log.log_start_offset == 3
    jar.pass_ms(20_000)
    assert partition_of(jar, "t").log.log_start_offset == 4


def test_a_compacted_topic_is_cleaned_while_the_broker_serves(jar: Jar) -> None:
    jar.create_topic("c", cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    fill(
        jar,
        "c",
        *(
            a_batch(jar, key=key, value=b"%d" % number + bytes(400))
            for number, key in enumerate((b"a", b"b", b"a", b"a", b"b", b"c"))
        ),
    )
    assert [key for _, key, _ in values(jar, "c")] == [b"a", b"b", b"a", b"a", b"b", b"c"]
    jar.pass_ms(40_000)
    kept = values(jar, "c")
    assert {key: value[:1] for _, key, value in kept if value} == {b"a": b"3", b"b": b"4", b"c": b"5"}
    assert len(kept) < 6
    assert [offset for offset, _, _ in kept] == sorted(offset for offset, _, _ in kept)
    fill(jar, "c", a_batch(jar, key=b"a", value=b"new"))


def test_a_partition_whose_segments_cannot_be_replaced_is_offline_for_all_to_see(jar: Jar) -> None:
    jar.create_topic("c", cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    fill(jar, "c", *(a_batch(jar, key=b"a", value=bytes(600)) for _ in range(5)))
    jar.files.faults.append(FailingOperation("rename", happens=lambda path: path.endswith(names.SWAP_SUFFIX)))
    jar.pass_ms(40_000)
    assert partition_of(jar, "c").error_code is ErrorCode.kafka_storage_error


def test_cleaning_beyond_its_rate_pauses_with_the_sleep_that_was_handed_in() -> None:
    jar = Jar({"log.cleaner.io.max.bytes.per.second": "1024"})
    jar.create_topic("c", cleanup_policy="compact", segment_bytes=50_000, min_cleanable_dirty_ratio=0.01)
    fill(jar, "c", *(a_batch(jar, key=b"a", value=bytes(40_000)) for _ in range(4)))
    assert jar.slept_s == []
    jar.pass_ms(40_000)
    assert len(values(jar, "c")) < 4
    assert max(jar.slept_s) >= 60  # 64 KiB and more at 1 KiB a second
    jar.close()


def test_a_broker_without_a_cleaner_does_not_clean() -> None:
    jar = Jar({"log.cleaner.enable": "false"})
    jar.create_topic("c", cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    fill(jar, "c", *(a_batch(jar, key=b"a", value=bytes(600)) for _ in range(5)))
    jar.pass_ms(60_000)
    assert len(values(jar, "c")) == 5
    jar.close()


def test_silent_producers_are_forgotten() -> None:
    jar = Jar({"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": "10000"})
    jar.create_topic("t")
    fill(jar, "t", a_batch(jar, producer_id=7))
    jar.pass_ms(59_000)
    assert len(partition_of(jar, "t").transactions.producers()) == 1
    jar.pass_ms(12_000)
    assert partition_of(jar, "t").transactions.producers() == []
    jar.close()


def test_checkpoints_are_written_every_minute(jar: Jar) -> None:
    jar.create_topic("t")
    fill(jar, "t", a_batch(jar))
    path = f"/logs/t-0/{names.PARTITION_CHECKPOINT}"
    assert b"recovery_point: 1\n" not in jar.files.read_file(path)
    jar.pass_ms(61_000)
    assert b"recovery_point: 1\n" in jar.files.read_file(path)


def test_what_is_only_in_the_journal_is_synced_before_the_next_checkpoint(jar: Jar) -> None:
    jar.create_topic("t")
    fill(jar, "t", a_batch(jar))
    fill(jar, "t", a_batch(jar))
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    assert isinstance(partition.log, SegmentLog)
    assert (partition.log.recovery_point, partition.log.high_watermark) == (1, 2)
    jar.pass_ms(61_000)
    assert partition.log.recovery_point == 2
    jar.pass_ms(61_000)
    path = f"/logs/t-0/{names.PARTITION_CHECKPOINT}"
    assert b"recovery_point: 2\n" in jar.files.read_file(path)


def test_the_files_of_a_deleted_topic_go_after_their_delay(jar: Jar) -> None:
    jar.create_topic("t", file_delete_delay_ms=5000)
    fill(jar, "t", a_batch(jar))
    jar.delete_topic("t")
    assert [entry.name for entry in jar.files.scan("/logs") if entry.name.endswith("-delete")]
    jar.pass_ms(7000)
    assert not [entry.name for entry in jar.files.scan("/logs") if entry.name.endswith("-delete")]


def test_a_chore_that_fails_is_done_again() -> None:
    loop = VirtualLoop(ManualClock())
    runs: list[float] = []

    async def chore() -> None:
        runs.append(loop.time())
        if len(runs) == 1:
            raise RuntimeError("on purpose")

    every = Every(loop, "the chore", lambda: 100, chore, first_after_ms=10)
    loop.pass_ms(215)
    assert [round(run * 1000) for run in runs] == [10, 110, 210]
    loop.run(every.stop())
    loop.pass_ms(1000)
    assert len(runs) == 3
    loop.close()


def test_stopping_waits_for_the_chore_that_is_under_way() -> None:
    loop = VirtualLoop(ManualClock())
    ended: list[bool] = []
    begun = loop.create_future()

    async def chore() -> None:
        loop.call_later(1, begun.set_result, None)
        await begun
        ended.append(True)

    every = Every(loop, "the chore", lambda: 10, chore)
    loop.pass_ms(20)
    assert not ended
    loop.run(every.stop())
    assert ended == [True]
    loop.close()


def test_checkpoints_and_the_removal_of_files_keep_nobody_waiting(jar: Jar) -> None:
    jar.create_topic("t", file_delete_delay_ms=0)
    jar.create_topic("gone", file_delete_delay_ms=0)
    jar.delete_topic("gone")
    jar.disk.delay_ms = 10_000_000
    jar.pass_ms(120_000)  # both have begun, and the disk takes its time
    jar.disk.delay_ms = 0
    fill(jar, "t", a_batch(jar))


def test_checkpoints_know_nothing_of_a_topic_when_its_deletion_is_answered(jar: Jar) -> None:
    jar.create_topic("t")
    fill(jar, "t", a_batch(jar))
    jar.pass_ms(61_000)
    assert b"recovery_point: 1\n" in jar.files.read_file(f"/logs/t-0/{names.PARTITION_CHECKPOINT}")
    jar.delete_topic("t")
    assert not jar.files.exists("/logs/t-0")
    assert jar.files.read_file(f"/logs/{names.RECOVERY_POINT_CHECKPOINT}") == b"0\n0\n"


@pytest.mark.parametrize(
    ("chore", "looks"),
    [(Chores.delete_old_segments, "delete_old_segments"), (Chores.expire_producers, "expire_producers")],
)
def test_requests_have_their_turn_while_a_chore_looks_at_many_partitions(
    jar: Jar,
    monkeypatch: pytest.MonkeyPatch,
    chore: Callable[[Chores], Coroutine[Any, Any, None] | None],
    looks: str,
) -> None:
    jar.create_topic("t", partitions=6)
    monkeypatch.setattr(periodic, "AT_ONCE", 2)
    looked_at: list[int] = []
    monkeypatch.setattr(SegmentLog, looks, lambda log, *_: looked_at.append(log.partition))
    rest = chore(Chores(jar.services))
    assert rest is not None
    assert looked_at == [0, 1]
    rest.send(None)  # until it lets requests have their turn
    rest.send(None)
    assert looked_at == [0, 1, 2, 3]
    # One that has gone by then is not looked at.
    gone = jar.services.partitions.get("t", 4)
    assert gone is not None
    gone.fail(ErrorCode.not_leader_or_follower)
    with pytest.raises(StopIteration):
        rest.send(None)
    assert looked_at == [0, 1, 2, 3, 5]


def test_checkpoints_of_many_partitions_are_prepared_in_several_turns(
    jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar.create_topic("t", partitions=5)
    fill(jar, "t", a_batch(jar))
    monkeypatch.setattr(periodic, "AT_ONCE", 2)
    start = SegmentStore.start_checkpoint
    prepared: list[list[int]] = []

    def watched(store: SegmentStore, places: Iterable[TopicPartition]) -> Work:
        chosen = list(places)
        prepared.append([place.partition for place in chosen])
        if len(prepared) == 1:
            return fails
        return start(store, chosen)

    def fails() -> None:
        raise LogError(ErrorCode.kafka_storage_error, "the disk failed")

    monkeypatch.setattr(SegmentStore, "start_checkpoint", watched)
    jar.pass_ms(61_000)
    assert prepared == [[0, 1], [2, 3], [4]]  # a failure is that of its logs
    jar.pass_ms(60_000)
    assert b"recovery_point: 1\n" in jar.files.read_file(f"/logs/t-0/{names.PARTITION_CHECKPOINT}")


def test_each_second_looks_only_at_logs_that_are_flushed_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    jar = Jar({"klamm.flush": "os"})
    for number in range(20):
        jar.create_topic(f"t{number}")
    jar.create_topic("timed", flush_ms=5000)
    jar.create_topic("gone", flush_ms=5000)
    jar.delete_topic("gone")
    looked_at: list[str] = []
    is_due = SegmentLog.sync_is_due

    def watched(log: SegmentLog, now_ms: int) -> bool:
        looked_at.append(log.topic)
        return is_due(log, now_ms)

    monkeypatch.setattr(SegmentLog, "sync_is_due", watched)
    jar.pass_ms(3500)
    assert looked_at == ["timed"] * 3
    # A topic that gets the setting is looked at from then on, one that loses it is not.
    registry = jar.services.partitions
    registry.reconfigure("t7", TopicConfig(flush_ms=1000))
    registry.reconfigure("timed", TopicConfig())
    looked_at.clear()
    jar.pass_ms(1000)
    assert looked_at == ["t7"]
    jar.close()


def test_chores_that_share_a_beginning_share_their_instants() -> None:
    """The fewer instants at which something is due, the faster a virtual clock passes a day."""
    clock = ManualClock()
    loop = VirtualLoop(clock)
    ran: list[tuple[str, int]] = []

    def chore(name: str) -> None:
        ran.append((name, clock.now_ms()))

    since_s = loop.time()
    loop.pass_ms(7)  # they are made one after the other
    chores = [
        Every(loop, "often", lambda: 100, lambda: chore("often"), since_s=since_s),
        Every(loop, "early", lambda: 100, lambda: chore("early"), first_after_ms=30, since_s=since_s),
        Every(loop, "rarely", lambda: 300, lambda: chore("rarely"), since_s=since_s),
    ]
    loop.pass_ms(400)
    for each in chores:
        loop.run(each.stop())
    loop.close()
    assert sorted({at_ms for _, at_ms in ran}) == [37, 100, 200, 300, 400]
    assert [at_ms for name, at_ms in ran if name == "rarely"] == [300]
    assert [at_ms for name, at_ms in ran if name == "early"] == [37, 100, 200, 300, 400]
