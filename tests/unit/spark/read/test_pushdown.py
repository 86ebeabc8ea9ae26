"""Filters of a query that spare reading; Spark filters again, so only what cannot match may go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from klamm.protocol.types import TopicPartition
from klamm.spark.read.pushdown import FilteringReader, earliest_time_ms, prune
from klamm.spark.read.splitting import OffsetRange
from unit.spark.world import World, ranges_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [OffsetRange(A0, 0, 10), OffsetRange(A1, 5, 10), OffsetRange(B0, 0, 3)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EqualTo(("topic",), "a"), [(A0, 0, 10), (A1, 5, 10)]),
        (In(("topic",), ("b", "c")), [(B0, 0, 3)]),
        (EqualTo(("partition",), 1), [(A1, 5, 10)]),
        (GreaterThan(("partition",), 0), [(A1, 5, 10)]),
        (LessThanOrEqual(("partition",), 0), [(A0, 0, 10), (B0, 0, 3)]),
        (In(("partition",), (1, 7)), [(A1, 5, 10)]),
        (GreaterThan(("offset",), 6), [(A0, 7, 10), (A1, 7, 10), (B0, 3, 3)]),
        (GreaterThanOrEqual(("offset",), 6), [(A0, 6, 10), (A1, 6, 10), (B0, 3, 3)]),
        (LessThan(("offset",), 6), [(A0, 0, 6), (A1, 5, 6), (B0, 0, 3)]),
        (LessThanOrEqual(("offset",), 6), [(A0, 0, 7), (A1, 5, 7), (B0, 0, 3)]),
        (EqualTo(("offset",), 2), [(A0, 2, 3), (A1, 5, 5), (B0, 2, 3)]),
        (In(("offset",), (2, 4, None)), [(A0, 2, 5), (A1, 5, 5), (B0, 2, 3)]),
        (EqualTo(("value",), b"x"), [(A0, 0, 10), (A1, 5, 10), (B0, 0, 3)]),
        (Not(EqualTo(("topic",), "a")), [(A0, 0, 10), (A1, 5, 10), (B0, 0, 3)]),
        (IsNotNull(("topic",)), [(A0, 0, 10), (A1, 5, 10), (B0, 0, 3)]),
    ],
)
def test_ranges_that_cannot_match_are_left_out(
    wanted: Filter, expected: list[tuple[TopicPartition, int, int]]
) -> None:
    assert [tuple(item) for item in prune(RANGES, [wanted])] == expected


def test_a_lower_bound_of_time_is_found_and_rounded_down() -> None:
    instant = datetime(2024, 1, 1, tzinfo=UTC)
    at_ms = int(instant.timestamp() * 1000)
    filters: list[Filter] = [GreaterThan(("timestamp",), instant), LessThan(("timestamp",), instant)]
    assert earliest_time_ms(filters) == at_ms - 1
    assert earliest_time_ms([LessThan(("timestamp",), instant)]) is None


def test_a_reader_plans_by_the_filters_and_hands_them_all_back(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, [b"1", b"2", b"3"], timestamps_ms=[1000, 2000, 3000])
    world.fill(topic, [b"4"], partition=1, timestamps_ms=[500])
    reader = world.batch(subscribe=topic, filterPushdown="true")
    assert isinstance(reader, FilteringReader)
    filters: list[Filter] = [GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))]
    assert list(reader.pushFilters(filters)) == filters
    assert [tuple(item) for item in ranges_of(reader.partitions())] == [(TopicPartition(topic, 0), 1, 3)]
    assert not isinstance(world.batch(subscribe=topic), FilteringReader)
