"""Ranges to tasks: the arithmetic of Spark's own connector, as a pure function."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import TopicPartition
from klamm.spark.read.splitting import OffsetRange, divide, split

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def bounds(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(item.partition.partition, item.start_offset, item.next_offset) for item in ranges]


@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        ([10, 10], {}, [(0, 0, 10), (1, 0, 10)]),
        ([10, 0, 5], {}, [(0, 0, 10), (2, 0, 5)]),
        ([10], {"min_partitions": 3}, [(0, 0, 3), (0, 3, 6), (0, 6, 10)]),
        ([10, 10], {"min_partitions": 2}, [(0, 0, 10), (1, 0, 10)]),
        ([1, 100], {"min_partitions": 3}, [(0, 0, 1), (1, 0, 50), (1, 50, 100)]),
        # What stays whole does not thin out the others: 800 of 810, not 8 parts but 6.
        (
            [600, 5, 5],
            {"min_partitions": 8},
            [(0, n * 100, n * 100 + 100) for n in range(6)] + [(1, 0, 5), (2, 0, 5)],
        ),
        ([10], {"max_records_per_partition": 4}, [(0, 0, 3), (0, 3, 6), (0, 6, 10)]),
        ([10, 3], {"max_records_per_partition": 5}, [(0, 0, 5), (0, 5, 10), (1, 0, 3)]),
        (
            [10],
            {"max_records_per_partition": 5, "min_partitions": 4},
            [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10)],
        ),
        # Halves go up, as in Java.
        ([3, 3], {"min_partitions": 3}, [(0, 0, 1), (0, 1, 3), (1, 0, 1), (1, 1, 3)]),
    ],
)
def test_ranges_become_tasks(
    sizes: list[int], options: dict[str, int], expected: list[tuple[int, int, int]]
) -> None:
    ranges = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in enumerate(sizes)]
    assert bounds(split(ranges, **options)) == expected


def test_a_range_that_runs_backwards_is_left_out() -> None:
    assert split([OffsetRange(T0, 10, 5)], min_partitions=4) == []


@given(
    sizes=st.lists(st.integers(0, 10_000), max_size=6),
    start=st.integers(0, 1 << 40),
    minimum=st.none() | st.integers(1, 60),
    maximum=st.none() | st.integers(1, 5_000),
)
def test_tasks_cover_every_offset_once_and_in_order(
    sizes: list[int], start: int, minimum: int | None, maximum: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("t", n), start, start + size) for n, size in enumerate(sizes)]
    tasks = split(ranges, min_partitions=minimum, max_records_per_partition=maximum)
    assert tasks == sorted(tasks)
    assert all(task.size > 0 for task in tasks)
    for whole in ranges:
        mine = [task for task in tasks if task.partition == whole.partition]
        assert sum(task.size for task in mine) == whole.size
        if mine:
            assert (mine[0].start_offset, mine[-1].next_offset) == (whole.start_offset, whole.next_offset)
        assert all(a.next_offset == b.start_offset for a, b in pairwise(mine))
    if maximum is not None:
        assert all(task.size <= maximum for task in tasks)


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=4, unique_by=lambda item: item[0]
    )
)
def test_the_order_of_the_ranges_changes_nothing(ranges: list[tuple[int, int]]) -> None:
    given_ranges = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in ranges]
    assert split(given_ranges, min_partitions=5) == split(given_ranges[::-1], min_partitions=5)


def test_a_range_is_divided_into_nearly_equal_parts_the_larger_ones_last() -> None:
    assert [part.size for part in divide(OffsetRange(T1, 7, 18), 4)] == [2, 3, 3, 3]
    assert divide(OffsetRange(T2, 0, 2), 5) == [OffsetRange(T2, 0, 1), OffsetRange(T2, 1, 2)]
