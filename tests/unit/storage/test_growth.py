"""What a store does for a log is done once for each log that changed, however many others there are.

Operations are counted, not timed.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Barrier
from typing import NoReturn

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore, names, partition_checkpoint
from klamm.storage.engines.segments.files import OsFiles, overwrite
from klamm.storage.engines.segments.lanes import RunAll, in_threads, one_by_one
from klamm.storage.engines.segments.partition_checkpoint import (
    PartitionCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from klamm.storage.engines.simulated_disk import FailingOperation, SimulatedFiles
from klamm.storage.log import EngineLog
from klamm.storage.log_dirs import LogDirs
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, read_all, sync

PARTITIONS = 20


class CountingFiles(SimulatedFiles):
    """Counts the operations that change names: those are what a file system is slow at."""

    def __init__(self) -> None:
        super().__init__(Random(1), ManualClock(timestamp_ms=T))
        self.counts: Counter[str] = Counter()

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        self.counts["write_file"] += 1
        super().write_file(path, data, sync=sync)

    def rename(self, source: str, target: str) -> None:
        self.counts["rename"] += 1
        super().rename(source, target)


def a_store(files: SimulatedFiles) -> SegmentStore:
    return SegmentStore(
        "/data",
        cluster_id="c",
        node_id=1,
        clock=ManualClock(timestamp_ms=T),
        flush_on_commit=True,
        files=files,
    )


def opened(store: SegmentStore, leader_epoch: int = 0) -> list[EngineLog]:
    return [
        store.open("t", TOPIC_ID, partition, leader_epoch=leader_epoch, config=TopicConfig())
        for partition in range(PARTITIONS)
    ]


def test_a_checkpoint_is_written_for_logs_that_changed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store(CountingFiles())
    logs = opened(store)
    encoded: list[PartitionCheckpoint] = []

    def watched(checkpoint: PartitionCheckpoint) -> bytes:
        encoded.append(checkpoint)
        return encode_checkpoint(checkpoint)

    monkeypatch.setattr(partition_checkpoint, "encode_checkpoint", watched)
    store.start_checkpoint()()
    assert encoded == []
    append(logs[7], a_batch())
    sync(logs[7])
    store.start_checkpoint()()
    assert [checkpoint.recovery_point for checkpoint in encoded] == [1]
    store.start_checkpoint()()
    assert len(encoded) == 1


def test_a_checkpoint_that_could_not_be_written_is_written_the_next_time() -> None:
    files = CountingFiles()
    store = a_store(files)
    log = opened(store)[0]
    append(log, a_batch())
    sync(log)
    path = f"/data/t-0/{names.PARTITION_CHECKPOINT}"
    files.faults.append(FailingOperation("write"))
    with pytest.raises(Exception, match=r"/data"):
        store.start_checkpoint()()
    store.start_checkpoint()()
    assert decode_checkpoint(files.read_file(path)).recovery_point == 1


def test_logs_are_opened_again_and_closed_without_new_names_of_files() -> None:
    files = CountingFiles()
    store = a_store(files)
    opened(store)
    store.close()
    store = a_store(files)
    files.counts.clear()
    opened(store, leader_epoch=1)
    assert files.counts == {}
    files.counts.clear()
    store.close()
    # Kafka's own checkpoints, one for the whole directory, and the clean-shutdown marker.
    assert files.counts["write_file"] <= 5
    for partition in range(PARTITIONS):
        data = files.read_file(f"/data/t-{partition}/{names.PARTITION_CHECKPOINT}")
        assert decode_checkpoint(data).is_clean


@pytest.mark.parametrize("value", [0, -1, sys.maxsize, -sys.maxsize - 1])
def test_all_checkpoints_have_the_same_length_and_fit_a_sector(value: int) -> None:
    checkpoint = PartitionCheckpoint(
        leader_epoch=value,
        recovery_point=value,
        log_start_offset=value,
        high_watermark=value,
        end_offset=value,
        cleaned_to=value,
    )
    small = replace(checkpoint, end_offset=1, is_clean=True)
    assert len(encode_checkpoint(checkpoint)) == len(encode_checkpoint(small)) <= 512
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_a_checkpoint_of_another_length_is_replaced() -> None:
    files = CountingFiles()
    store = a_store(files)
    opened(store)
    store.close()
    path = f"/data/t-0/{names.PARTITION_CHECKPOINT}"
    # As an earlier klamm wrote it: without padding.
    files.write_file(
        path, b"\n".join(line.rstrip() for line in files.read_file(path).split(b"\n")), sync=True
    )
    store = a_store(files)
    opened(store, leader_epoch=1)
    assert decode_checkpoint(files.read_file(path)).leader_epoch == 1


def test_new_logs_go_where_the_fewest_are_without_counting_all_of_them() -> None:
    files = CountingFiles()
    stores = [
        SegmentStore(
            directory,
            cluster_id="c",
            node_id=1,
            clock=ManualClock(timestamp_ms=T),
            flush_on_commit=True,
            files=files,
        )
        for directory in ("/one", "/two")
    ]
    dirs = LogDirs(stores)
    places = dirs._places = _Uncounted()  # its values are not looked at
    for partition in range(6):
        dirs.open("t", TOPIC_ID, partition, leader_epoch=0, config=TopicConfig())
    assert list(places.items()) == [(("t", partition), partition % 2) for partition in range(6)]
    for partition in (1, 3):
        dirs.delete("t", partition)
    for partition in (6, 7):
        dirs.open("t", TOPIC_ID, partition, leader_epoch=0, config=TopicConfig())
    assert [stores[1].holds("t", partition) for partition in (5, 6, 7)] == [True, True, True]


class _Uncounted(dict[tuple[str, int], int]):
    def values(self) -> NoReturn:
        raise AssertionError("all places were counted")


def test_logs_are_closed_several_at_a_time(tmp_path: Path) -> None:
    # Each close waits for the next: one after the other they would wait for ever.
    together = Barrier(4, timeout=60)

    class MeetingFiles(OsFiles):
        def sync_directory(self, path: str) -> None:
            if path.endswith(("t-0", "t-1", "t-2", "t-3")):
                together.wait()
            super().sync_directory(path)

    def a_store_of(run_all: RunAll) -> SegmentStore:
        return SegmentStore(
            str(tmp_path / "data"),
            cluster_id="c",
            node_id=1,
            clock=ManualClock(timestamp_ms=T),
            flush_on_commit=True,
            files=MeetingFiles(),
            max_open_files=2,
            run_all=run_all,
        )

    store = a_store_of(in_threads)
    logs = [
        store.open("t", TOPIC_ID, partition, leader_epoch=0, config=TopicConfig()) for partition in range(4)
    ]
    for log in logs:
        append(log, a_batch())
    store.close()
    assert together.n_waiting == 0
    store = a_store_of(one_by_one)
    again = [
        store.open("t", TOPIC_ID, partition, leader_epoch=1, config=TopicConfig()) for partition in range(4)
    ]
    assert [log.log_end_offset for log in again] == [1, 1, 1, 1]
    assert all(read_all(log) for log in again)


def test_only_what_a_disk_writes_as_a_whole_is_overwritten_in_place() -> None:
    files = CountingFiles()
    for size, is_done in ((512, True), (513, False)):
        files.write_file(f"/{size}", bytes(size), sync=False)
        assert overwrite(files, f"/{size}", b"x" * size) is is_done
        assert files.read_file(f"/{size}") == (b"x" if is_done else b"\0") * size
    assert not overwrite(files, "/512", b"x" * 511), "the end of the old content would remain"
    assert not overwrite(files, "/missing", b"x")
