"""Slices: what is read of a log later is what it held when it was found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.storage.log import EngineLog, LogError, LogSlice, LogStore
from klamm.storage.topic_config import TopicConfig
from unit.storage.engine_contract import EngineContract
from unit.storage.log_samples import T, a_batch, append, sync

SMALL_SEGMENTS = TopicConfig(segment_bytes=1500, retention_bytes=0, file_delete_delay_ms=10)


def a_slice(log: EngineLog, offset: int = 0, max_bytes: int = 1 << 20) -> LogSlice:
    found = log.slice(offset, until_offset=log.high_watermark, max_bytes=max_bytes, at_least_one=True)
    assert not isinstance(found, bytes)
    return found


def in_parts(found: LogSlice, part_bytes: int) -> bytes:
    return b"".join(found.read(at, part_bytes) for at in range(0, len(found), part_bytes))


class SliceContract(EngineContract):
    """What an engine promises to those who read later."""

    @pytest.fixture
    def filled(self, open_log: Callable[..., EngineLog]) -> EngineLog:
        """A log of several segments."""
        log = open_log(SMALL_SEGMENTS)
        for count in range(1, 60):
            append(log, a_batch(count % 4 + 1))
        sync(log)
        assert log.segment_count > 2
        return log

    @pytest.mark.parametrize("part_bytes", [1, 100, 1 << 20])
    def test_a_slice_is_what_a_read_returns(self, filled: EngineLog, part_bytes: int) -> None:
        whole = filled.read(3, until_offset=filled.high_watermark, max_bytes=700, at_least_one=True)
        assert in_parts(a_slice(filled, 3, 700), part_bytes) == whole
        assert len(whole) > 300

    def test_a_slice_of_nothing_is_empty(self, log: EngineLog) -> None:
        append(log)
        sync(log)
        assert log.slice(1, until_offset=1, max_bytes=100, at_least_one=True) == b""
        assert log.slice(0, until_offset=1, max_bytes=1, at_least_one=False) == b""
        with pytest.raises(LogError) as caught:
            log.slice(2, until_offset=1, max_bytes=100, at_least_one=True)
        assert caught.value.error_code is ErrorCode.offset_out_of_range

    def test_what_is_small_is_read_at_once(self, filled: EngineLog) -> None:
        until = filled.high_watermark
        whole = filled.read(0, until_offset=until, max_bytes=300, at_least_one=True)
        for small_bytes, is_read in ((len(whole) - 1, False), (len(whole), True)):
            found = filled.slice(
                0, until_offset=until, max_bytes=300, at_least_one=True, small_bytes=small_bytes
            )
            assert (found == whole) == is_read
            assert len(found) == len(whole)

    def test_a_slice_outlives_what_is_appended_and_rolled(self, filled: EngineLog) -> None:
        last = filled.high_watermark - 1
        found = a_slice(filled, last)
        expected = filled.read(last, until_offset=last + 1, max_bytes=1, at_least_one=True)
        for _ in range(20):
            append(filled, a_batch(4))
        sync(filled)
        assert in_parts(found, 50) == expected

    def test_a_slice_outlives_its_segment(self, store: LogStore, filled: EngineLog) -> None:
        found = a_slice(filled)
        expected = found.read(0, len(found))
        assert filled.delete_old_segments(0, T) > 1
        remove = store.start_housekeeping(1000)
        assert remove is not None
        remove()
        assert filled.log_start_offset > 0
        assert in_parts(found, 50) == expected
        found.close()

    def test_a_slice_outlives_its_log(self, store: LogStore, filled: EngineLog) -> None:
        found = a_slice(filled)
        expected = found.read(0, len(found))
        store.delete("t", 0)
        remove = store.start_housekeeping(10**9)
        assert remove is not None
        remove()
        assert in_parts(found, 50) == expected
        found.close()

    def test_a_slice_that_was_cut_off_says_so(self, filled: EngineLog) -> None:
        found = a_slice(filled, filled.high_watermark - 1)
        filled.truncate(filled.high_watermark - 1)
        with pytest.raises(LogError) as caught:
            found.read(0, len(found))
        assert caught.value.error_code is ErrorCode.kafka_storage_error

    def test_the_end_of_a_slice_is_above_all_it_holds_and_not_far_from_it(self, filled: EngineLog) -> None:
        until = filled.high_watermark
        first_batch = a_slice(filled, 0, 1)
        assert first_batch.end_offset() == 2  # of two records
        segment = a_slice(filled, 0)
        following = filled.read(segment.end_offset(), until_offset=until, max_bytes=1, at_least_one=True)
        assert following
        assert a_slice(filled, until - 1).end_offset() == until

    def test_closing_twice_is_closing_once(self, filled: EngineLog) -> None:
        first, second = a_slice(filled), a_slice(filled)
        first.close()
        first.close()
        assert len(second.read(0, 10)) == 10
        del second
        assert a_slice(filled).read(0, 10)
