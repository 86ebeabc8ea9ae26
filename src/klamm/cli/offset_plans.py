"""Planning a reset of offsets: from targets to offsets, without changing anything."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import ListedOffset
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.client.admin.results import Results
from klamm.clock import Clock, SystemClock
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

    def row(self) -> tuple[object, ...]:
        before = "-" if self.current is None else self.current
        return self.partition.topic, self.partition.partition, before, self.target

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "from": self.current,
            "to": self.target,
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
    timed: dict[TopicPartition, int] = {}
    if target.kind == "timestamp":
        timed = _offsets(admin.list_offsets(dict.fromkeys(chosen, target.number)))
    plans = []
    for key in chosen:
        current = committed[key].offset if key in committed else None
        offset = _target(target, current, earliest[key], latest[key], timed.get(key, -1), wanted.get(key))
        if offset is None:
            raise ValueError(f"{group} has no committed offset for {key}, so --shift-by has no start")
        plans.append(OffsetPlan(key, current, min(max(offset, earliest[key]), latest[key])))
    return plans


def _target(
    target: Target, current: int | None, earliest: int, latest: int, timed: int, wanted: int | None
) -> int | None:
    match target.kind:
        case "earliest":
            return earliest
        case "latest":
            return latest
        case "offset":
            return target.number
        case "timestamp":
            return timed if timed >= 0 else latest
        case "file":
            return wanted
        case "shift":
            return None if current is None else current + target.number
        case _:
            return latest if current is None else current  # as in Kafka


def _offsets(found: Results[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    return {key: item.offset for key, item in found.unwrap().items()}
