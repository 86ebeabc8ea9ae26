"""Filters of a query that spare reading: by topic, partition, offset, and the lower bound of a timestamp.

Spark filters again whatever is read, so it is enough to leave out what cannot match.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from klamm.spark.options.options import SourceOptions
from klamm.spark.read.batch_reader import BatchReader
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.splitting import OffsetRange

_COMPARED = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


class FilteringReader(BatchReader):
    """A batch reader with filter pushdown.

    A class of its own: Spark rejects a reader with this method while
    `spark.sql.python.filterPushdown.enabled` is false, which it is by default.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self.filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use filters to narrow ranges, and return all of them: Spark applies them exactly."""
        self.filters = list(filters)
        return filters

    def pruned(self, ranges: list[OffsetRange], lookup: ClusterLookup) -> list[OffsetRange]:
        kept = prune(ranges, self.filters)
        since_ms = earliest_time_ms(self.filters)
        if since_ms is None or not kept:
            return kept
        # The first record at or after an instant: all before it are older, whatever the order of times.
        first = lookup.offsets({item.partition: since_ms for item in kept})
        return [_from(item, first[item.partition]) for item in kept]


def prune(ranges: Iterable[OffsetRange], filters: Iterable[Filter]) -> list[OffsetRange]:
    """The ranges that may hold a match."""
    kept = list(ranges)
    for item in filters:
        kept = [left for found in kept if (left := _pruned(found, item)) is not None]
    return kept


def _pruned(found: OffsetRange, wanted: Filter) -> OffsetRange | None:
    if isinstance(wanted, In):
        values: tuple[Any, ...] = tuple(wanted.value)
        match wanted.attribute:
            case ("topic",):
                return found if found.partition.topic in values else None
            case ("partition",):
                return found if found.partition.partition in values else None
            case ("offset",):
                numbers = [value for value in values if value is not None]
                return _between(found, min(numbers), max(numbers) + 1) if numbers else None
        return found
    if not isinstance(wanted, _COMPARED):
        return found
    match wanted.attribute:
        case ("topic",):
            return found if _holds(wanted, found.partition.topic) else None
        case ("partition",):
            return found if _holds(wanted, found.partition.partition) else None
        case ("offset",):
            return _by_offset(found, wanted)
    return found


def _holds(wanted: Filter, actual: Any) -> bool:
    value: Any = wanted.value  # type: ignore[attr-defined]  # every comparison has one
    match wanted:
        case EqualTo() | EqualNullSafe():
            return bool(actual == value)
        case GreaterThan():
            return bool(actual > value)
        case GreaterThanOrEqual():
            return bool(actual >= value)
        case LessThan():
            return bool(actual < value)
        case _:
            return bool(actual <= value)


def _by_offset(found: OffsetRange, wanted: Filter) -> OffsetRange | None:
    value: int = wanted.value  # type: ignore[attr-defined]  # every comparison has one
    match wanted:
        case EqualTo() | EqualNullSafe():
            return _between(found, value, value + 1)
        case GreaterThan():
            return _between(found, value + 1, found.next_offset)
        case GreaterThanOrEqual():
            return _between(found, value, found.next_offset)
        case LessThan():
            return _between(found, found.start_offset, value)
        case _:
            return _between(found, found.start_offset, value + 1)


def _between(found: OffsetRange, start_offset: int, next_offset: int) -> OffsetRange:
    start = min(max(found.start_offset, start_offset), found.next_offset)
    end = max(min(found.next_offset, next_offset), start)
    return OffsetRange(found.partition, start, end)


def _from(found: OffsetRange, first_offset: int) -> OffsetRange:
    """The range from an offset on; -1 means that no record is young enough."""
    return _between(found, found.next_offset if first_offset < 0 else first_offset, found.next_offset)


def earliest_time_ms(filters: Iterable[Filter]) -> int | None:
    """The youngest lower bound that the filters give for column timestamp, rounded down."""
    bounds = [
        _as_ms(item.value)
        for item in filters
        if isinstance(item, EqualTo | GreaterThan | GreaterThanOrEqual)
        and item.attribute == ("timestamp",)
        and isinstance(item.value, datetime)
    ]
    return max(bounds, default=None)


def _as_ms(instant: datetime) -> int:
    aware = instant if instant.tzinfo is not None else instant.astimezone(UTC)
    return max(0, int(aware.timestamp() * 1000) - 1)
