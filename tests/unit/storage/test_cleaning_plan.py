"""Which log is dirty, how far it may be cleaned, which segments become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from klamm.storage.engines.segments.cleaning_plan import Dirtiness, group_segments, measure
from klamm.storage.topic_config import TopicConfig

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class FakeSegment:
    base_offset: int
    size_bytes: int = 100
    timestamp_ms: int = NOW_MS - 10_000

    def max_timestamp(self) -> tuple[int, int]:
        return self.timestamp_ms, self.base_offset

    def first_timestamp_ms(self) -> int:
        return self.timestamp_ms


@dataclass(frozen=True)
class FakeLog:
    segments: Sequence[FakeSegment]
    config: TopicConfig = field(default_factory=TopicConfig)
    log_start_offset: int = 0
    log_end_offset: int = 40
    last_stable_offset: int = 40


FOUR = [FakeSegment(0), FakeSegment(10), FakeSegment(20), FakeSegment(30)]  # the last one is active


def test_everything_but_the_active_segment_is_dirty_at_first() -> None:
    assert measure(FakeLog(FOUR), None, NOW_MS) == Dirtiness(0, 30, 0, 300, False)
    assert measure(FakeLog(FOUR), None, NOW_MS).ratio == 1.0


def test_what_an_earlier_pass_cleaned_is_clean() -> None:
    assert measure(FakeLog(FOUR), 20, NOW_MS) == Dirtiness(20, 30, 200, 100, False)
    assert measure(FakeLog(FOUR), 30, NOW_MS) == Dirtiness(30, 30, 300, 0, False)
    assert measure(FakeLog(FOUR), 15, NOW_MS) == Dirtiness(15, 30, 100, 200, False)


@pytest.mark.parametrize("checkpoint", [4, 41])
def test_a_checkpoint_outside_the_log_counts_as_none(checkpoint: int) -> None:
    log = FakeLog(FOUR[1:], log_start_offset=12)
    assert measure(log, checkpoint, NOW_MS).first_dirty_offset == 12


def test_an_undecided_transaction_bounds_the_pass_at_its_segment() -> None:
    assert measure(FakeLog(FOUR, last_stable_offset=25), None, NOW_MS).bound_offset == 20
    assert measure(FakeLog(FOUR, last_stable_offset=20), None, NOW_MS).bound_offset == 20
    assert measure(FakeLog(FOUR, last_stable_offset=19), None, NOW_MS).bound_offset == 10
    assert measure(FakeLog(FOUR, last_stable_offset=19), 20, NOW_MS) == Dirtiness(20, 20, 200, 0, False)


def test_young_segments_are_left_alone() -> None:
    segments = [FakeSegment(0), FakeSegment(10, timestamp_ms=NOW_MS - 500), FakeSegment(20), FakeSegment(30)]
    log = FakeLog(segments, TopicConfig(min_compaction_lag_ms=1000))
    assert measure(log, None, NOW_MS).bound_offset == 10
    assert measure(log, None, NOW_MS + 500).bound_offset == 30
    # A young one in the clean part bounds nothing.
    assert measure(log, 20, NOW_MS).bound_offset == 30


def test_old_dirt_is_overdue_however_little_it_is() -> None:
    config = TopicConfig(max_compaction_lag_ms=10_000)
    segments = [FakeSegment(0, 10_000), FakeSegment(10, 1), FakeSegment(20, 1)]
    before = measure(FakeLog(segments, config), 10, NOW_MS)
    after = measure(FakeLog(segments, config), 10, NOW_MS + 1)
    assert (before.is_overdue, before.is_due(config)) == (False, False)
    assert (after.is_overdue, after.is_due(config)) == (True, True)
    undated = [FakeSegment(0, timestamp_ms=-1), FakeSegment(10)]
    assert not measure(FakeLog(undated, config), 0, NOW_MS).is_overdue


def test_a_log_is_due_above_the_ratio_not_at_it() -> None:
    config = TopicConfig(min_cleanable_dirty_ratio=0.5)
    assert not Dirtiness(0, 30, 100, 100, False).is_due(config)
    assert Dirtiness(0, 30, 100, 101, False).is_due(config)
    assert not Dirtiness(0, 30, 100, 0, True).is_due(config)
    assert not Dirtiness(0, 0, 0, 0, False).is_due(TopicConfig(min_cleanable_dirty_ratio=0.0))


def test_an_active_segment_alone_is_nothing_to_clean() -> None:
    assert measure(FakeLog([FakeSegment(0)]), None, NOW_MS) == Dirtiness(0, 0, 0, 0, False)


def grouped(segments: Sequence[FakeSegment], config: TopicConfig, end_offset: int = 1000) -> list[list[int]]:
    return [
        [segments[index].base_offset for index in group]
        for group in group_segments(segments, config, end_offset)
    ]


def test_neighbours_become_one_while_they_fit() -> None:
    segments = [FakeSegment(0, 400), FakeSegment(10, 600), FakeSegment(20, 1024), FakeSegment(30, 1)]
    assert grouped(segments, TopicConfig(segment_bytes=1024)) == [[0, 10], [20], [30]]
    assert grouped(segments, TopicConfig(segment_bytes=4096)) == [[0, 10, 20, 30]]
    assert grouped([], TopicConfig()) == []


def test_an_index_keeps_its_limit_too() -> None:
    segments = [FakeSegment(base, 8192) for base in (0, 10, 20, 30)]
    assert grouped(segments, TopicConfig(segment_index_bytes=48)) == [[0, 10], [20, 30]]


def test_offsets_within_a_segment_fit_32_bits() -> None:
    segments = [FakeSegment(0), FakeSegment(10), FakeSegment(2**31), FakeSegment(2**31 + 5)]
    assert grouped(segments, TopicConfig(), 2**31 + 9) == [[0, 10], [2**31, 2**31 + 5]]
    assert grouped(segments[:2], TopicConfig(), 2**31 + 1) == [[0], [10]]
