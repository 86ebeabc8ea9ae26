"""The lag of a group: a number where it is known, and the reason where it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.groups.lag import LagStatus, LogRange, PartitionLag, partition_lags, total_lag
from klamm.groups.sinks import is_decision
from klamm.protocol.types import TopicPartition


def place(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


@pytest.mark.parametrize(
    ("committed", "log", "status", "lag", "limit"),
    [
        (4, LogRange(0, 10), LagStatus.KNOWN, 6, 6),
        (10, LogRange(0, 10), LagStatus.KNOWN, 0, 0),
        (0, LogRange(0, 0), LagStatus.KNOWN, 0, 0),
        (None, LogRange(0, 10), LagStatus.NOTHING_COMMITTED, None, 10),
        (None, LogRange(7, 7), LagStatus.KNOWN, 0, 0),  # nothing to read, wherever a consumer starts
        (50, LogRange(0, 1), LagStatus.BEYOND_END, None, 1),
        (3, LogRange(5, 9), LagStatus.BEFORE_START, None, 4),
        (5, LogRange(5, 9), LagStatus.KNOWN, 4, 4),
        (3, None, LagStatus.LOG_UNKNOWN, None, None),
        (None, None, LagStatus.LOG_UNKNOWN, None, None),
    ],
)
def test_a_lag_is_a_number_only_where_it_is_known(
    committed: int | None, log: LogRange | None, status: LagStatus, lag: int | None, limit: int | None
) -> None:
    row = PartitionLag(place(0), committed, log, None)
    assert (row.status, row.lag, row.lag_limit) == (status, lag, limit)
    assert row.is_out_of_range == (status in (LagStatus.BEFORE_START, LagStatus.BEYOND_END))


def test_every_partition_of_a_subscribed_topic_is_a_row() -> None:
    # Given a topic that has grown from two to four partitions, of which the new ones have no owner yet
    rows = partition_lags(
        committed={place(0): 10, place(1): 8},
        logs={place(number): LogRange(0, 10) for number in range(4)},
        subscribed=[place(number) for number in range(4)],
        owners={place(0): "anna", place(1): "anna"},
    )
    assert [(row.partition.partition, row.owner, row.lag) for row in rows] == [
        (0, "anna", 0),
        (1, "anna", 2),
        (2, None, None),
        (3, None, None),
    ]
    # Then their records are not left out of the total
    total = total_lag(rows)
    assert (total.lag, total.known, total.unknown, total.limit) == (None, 2, 2, 22)


def test_a_total_over_a_log_that_is_not_known_has_no_limit() -> None:
    rows = partition_lags(committed={place(0): 4, place(1): 4}, logs={place(0): LogRange(0, 10)})
    total = total_lag(rows)
    assert (total.lag, total.known, total.unknown, total.limit) == (None, 6, 1, None)


def test_a_decision_of_a_sink_is_not_a_position() -> None:
    rows = partition_lags(
        committed={place(0): 17, place(1): 4},
        logs={place(0): LogRange(0, 900), place(1): LogRange(0, 10)},
        decisions={place(0)},
    )
    assert [(row.status, row.lag) for row in rows] == [(LagStatus.SINK, None), (LagStatus.KNOWN, 6)]
    assert (total_lag(rows).lag, total_lag(rows[:1]).lag) == (6, None)
    assert total_lag(rows[:1]).counted == 0


@pytest.mark.parametrize(
    ("group", "metadata", "expected"),
    [
        ("revenue.sink", "v1;3f2a", True),
        ("revenue.sink", "p1;17;3f2a", True),
        ("revenue.sink", "", False),  # a user's group of this name
        ("revenue", "v1;3f2a", False),
    ],
)
def test_a_decision_is_known_by_its_group_and_its_mark(group: str, metadata: str, expected: bool) -> None:
    assert is_decision(group, metadata) is expected


offsets = st.integers(0, 100)


@given(st.dictionaries(st.integers(0, 5), st.tuples(st.none() | offsets, st.none() | offsets, offsets)))
def test_a_total_never_leaves_out_what_is_not_known(
    partitions: dict[int, tuple[int | None, int | None, int]],
) -> None:
    rows = partition_lags(
        committed={place(n): at for n, (at, _, _) in partitions.items() if at is not None},
        logs={
            place(n): LogRange(start, start + size)
            for n, (_, start, size) in partitions.items()
            if start is not None
        },
        subscribed=[place(n) for n in partitions],
    )
    assert [row.partition.partition for row in rows] == sorted(partitions)
    total = total_lag(rows)
    assert (total.lag is None) == (not rows or any(row.lag is None for row in rows))
    assert all(row.lag is None or row.lag >= 0 for row in rows)
    assert total.limit is None or total.limit >= total.known
