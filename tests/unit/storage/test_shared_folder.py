"""Segment files that brokers share: checkpoints of partitions, clean hand-over, deletion."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.files import AlreadyLockedError
from klamm.storage.engines.segments.partition_checkpoint import (
    PartitionCheckpoint,
    PartitionCheckpoints,
    decode_checkpoint,
    encode_checkpoint,
)
from klamm.storage.engines.segments.recovery import Recovered, recover
from klamm.storage.engines.simulated_disk import FailingOperation, SimulatedFiles
from klamm.storage.log import EngineLog, LogError, MustLoadError
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, loaded, read_all, sync

OTHER_ID = bytes(reversed(TOPIC_ID))
CHECKPOINT = PartitionCheckpoint(
    leader_epoch=3,
    recovery_point=10,
    log_start_offset=4,
    high_watermark=9,
    end_offset=12,
    cleaned_to=7,
    is_clean=True,
)


class Folder:
    """One folder on a simulated disk, and the stores of brokers on it."""

    def __init__(self) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(1), self.clock)
        self.files.make_directory("/data")
        self.files.sync_directory("/")

    def broker(self, node_id: int) -> SegmentStore:
        store = SegmentStore(
            "/data", cluster_id="c", node_id=node_id, clock=self.clock, flush_on_commit=True, files=self.files
        )
        store.share()
        return store

    def checkpoint(self) -> PartitionCheckpoint:
        return decode_checkpoint(self.files.read_file(f"/data/t-0/{names.PARTITION_CHECKPOINT}"))


def led(store: SegmentStore, epoch: int, topic_id: bytes = TOPIC_ID) -> EngineLog:
    return loaded(lambda: store.open("t", topic_id, 0, leader_epoch=epoch, config=TopicConfig()))


def filled(store: SegmentStore, epoch: int, count: int = 3) -> EngineLog:
    log = led(store, epoch)
    for _ in range(count):
        append(log, a_batch())
    sync(log)
    return log


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    assert decode_checkpoint(encode_checkpoint(CHECKPOINT)) == CHECKPOINT


@pytest.mark.parametrize("length", range(len(encode_checkpoint(CHECKPOINT))))
def test_no_part_of_a_checkpoint_is_taken_for_a_whole_one(length: int) -> None:
    with pytest.raises(DecodeError):
        decode_checkpoint(encode_checkpoint(CHECKPOINT)[:length])


@pytest.mark.parametrize(("epoch", "expected"), [(2, False), (3, True), (4, True), (5, False)])
def test_a_clean_log_is_clean_for_the_next_leader_only(epoch: int, expected: bool) -> None:
    assert CHECKPOINT.is_clean_for(epoch) is expected


def test_a_log_that_was_handed_over_is_opened_without_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    # scenario 75
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    log = filled(first, 0)
    before = read_all(log)
    loaded(lambda: first.close_log("t", 0))
    assert folder.checkpoint().is_clean

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("the log was scanned")

    with monkeypatch.context() as patched:
        patched.setattr("klamm.storage.engines.segments.loading.recover", scan)
        again = led(second, 1)
    assert read_all(again) == before
    assert not folder.checkpoint().is_clean
    assert append(again, a_batch()).base_offset == again.log_end_offset - 1


def test_a_log_of_a_killed_leader_is_recovered() -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    before = read_all(filled(first, 0))
    assert read_all(led(second, 1)) == before
    assert folder.checkpoint().leader_epoch == 1


def test_a_log_is_recovered_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    before = read_all(filled(first, 0))
    with pytest.raises(MustLoadError) as raised:
        second.open("t", TOPIC_ID, 0, leader_epoch=1, config=TopicConfig())
    raised.value.load()

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("the log was scanned")

    monkeypatch.setattr("klamm.storage.engines.segments.loading.recover", scan)
    again = second.open("t", TOPIC_ID, 0, leader_epoch=1, config=TopicConfig())
    assert read_all(again) == before
    assert append(again, a_batch()).base_offset == again.log_end_offset - 1


def test_a_recovery_that_fails_is_reported_when_the_log_is_opened() -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    filled(first, 0)
    with pytest.raises(MustLoadError) as raised:
        second.open("t", TOPIC_ID, 0, leader_epoch=1, config=TopicConfig())
    folder.files.faults = [FailingOperation("sync")]
    raised.value.load()
    with pytest.raises(LogError, match="recovering t-0 failed"):
        second.open("t", TOPIC_ID, 0, leader_epoch=1, config=TopicConfig())
    # The next attempt recovers it
    assert read_all(led(second, 2))


def test_a_clean_mark_of_an_earlier_leader_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder()
    first, second, third = folder.broker(1), folder.broker(2), folder.broker(3)
    filled(first, 0)
    loaded(lambda: first.close_log("t", 0))
    # Its successor wrote, and its checkpoint was lost with the power.
    mark = folder.files.read_file(f"/data/t-0/{names.PARTITION_CHECKPOINT}")
    log = filled(second, 1)
    folder.files.write_file(f"/data/t-0/{names.PARTITION_CHECKPOINT}", mark, sync=True)
    scans: list[object] = []

    def watched(*arguments: Any, **more: Any) -> Recovered:
        scans.append(arguments)
        return recover(*arguments, **more)

    monkeypatch.setattr("klamm.storage.engines.segments.loading.recover", watched)
    assert read_all(led(third, 2)) == read_all(log)
    assert len(scans) == 1


def test_a_clean_mark_with_another_end_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    filled(first, 0)
    loaded(lambda: first.close_log("t", 0))
    path = f"/data/t-0/{names.PARTITION_CHECKPOINT}"
    lie = PartitionCheckpoint(
        leader_epoch=0, recovery_point=9, log_start_offset=0, high_watermark=9, end_offset=9, is_clean=True
    )
    folder.files.write_file(path, encode_checkpoint(lie), sync=True)
    with caplog.at_level(logging.WARNING):
        led(second, 1)
    assert [each.getMessage() for each in caplog.records if "was closed at 9" in each.getMessage()]


def test_a_checkpoint_that_was_started_before_a_move_is_not_written_after_it() -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    filled(first, 0)
    late = first.start_checkpoint()
    loaded(lambda: first.close_log("t", 0))
    led(second, 1)
    late()
    assert folder.checkpoint().leader_epoch == 1

    # Neither after the partition was taken away.
    late = second.start_checkpoint()
    second.abandon("t", 0)
    led(first, 2)
    late()
    assert folder.checkpoint().leader_epoch == 2


def test_deleted_records_stay_deleted_at_the_next_leader_after_a_power_loss() -> None:
    folder = Folder()
    first = folder.broker(1)
    log = filled(first, 0)
    log.delete_records(2)
    first.start_saving_log_starts()()
    folder.files.crash()
    assert led(folder.broker(2), 1).log_start_offset == 2


def test_the_last_broker_leaves_what_kafka_expects() -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    end = filled(first, 0).log_end_offset
    first.close()
    assert not folder.files.exists(f"/data/{names.CLEAN_SHUTDOWN_MARKER}")
    second.close()
    assert folder.files.exists(f"/data/{names.CLEAN_SHUTDOWN_MARKER}")
    kafkas = folder.files.read_file(f"/data/{names.RECOVERY_POINT_CHECKPOINT}")
    assert kafkas == f"0\n1\nt 0 {end}\n".encode()


def test_without_its_checkpoint_a_log_counts_as_kafka_left_it() -> None:
    folder = Folder()
    first = folder.broker(1)
    log = filled(first, 0)
    log.delete_records(1)
    first.close()
    folder.files.remove(f"/data/t-0/{names.PARTITION_CHECKPOINT}")
    second = folder.broker(2)
    assert led(second, 1).log_start_offset == 1
    # Kafka's files are empty while brokers run: another topic may get the name.
    assert folder.files.read_file(f"/data/{names.LOG_START_CHECKPOINT}") == b"0\n0\n"


def test_nobody_may_use_a_folder_while_its_first_broker_starts() -> None:
    folder = Folder()
    SegmentStore(
        "/data", cluster_id="c", node_id=1, clock=folder.clock, flush_on_commit=True, files=folder.files
    )
    with pytest.raises(AlreadyLockedError):
        folder.broker(2)


def test_a_log_of_a_deleted_topic_makes_room_for_its_namesake() -> None:
    folder = Folder()
    first, second = folder.broker(1), folder.broker(2)
    filled(first, 0)
    # Another broker leads the new topic, and the old leader has not seen the deletion yet.
    log = led(second, 0, OTHER_ID)
    assert log.log_end_offset == 0
    append(log, a_batch())
    sync(log)
    first.delete("t", 0)
    assert log.log_end_offset == len(read_all(log)) > 0
    work = first.start_housekeeping(10**12)
    assert work is not None
    work()
    assert sorted(entry.name for entry in folder.files.scan("/data") if entry.is_directory) == ["t-0"]


def test_a_directory_without_checkpoints_is_read_as_new() -> None:
    folder = Folder()
    assert PartitionCheckpoints(folder.files, "/data").read(TopicPartition("t", 0)) is None


def test_a_log_that_cannot_be_opened_keeps_the_directory_from_being_clean() -> None:
    folder = Folder()
    first = folder.broker(1)
    filled(first, 3)
    first.close()
    second = folder.broker(2)
    with pytest.raises(LogError):
        led(second, 1)  # older than the epoch it was written at
    second.close()
    assert not folder.files.exists(f"/data/{names.CLEAN_SHUTDOWN_MARKER}")
