"""Planning a reset of offsets: from targets to offsets, without changing anything."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import ListedOffset
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.client.admin.results import Results
from klamm.clock import Clock, SystemClock
from klamm.groups.lag import LogRange
from klamm.protocol.types import TopicPartition

DURATION = re.compile(
    r"(?P<sign>-)?P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """One partition's move."""

    partition: TopicPartition
    current: int | None
    target: int
    note: str | None = None  # why the target is another one than was asked for, or where it leads

    def row(self) -> tuple[object, ...]:
        before = "-" if self.current is None else self.current
        return self.partition.topic, self.partition.partition, before, self.target, self.note or ""

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "from": self.current,
            "to": self.target,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset."""

    kind: str  # earliest, latest, current, offset, shift, timestamp, file
    number: int = 0
    file: Path | None = None


def parse_target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    from_file: Path | None,
    clock: Clock | None = None,
) -> Target:
    """The given target; ValueError when none or several were given."""
    now_ms = (clock or SystemClock()).timestamp_ms()
    candidates: list[Callable[[], Target]] = []
    if to_earliest:
        candidates.append(lambda: Target("earliest"))
    if to_latest:
        candidates.append(lambda: Target("latest"))
    if to_current:
        candidates.append(lambda: Target("current"))
    if to_offset is not None:
        candidates.append(lambda: Target("offset", to_offset))
    if shift_by is not None:
        candidates.append(lambda: Target("shift", shift_by))
    if to_datetime is not None:
        candidates.append(lambda: Target("timestamp", parse_datetime(to_datetime)))
    if by_duration is not None:
        candidates.append(lambda: Target("timestamp", max(0, now_ms - parse_duration(by_duration))))
    if from_file is not None:
        candidates.append(lambda: Target("file", file=from_file))
    if len(candidates) != 1:
        raise ValueError(
            "give exactly one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-datetime, --by-duration, --from-file"
        )
    return candidates[0]()


def parse_datetime(text: str) -> int:
    """ISO 8601 as milliseconds; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text}: expected a time, as in 2026-01-31T08:00:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))  # negative times have special meanings


def parse_duration(text: str) -> int:
    """ISO 8601 as milliseconds: PT2H30M, P1D, P1DT12H."""
    match = DURATION.fullmatch(text.strip())
    found = {key: value for key, value in (match.groupdict() if match else {}).items() if key in SECONDS}
    if match is None or not any(found.values()):
        raise ValueError(f"{text}: expected a duration, as in PT2H30M or P1D")
    total = sum(float(value) * SECONDS[key] for key, value in found.items() if value)
    return round(total * 1000) * (-1 if match["sign"] else 1)


def read_csv(file: Path) -> dict[TopicPartition, int]:
    """Lines topic,partition,offset; ValueError names the invalid line."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {file}: {error}") from None
    wanted: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row:
            continue
        if len(row) != 3 or not row[1].strip().isdecimal() or not row[2].strip().isdecimal():
            raise ValueError(f"{file}, line {number}: expected topic,partition,offset")
        wanted[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    return wanted


def chosen_partitions(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """`TOPIC` means all its partitions, `TOPIC:0,1` only these; ValueError for anything else."""
    chosen: list[TopicPartition] = []
    whole: list[str] = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        if not colon:
            whole.append(name)
            continue
        if not name or not all(number.isdecimal() for number in numbers.split(",")):
            raise ValueError(f"{text}: expected TOPIC or TOPIC:0,1")
        chosen += [TopicPartition(name, int(number)) for number in numbers.split(",")]
    if whole:
        for name, topic in admin.describe_topics(whole).unwrap().items():
            chosen += [TopicPartition(name, item.partition) for item in topic.partitions]
    return sorted(set(chosen))


def plan_reset(admin: Admin, group: str, target: Target, topics: Sequence[str]) -> list[OffsetPlan]:
    """The new offset of each partition, limited to the range of its log, as Kafka does."""
    committed = admin.list_group_offsets(group)
    if target.kind == "file" and target.file is not None:
        wanted = read_csv(target.file)
        chosen = sorted(wanted)
    else:
        wanted = {}
        chosen = chosen_partitions(admin, topics) if topics else sorted(committed)
    if not chosen:
        return []
    earliest = _offsets(admin.list_offsets(dict.fromkeys(chosen, EARLIEST)))
    latest = _offsets(admin.list_offsets(dict.fromkeys(chosen, LATEST)))
    if target.kind == "timestamp":
        wanted = _offsets(admin.list_offsets(dict.fromkeys(chosen, target.number)))
    plans = []
    for key in chosen:
        current = committed[key].offset if key in committed else None
        if target.kind == "shift" and current is None:
            raise ValueError(f"{group} has no committed offset for {key}, so --shift-by has no start")
        place = _Place(current, LogRange(earliest[key], latest[key]), wanted.get(key, -1))
        plans.append(OffsetPlan(key, current, *_target(target, place)))
    return plans


class _Place(NamedTuple):
    """What is known of a partition before a reset."""

    current: int | None
    log: LogRange
    wanted: int  # by the file, or by the time: -1 if no record is that late


def _target(target: Target, place: _Place) -> tuple[int, str | None]:
    """The new offset, and why it is another one than was asked for."""
    start, end = place.log.start, place.log.end
    match target.kind:
        case "earliest":
            return start, None
        case "latest":
            return end, None
        case "timestamp" if place.wanted < 0:
            return end, "the end: no record is that late"
        case "timestamp" | "file":
            asked = place.wanted
        case "offset":
            asked = target.number
        case "shift":
            asked = (place.current or 0) + target.number
        case _ if place.current is None:  # as in Kafka
            return end, "the end: nothing is committed"
        case _:
            asked = place.current
    if asked < start:
        return start, f"the start: {asked} is before the start"
    return min(asked, end), f"the end: {asked} is beyond the end" if asked > end else None


def plan_import(admin: Admin, group: str, wanted: Mapping[TopicPartition, int]) -> list[OffsetPlan]:
    """The offsets of a file, as they are; those that a log does not have are noted."""
    committed = admin.list_group_offsets(group)
    starts = (
        admin.list_offsets(dict.fromkeys(wanted, EARLIEST), raise_errors=False).successes if wanted else {}
    )
    ends = admin.list_offsets(dict.fromkeys(wanted, LATEST), raise_errors=False).successes if wanted else {}
    plans = []
    for key, offset in sorted(wanted.items()):
        if key not in starts or key not in ends:
            note = "the log is not known"
        elif offset < starts[key].offset:
            note = f"OUT OF RANGE: before the start, {starts[key].offset}"
        elif offset > ends[key].offset:
            note = f"OUT OF RANGE: beyond the end, {ends[key].offset}"
        else:
            note = None
        plans.append(OffsetPlan(key, committed[key].offset if key in committed else None, offset, note))
    return plans


def _offsets(found: Results[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    return {key: item.offset for key, item in found.unwrap().items()}
