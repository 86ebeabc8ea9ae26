"""Open files behind slices: one per segment, closed with its last reader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.log import EngineLog
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, HastyFiles, T, a_batch, append, sync
from unit.storage.slice_contract import a_slice


class FewHandles(HastyFiles):
    """A system that allows few open files."""

    def handle_limit(self) -> int:
        return 64


def open_logs(folder: Path) -> list[str]:
    """The log files that this process has open, deleted ones too."""
    handles = "/proc/self/fd"
    targets = []
    for handle in os.listdir(handles):
        try:
            targets.append(os.readlink(f"{handles}/{handle}"))
        except FileNotFoundError:
            continue  # the handle that listed them
    return [target for target in targets if target.startswith(str(folder)) and ".log" in target]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    store = SegmentStore(
        str(tmp_path),
        cluster_id="c",
        node_id=1,
        clock=ManualClock(timestamp_ms=T),
        flush_on_commit=True,
        files=FewHandles(),
    )
    yield store
    store.close()


@pytest.fixture
def log(store: SegmentStore) -> EngineLog:
    """A log of two hundred segments."""
    config = TopicConfig(segment_bytes=1024, retention_bytes=0, file_delete_delay_ms=0)
    log = store.open("t", TOPIC_ID, 0, leader_epoch=0, config=config)
    for _ in range(200):
        append(log, a_batch(value=bytes(600)))
        sync(log)
    assert log.segment_count == 200
    return log


def test_any_number_of_slices_of_a_segment_share_one_handle(tmp_path: Path, log: EngineLog) -> None:
    before = len(open_logs(tmp_path))
    slices = [a_slice(log, 3) for _ in range(100)]
    assert len(open_logs(tmp_path)) <= before + 1
    del slices


def test_a_segment_that_is_read_keeps_its_handle_however_many_others_are_opened(
    tmp_path: Path, log: EngineLog
) -> None:
    found = a_slice(log, 0)
    for offset in range(200):
        a_slice(log, offset).close()
    again = a_slice(log, 0)
    first = [path for path in open_logs(tmp_path) if path.endswith(f"{0:020}.log")]
    assert len(first) == 1
    assert again.read(0, 100) == found.read(0, 100)


def test_the_file_of_a_deleted_segment_is_closed_with_its_last_slice(
    tmp_path: Path, store: SegmentStore, log: EngineLog
) -> None:
    first, second = a_slice(log, 0), a_slice(log, 0)
    assert log.delete_old_segments(0, T) == 200
    remove = store.start_housekeeping(1000)
    assert remove is not None
    remove()
    held = [path for path in open_logs(tmp_path) if "deleted" in path]
    assert len(held) == 1
    first.close()
    assert len(second.read(0, 50)) == 50
    del second  # dropped without being closed
    assert not [path for path in open_logs(tmp_path) if "deleted" in path]
