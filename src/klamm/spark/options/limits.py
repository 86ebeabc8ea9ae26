"""Where a query starts and ends, as its options state it, before any lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.names import Given
from klamm.spark.options.values import one_word, time_ms
from klamm.spark.read.positions import EARLIEST, LATEST, Positions, parse_positions, parse_times


class Named(Enum):
    """A place that has a name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"  # the committed offsets of a group


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition; -2 and -1 stand for earliest and latest."""

    option: str
    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after an instant, in every partition."""

    option: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after an instant of each partition's own."""

    option: str
    times_ms: Mapping[TopicPartition, int]


Limit = Named | AtOffsets | AtTime | AtTimes


def starting_limit(given: Given, *, is_streaming: bool) -> Limit:
    """Where reading starts: an instant goes before instants per partition, and those before offsets."""
    one_word(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    default = Named.LATEST if is_streaming else Named.EARLIEST
    limit = _limit(given, "starting", default)
    if is_streaming:
        return limit
    if limit is Named.LATEST:
        raise ConfigError(
            "startingOffsets",
            "invalid value latest for startingOffsets: a batch would be empty; expected earliest, or JSON",
        )
    _refuse_offset(limit, LATEST, "start at latest (-1)")
    return limit


def ending_limit(given: Given) -> Limit:
    """Where a batch ends."""
    limit = _limit(given, "ending", Named.LATEST)
    if limit in (Named.EARLIEST, Named.GROUP):
        assert isinstance(limit, Named)
        raise ConfigError(
            "endingOffsets",
            f"invalid value {limit.value} for endingOffsets: expected latest, or offsets as JSON",
        )
    _refuse_offset(limit, EARLIEST, "end at earliest (-2)")
    return limit


def _limit(given: Given, side: str, default: Named) -> Limit:
    instant_ms = time_ms(given, f"{side}Timestamp")
    if instant_ms is not None:
        return AtTime(f"{side}Timestamp", instant_ms)
    by_time = f"{side}OffsetsByTimestamp"
    if (text := given.get(by_time)) is not None:
        return AtTimes(by_time, parse_times(by_time, text))
    option = f"{side}Offsets"
    text = given.get(option)
    if text is None:
        return default
    named = next((item for item in Named if item.value == text.lower()), None)
    if named is not None:
        return named
    if not text.startswith("{"):
        words = "earliest, latest, group" if side == "starting" else "latest"
        raise ConfigError(
            option,
            f'invalid value {text} for {option}: expected {words}, or JSON as in {{"orders": {{"0": 23}}}}',
        )
    return AtOffsets(option, parse_positions(option, text))


def _refuse_offset(limit: Limit, refused: int, what: str) -> None:
    if not isinstance(limit, AtOffsets):
        return
    for partition, offset in limit.positions.items():
        if offset == refused:
            raise ConfigError(limit.option, f"{limit.option}: {partition} cannot {what} in a batch")


def check_order(start: Limit, end: Limit) -> None:
    """Reject ranges that are reversed, as far as that is known without a broker."""
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_pairs(start.option, start.positions, end.option, end.positions, lambda value: value >= 0)
    elif isinstance(start, AtTimes) and isinstance(end, AtTimes):
        _check_pairs(start.option, start.times_ms, end.option, end.times_ms, lambda _value: True)
    elif isinstance(start, AtTime) and isinstance(end, AtTime) and start.time_ms > end.time_ms:
        raise ConfigError(
            end.option,
            f"{end.option}={end.time_ms} is before {start.option}={start.time_ms}: swap them",
        )


def _check_pairs(
    start_option: str,
    starts: Mapping[TopicPartition, int],
    end_option: str,
    ends: Mapping[TopicPartition, int],
    counts: Callable[[int], bool],
) -> None:
    if starts.keys() != ends.keys():
        odd = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
        raise ConfigError(
            end_option, f"{start_option} and {end_option} must name the same partitions ({odd})"
        )
    for partition, start in starts.items():
        end = ends[partition]
        if counts(start) and counts(end) and start > end:
            raise ConfigError(
                end_option,
                f"{end_option}: {partition} ends at {end}, before its start at {start} ({start_option})",
            )


def check_resolved_order(starts: Positions, ends: Positions) -> None:
    """The same once both sides are offsets."""
    for partition, start in sorted(starts.items()):
        if ends[partition] < start:
            raise ConfigError(
                "endingOffsets",
                f"{partition} would end at {ends[partition]}, before its start at {start}: change where it "
                "starts or ends (with read_committed, a log ends before its first open transaction)",
            )
