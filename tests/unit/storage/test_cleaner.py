"""Compaction of whole logs: what a reader finds afterwards, and when a pass runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.batch import parse_header, reseal
from klamm.records.compression import Codec
from klamm.records.record import Record, encode_batch
from klamm.storage.engines.segments import cleaner, names
from klamm.storage.engines.segments.cleaner import CleanerSettings, Throttle
from klamm.storage.engines.segments.cleaning_plan import Dirtiness, measure
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.storage.log import LogError, MustLoadError
from klamm.storage.topic_config import TopicConfig
from unit.storage.cleaning_world import ALWAYS, COMPACT, World

DAY_MS = 86_400_000


def test_only_the_last_value_of_a_key_stays_at_its_offset() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.append((b"k", b"2"))
    world.roll()
    end_offset = world.log.log_end_offset
    report = world.clean()
    assert report is not None
    assert (report.first_dirty_offset, report.end_offset, report.keys, report.reason) == (0, 2, 1, "")
    assert world.pairs() == [(1, b"k", b"2")]
    assert (world.log.log_start_offset, world.log.log_end_offset) == (0, end_offset)
    assert world.clean() is None


def test_the_last_batch_of_a_pass_leaves_its_header_at_least() -> None:
    world = World()
    world.append((b"a", b"1"))
    world.append((None, b"2"), (None, b"3"))
    world.roll()
    world.clean()
    (_, _), (header, batch) = world.batches()
    assert (header.base_offset, header.last_offset, header.record_count, len(batch)) == (1, 2, 0, 61)
    assert header.base_timestamp_ms == -1
    # It goes once something follows it.
    world.append((b"b", b"4"))
    world.roll()
    world.clean()
    assert [header.base_offset for header, _ in world.batches()] == [0, 3]


def test_the_active_segment_is_left_alone() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.append((b"k", b"2"))
    assert world.clean() is None
    world.roll()
    world.append((b"k", b"3"))
    world.clean()
    # What is in the active segment supersedes nothing yet.
    assert world.pairs() == [(1, b"k", b"2"), (2, b"k", b"3")]


def test_a_log_that_is_half_dirty_is_not_dirty_enough() -> None:
    world = World(replace(ALWAYS, min_cleanable_dirty_ratio=0.5))
    world.append((b"a", b"1"))
    world.roll()
    assert world.clean() is not None
    world.append((b"b", b"1"))
    world.roll()
    assert world.clean() is None
    world.append((b"c", b"1"))
    world.roll()
    report = world.clean()
    assert report is not None
    assert report.dirty_ratio == pytest.approx(2 / 3)


def test_a_log_without_the_policy_is_left_alone() -> None:
    world = World(TopicConfig(min_cleanable_dirty_ratio=0.0))
    world.append((b"k", b"1"))
    world.roll()
    assert world.clean() is None


def test_a_tombstone_stays_for_a_day_and_then_goes() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.append((b"k", None))
    world.append((b"other", b"1"))
    world.roll()
    world.clean()
    assert world.pairs() == [(1, b"k", None), (2, b"other", b"1")]
    for ago_ms, expected in ((DAY_MS - 1, [1, 2, 3]), (1, [2, 3, 4])):
        world.clock.advance(ago_ms)
        world.append((b"more%d" % ago_ms, b"1"))
        world.roll()
        world.clean()
        assert [offset for offset, _, _ in world.pairs()][: len(expected)] == expected


def test_a_superseded_record_in_a_batch_leaves_its_ends() -> None:
    world = World()
    world.append((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), codec=Codec.LZ4)
    world.append((b"b", b"4"))
    world.roll()
    world.clean()
    (header, _), _ = world.batches()
    assert (header.base_offset, header.last_offset, header.record_count, header.codec) == (0, 2, 2, Codec.LZ4)
    assert world.pairs() == [(0, b"a", b"1"), (2, b"c", b"3"), (3, b"b", b"4")]


@pytest.mark.parametrize("forget", [False, True])
def test_the_sequence_of_a_producer_survives_the_loss_of_all_its_records(forget: bool) -> None:
    # Given a producer all of whose records are superseded
    world = World()
    world.append((b"a", b"1"), (b"b", b"1"), producer_id=7)
    world.append((b"a", b"2"), (b"b", b"2"), producer_id=7)
    world.append((b"a", b"3"), (b"b", b"3"))
    world.roll()
    # When the log is cleaned and loaded anew
    world.clean()
    assert [(header.record_count, size) for header, batch in world.batches() if (size := len(batch))] == [
        (0, 61),
        (2, len(world.batches()[-1][1])),
    ]
    if forget:
        world.forget_snapshots()
    else:
        world.restart()
    # Then its last batch is known as a repeat, and the next sequence is accepted
    world.next_sequence[7] = 2
    assert world.append((b"a", b"2"), (b"b", b"2"), producer_id=7) == 2
    assert world.append((b"a", b"4"), producer_id=7) == 6
    world.next_sequence[7] = 9
    with pytest.raises(LogError) as refused:
        world.append((b"a", b"5"), producer_id=7)
    assert refused.value.error_code is ErrorCode.out_of_order_sequence_number


def test_a_producer_that_expired_leaves_nothing() -> None:
    world = World()
    world.append((b"a", b"1"), producer_id=7)
    world.append((b"a", b"2"))
    world.roll()
    world.clock.advance(2 * DAY_MS)
    world.log.expire_producers(world.clock.timestamp_ms(), DAY_MS)
    world.clean()
    assert [header.base_offset for header, _ in world.batches()] == [1]


def test_more_keys_than_fit_take_several_passes() -> None:
    # Given a map that takes about five keys
    world = World(settings=CleanerSettings(dedupe_buffer_bytes=1000))
    for value in (b"1", b"2"):
        for number in range(20):
            world.append((b"%02d" % number, value))
    world.roll()
    # When passes run until nothing is due
    passes = world.clean_all()
    # Then it took some, and nothing but the last values is left
    assert passes > 3
    assert world.pairs() == [(20 + number, b"%02d" % number, b"2") for number in range(20)]


def test_a_map_that_takes_no_key_at_all_does_not_go_on_for_ever() -> None:
    world = World(settings=CleanerSettings(dedupe_buffer_bytes=10))
    world.append((b"a", b"1"))
    world.roll()
    assert world.clean_all() == 1
    assert "not a single key" in world.cleaner.uncleanable[TopicPartition("t0", 0)]


def test_records_without_a_key_go_when_the_policy_becomes_compact() -> None:
    world = World(TopicConfig(min_cleanable_dirty_ratio=0.0))
    world.append((None, b"1"), (b"k", b"2"), (None, b"3"))
    world.roll()
    assert world.clean() is None
    world.log.config = replace(world.config, cleanup_policy=COMPACT)
    world.clean()
    assert world.pairs() == [(1, b"k", b"2")]


def test_a_batch_that_cannot_be_read_stops_its_own_log_only() -> None:
    # Given a log with a batch whose records are nonsense, and a sound one that is less dirty
    world = World(topics=2)
    batch = bytearray(encode_batch([Record(0, 0, b"k", b"v")], codec=Codec.GZIP))
    batch[75] ^= 0xFF
    reseal(batch)
    world.put(bytes(batch))
    world.roll()
    for value in (b"1", b"2"):
        world.append((b"k", value), log=world.logs[1])
    world.roll(world.logs[1])
    # When passes run
    assert world.clean_all() == 2
    # Then the broken one is given up untouched, and the other is clean
    assert list(world.cleaner.uncleanable) == [TopicPartition("t0", 0)]
    assert len(world.batches()) == 1
    assert world.pairs(world.logs[1]) == [(1, b"k", b"2")]
    assert not [name for name in world.file_names() if name.endswith(names.CLEANED_SUFFIX)]


def test_a_flipped_bit_is_not_given_a_new_checksum() -> None:
    world = World()
    world.append((b"k", b"1"), (b"k", b"2"))
    world.roll()
    handle = world.files.open(world.log.segments[0].log_path)
    world.files.pwritev(handle, [b"\xff"], 70)
    report = world.clean()
    assert report is not None
    assert "checksum" in report.reason
    assert world.clean() is None


def test_young_records_are_left_for_a_while() -> None:
    world = World(replace(ALWAYS, min_compaction_lag_ms=1000))
    world.append((b"k", b"1"))
    world.roll()
    world.clock.advance(999)
    assert world.clean() is None
    world.clock.advance(1)
    assert world.clean() is not None


def test_old_dirt_is_cleaned_however_little_it_is() -> None:
    world = World(replace(ALWAYS, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000))
    world.append((b"k", b"1"))
    world.roll()
    world.append((b"k", b"2"))
    assert world.clean() is None
    world.clock.advance(1001)
    assert world.clean() is not None


def test_the_dirtiest_log_comes_first() -> None:
    world = World(topics=2)
    world.append((b"k", b"1"))
    world.roll()
    world.clean()
    world.append((b"k", b"2"))
    world.roll()
    world.append((b"k", b"1"), log=world.logs[1])
    world.roll(world.logs[1])
    assert world.cleaner.dirtiest_ratio() == 1.0
    reports = [world.clean(), world.clean()]
    assert [report.topic_partition.topic for report in reports if report] == ["t1", "t0"]


def test_logs_are_measured_once_for_all_that_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(topics=20)
    for log in world.logs:
        for value in (b"old", b"new"):
            world.append((b"k", value), log=log)
            world.roll(log)
    measured: list[object] = []

    def watched(log: SegmentLog, cleaned_to: int | None, timestamp_ms: int) -> Dirtiness:
        measured.append(log)
        return measure(log, cleaned_to, timestamp_ms)

    monkeypatch.setattr(cleaner, "measure", watched)
    assert world.clean_all() == 20
    # All when looking for those that are due, each once more at its turn, and all to see that none is left.
    assert len(measured) == 3 * 20


def test_a_log_that_was_deleted_before_its_turn_is_passed_over() -> None:
    world = World(topics=2)
    for log in world.logs:
        for value in (b"old", b"new"):
            world.append((b"k", value), log=log)
            world.roll(log)
    job = world.cleaner.plan()
    assert job is not None
    job.run()
    world.finish(job)
    (left,) = [log for log in world.logs if log.topic != job.topic_partition.topic]
    world.logs.remove(left)
    world.store.delete(left.topic, 0)
    assert world.cleaner.plan() is None
    assert world.cleaner.uncleanable == {}


def test_a_log_is_cleaned_by_one_job_at_a_time() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.roll()
    job = world.cleaner.plan()
    assert job is not None
    assert list(world.cleaner.running) == [job]
    assert world.cleaner.plan() is None
    job.run()
    world.finish(job)
    assert len(world.cleaner.running) == 0


def test_a_log_grows_while_it_is_cleaned() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.append((b"k", b"2"))
    world.roll()
    job = world.cleaner.plan()
    assert job is not None
    world.append((b"k", b"3"))
    world.roll()
    job.run()
    world.append((b"k", b"4"))
    world.finish(job)
    assert world.pairs() == [(1, b"k", b"2"), (2, b"k", b"3"), (3, b"k", b"4")]
    assert world.clean_all() == 1
    assert world.pairs() == [(2, b"k", b"3"), (3, b"k", b"4")]


def test_a_log_whose_segments_went_meanwhile_is_left_as_it_is() -> None:
    config = replace(ALWAYS, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    world = World(config)
    world.append((b"k", b"1"))
    world.roll()
    world.append((b"k", b"2"))
    job = world.cleaner.plan()
    assert job is not None
    job.run()
    world.clock.advance(2000)
    assert world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms()) == 2
    report = world.finish(job)
    assert "in the meantime" in report.reason
    assert world.cleaner.uncleanable == {}
    assert not [name for name in world.file_names() if name.endswith(names.CLEANED_SUFFIX)]


def test_a_topic_deleted_meanwhile_takes_its_job_along() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.roll()
    job = world.cleaner.plan()
    assert job is not None
    world.store.delete("t0", 0)
    world.logs.clear()
    job.run()
    report = world.finish(job)
    assert "in the meantime" in report.reason
    assert world.cleaner.uncleanable == {}


def test_segments_that_went_while_the_names_of_the_new_ones_were_synced_stay_gone() -> None:
    config = replace(ALWAYS, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    world = World(config)
    world.append((b"k", b"1"))
    world.roll()
    world.append((b"k", b"2"))
    job = world.cleaner.plan()
    assert job is not None
    job.run()
    with pytest.raises(MustLoadError) as names_to_sync:
        world.cleaner.finish(job)
    names_to_sync.value.load()
    world.clock.advance(2000)
    world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms())
    assert "in the meantime" in world.finish(job).reason
    assert not [name for name in world.file_names() if name.endswith(names.SWAP_SUFFIX)]
    assert world.pairs() == []


def test_a_disk_that_does_not_keep_the_names_of_new_segments_takes_the_log_offline() -> None:
    world = World()
    for value in (b"1", b"2"):
        world.append((b"k", value))
    world.roll()
    job = world.cleaner.plan()
    assert job is not None
    job.run()
    world.files.faults = [FailingOperation("sync_directory")]
    report = world.finish(job)
    assert report.is_log_lost
    assert "Input/output error" in report.reason


def test_a_job_that_is_called_back_leaves_nothing_behind() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.roll()
    before = world.file_names()
    job = world.cleaner.plan()
    assert job is not None
    job.cancel()
    job.run()
    assert "cancelled" in world.finish(job).reason
    assert world.file_names() == before
    assert world.cleaner.uncleanable == {}
    assert world.clean() is not None


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.append((b"k", b"2"))
    world.roll()
    before, files = world.batches(), world.file_names()
    job = world.cleaner.plan()
    assert job is not None
    world.files.capacity_bytes = 0
    job.run()
    world.files.capacity_bytes = None
    assert world.finish(job).reason
    assert (world.batches(), world.file_names()) == (before, files)


def test_small_segments_become_one_and_keep_the_newest_date() -> None:
    world = World()
    for number in range(3):
        world.append((b"%d" % number, b"v"))
        world.roll()
        world.clock.advance(1000)
    newest_ms = world.clock.timestamp_ms() - 1000
    world.clock.advance(DAY_MS)
    world.clean()
    assert [segment.base_offset for segment in world.log.segments] == [0, 3]
    (entry,) = [
        entry for entry in world.files.scan(world.log.directory) if entry.name == f"{names.file_stem(0)}.log"
    ]
    assert entry.modified_at_ms == world.log.segments[0].modified_at_ms == newest_ms
    remove = world.store.start_housekeeping(world.clock.now_ms() + DAY_MS)
    assert remove is not None
    remove()
    world.restart()
    assert world.pairs() == [(number, b"%d" % number, b"v") for number in range(3)]


def test_segments_become_one_only_while_they_fit() -> None:
    world = World(replace(ALWAYS, segment_bytes=1024))
    for number in range(4):
        world.append((b"%d" % number, bytes(400)))
        world.roll()
    world.clean()
    assert [segment.base_offset for segment in world.log.segments] == [0, 2, 4]


def test_the_indexes_of_a_cleaned_segment_find_its_batches() -> None:
    world = World(replace(ALWAYS, index_interval_bytes=100))
    for number in range(50):
        world.append((b"%d" % (number % 10), b"v"))
        world.clock.advance(10)
    world.roll()
    world.clean()
    world.log.segments[0].locate(0)
    assert len(world.log.segments[0].offset_index.entries()) > 2
    for offset in range(50):
        data = world.log.read(offset, until_offset=50, max_bytes=1, at_least_one=True)
        assert parse_header(data).last_offset >= offset
        assert parse_header(data).base_offset == max(offset, 40)
    found = world.log.offset_for_timestamp(world.batches()[5][0].max_timestamp_ms, 50)
    assert found.offset == 45


def test_how_far_a_log_is_clean_is_remembered_over_a_restart() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.roll()
    world.clean()
    world.store.start_checkpoint()()
    assert b"cleaned_to: 1\n" in world.files.read_file(f"/data/t0-0/{names.PARTITION_CHECKPOINT}")
    world.store.close()
    # Kafka's own file has it, too, once the directory is closed.
    assert world.files.read_file(f"/data/{names.CLEANER_CHECKPOINT}") == b"0\n1\nt0 0 1\n"
    world.epoch += 1
    world.start()
    assert world.log.cleaned_to == 1
    assert world.clean() is None


def test_a_damaged_checkpoint_costs_a_pass_and_no_more() -> None:
    world = World()
    world.append((b"k", b"1"))
    world.roll()
    world.clean()
    world.store.close()
    world.files.write_file(f"/data/t0-0/{names.PARTITION_CHECKPOINT}", b"version: 0\ncleaned_to", sync=False)
    world.files.write_file(f"/data/{names.CLEANER_CHECKPOINT}", b"0\n9\nt0 0", sync=False)
    world.start()
    assert world.clean_all() == 1
    assert world.pairs() == [(0, b"k", b"1")]


def test_reading_and_writing_keep_to_the_allowed_rate() -> None:
    world = World(settings=CleanerSettings(max_bytes_per_second=1_000_000))
    for number in range(4):
        world.append((b"%d" % number, bytes(100_000)))
    world.roll()
    started_ms = world.clock.now_ms()
    world.clean()
    # 400 kB are read twice and written once.
    assert 1000 < world.clock.now_ms() - started_ms < 1400
    pauses: list[float] = []
    unhurried = Throttle(1e300, world.clock, pauses.append)
    unhurried(100_000)
    assert pauses == [0]
