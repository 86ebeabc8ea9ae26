"""How much a micro-batch takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import TopicPartition
from klamm.spark.read.admission import backlog, limit_by_share, must_wait

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("limit", "start", "latest", "expected"),
    [
        (10, {T0: 0, T1: 0}, {T0: 100, T1: 300}, {T0: 2, T1: 7}),
        (10, {T0: 5, T1: 0}, {T0: 5, T1: 300}, {T0: 5, T1: 10}),
        # A share below one is rounded up: nobody starves, and the limit is passed by a little.
        (2, {T0: 0, T1: 0, T2: 0}, {T0: 1, T1: 1, T2: 1000}, {T0: 1, T1: 1, T2: 1}),
        (1000, {T0: 0, T1: 0}, {T0: 3, T1: 4}, {T0: 3, T1: 4}),
        (0, {T0: 0, T1: 7}, {T0: 100, T1: 300}, {T0: 0, T1: 7}),
        (5, {T0: 9, T1: 9}, {T0: 9, T1: 9}, {T0: 9, T1: 9}),
    ],
)
def test_a_limit_is_shared_in_proportion_to_the_backlog(
    limit: int,
    start: dict[TopicPartition, int],
    latest: dict[TopicPartition, int],
    expected: dict[TopicPartition, int],
) -> None:
    assert limit_by_share(limit, start, latest) == expected


@given(
    limit=st.integers(1, 1_000),
    sizes=st.lists(st.integers(0, 10_000), min_size=1, max_size=8),
    base=st.integers(0, 1 << 50),
)
def test_every_partition_with_data_moves_and_none_too_far(limit: int, sizes: list[int], base: int) -> None:
    start = {TopicPartition("t", number): base for number in range(len(sizes))}
    latest = {TopicPartition("t", number): base + size for number, size in enumerate(sizes)}
    ends = limit_by_share(limit, start, latest)
    assert ends.keys() == latest.keys()
    assert sum(ends.values()) - sum(start.values()) <= limit + len(sizes)
    for partition, end in ends.items():
        assert start[partition] <= end <= latest[partition]
        assert (end > start[partition]) == (latest[partition] > start[partition])


def test_the_backlog_counts_what_is_new_and_never_below_zero() -> None:
    assert backlog({T0: 5, T1: 9}, {T0: 8, T1: 3, T2: 4}) == 7


@pytest.mark.parametrize(
    ("waiting", "last_ms", "now_ms", "expected"),
    [
        (3, None, 0, False),  # the first batch of a run is never put off
        (3, 100, 200, True),
        (10, 100, 200, False),
        (3, 100, 1_100, False),  # the delay is over
    ],
)
def test_a_batch_waits_for_volume_or_for_the_delay(
    waiting: int, last_ms: int | None, now_ms: int, expected: bool
) -> None:
    waits = must_wait(
        minimum=10, waiting=waiting, last_batch_at_ms=last_ms, now_ms=now_ms, max_delay_ms=1_000
    )
    assert waits is expected
