"""Where `klamm consume` starts: offsets, words for offsets, and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.cli.offset_plans import parse_datetime, parse_duration
from klamm.clock import Clock
from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.client.consumer.consumer import Consumer  # other commands use this module without a consumer

BEGINNING_WORDS: Final = frozenset({"beginning", "earliest", "start"})
END_WORDS: Final = frozenset({"end", "latest"})


@dataclass(frozen=True, slots=True)
class StartPoint:
    """One of: an offset, a number of records before the end, a time."""

    offset: int | None = None
    before_end: int | None = None
    timestamp_ms: int | None = None


def parse_start(text: str, clock: Clock) -> StartPoint:
    """`beginning`, `end`, `42`, `-5` (five before the end), `@TIME`. Raises ValueError.

    A time is in ISO 8601, in milliseconds since 1970, or a duration before now: `@PT1H`.
    """
    if text in BEGINNING_WORDS:
        return StartPoint(offset=0)
    if text in END_WORDS:
        return StartPoint(before_end=0)
    if text.startswith("@"):
        return StartPoint(timestamp_ms=_timestamp_ms(text[1:], clock))
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"invalid offset {text!r}: expected beginning, end, a number, -N or @TIME") from None
    return StartPoint(offset=number) if number >= 0 else StartPoint(before_end=-number)


def _timestamp_ms(text: str, clock: Clock) -> int:
    if text.isdecimal():
        return int(text)
    if text.upper().startswith("P"):
        return max(0, clock.timestamp_ms() - parse_duration(text))
    return parse_datetime(text)


def seek_all(consumer: Consumer, partitions: Sequence[TopicPartition], start: StartPoint) -> None:
    """Seek every partition to its start, limited to the offsets that it holds."""
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    if start.timestamp_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, start.timestamp_ms))
        for partition, first in found.items():
            consumer.seek(partition, ends[partition] if first is None else first.offset)
        return
    if start.offset is not None and partitions and all(start.offset > ends[each] for each in partitions):
        ended = ", ".join(f"{each} ends at {ends[each]}" for each in partitions)
        raise ConfigError("offset", f"no partition has offset {start.offset}: {ended}")
    for partition in partitions:
        wanted = ends[partition] - start.before_end if start.before_end is not None else start.offset
        assert wanted is not None
        consumer.seek(partition, min(ends[partition], max(begins[partition], wanted)))
