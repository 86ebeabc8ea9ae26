"""What Spark has written down about a query: its batches, and where the next one starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from klamm.errors import KlammError
from klamm.spark.pipe.folders import exists, files_in, has_folder, replace_text, text_of
from klamm.spark.read.positions import OffsetJson, Positions, from_json, initial_of
from klamm.spark.write.decisions import BatchKey, lowest, topics_of

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
_NO_OFFSET: Final = "-"  # of a source that had none in this batch


class CheckpointError(KlammError):
    """A checkpoint that cannot be read, or was not made by Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """A batch in Spark's offset log: where each source ends."""

    conf: str  # Spark's own line: watermark, time, settings
    sources: tuple[OffsetJson, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A query that has run before."""

    query_id: str
    batch_id: int  # the last batch that was planned
    is_done: bool  # whether that one has ended; else it is run again
    next_offsets: Positions
    end_offsets: Positions  # of the last batch that was planned
    source_count: int = 1
    has_state: bool = False

    @property
    def key(self) -> BatchKey:
        return BatchKey(self.query_id, self.batch_id)


def read_checkpoint(location: str) -> Checkpoint | None:
    """The state of a query; None when it has not planned a batch. Raises CheckpointError."""
    folder = location.rstrip("/")
    try:
        numbers = _numbers(f"{folder}/{OFFSETS}")
        ended = max(_numbers(f"{folder}/{COMMITS}"), default=-1)
        if ended > max(numbers, default=-1):
            # Spark would give that number to another batch, which the sink would take for this one.
            raise CheckpointError(
                f"checkpoint {location} is damaged: batch {ended} has ended, and {OFFSETS}/{ended} is missing"
            )
        if not exists(f"{folder}/metadata"):
            if numbers:
                raise CheckpointError(f"checkpoint {location} is damaged: it has batches, and no metadata")
            return None
        query_id = str(json.loads(text_of(f"{folder}/metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise CheckpointError(f"checkpoint {location}: metadata cannot be read: {error}") from error
    if not numbers:
        return None  # the query was made, and no batch yet
    batch_id = max(numbers)
    entry = read_entry(folder, batch_id)
    end = _positions(entry)
    is_done = exists(f"{folder}/{COMMITS}/{batch_id}")
    if is_done:
        start = end
    elif batch_id > 0:
        if batch_id - 1 not in numbers:
            raise CheckpointError(
                f"checkpoint {location} is damaged: batch {batch_id} starts where {OFFSETS}/{batch_id - 1} "
                "ends, which is missing"
            )
        start = _positions(read_entry(folder, batch_id - 1))
    else:
        start = _first_offsets(folder, entry)
    return Checkpoint(
        query_id=query_id,
        batch_id=batch_id,
        is_done=is_done,
        next_offsets=start,
        end_offsets=end,
        source_count=len(entry.sources),
        has_state=has_state(folder),
    )


def has_state(checkpoint: str) -> bool:
    """Whether a query has kept state there."""
    return bool(_numbers(f"{checkpoint.rstrip('/')}/state"))


def _numbers(folder: str) -> list[int]:
    return [int(name) for name in files_in(folder) if name.isdigit()] if has_folder(folder) else []


def read_entry(checkpoint: str, batch_id: int) -> OffsetEntry:
    """A batch of the offset log. Raises CheckpointError when it is damaged or of another format."""
    location = f"{checkpoint.rstrip('/')}/{OFFSETS}/{batch_id}"
    try:
        lines = text_of(location).splitlines()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CheckpointError(f"{location} cannot be read: {error}") from error
    if lines and lines[0].startswith("v") and lines[0] != "v1":
        raise CheckpointError(
            f"{location} has format {lines[0]}, only v1 is known: "
            "set spark.sql.streaming.offsetLog.formatVersion=1 when you start the query"
        )
    if len(lines) < 3 or lines[0] != "v1":
        raise CheckpointError(
            f"{location} is damaged: it has {len(lines)} lines, expected v1 and three or more"
        )
    found = []
    for line in lines[2:]:
        written = topics_of(line)
        if written is None and line != _NO_OFFSET:
            raise CheckpointError(f"{location} is damaged, or not of a query that reads topics: {line[:80]}")
        found.append(written or {})
    return OffsetEntry(conf=lines[1], sources=tuple(found))


def write_entry(checkpoint: str, batch_id: int, entry: OffsetEntry) -> None:
    """Replace a batch of the offset log. No query may be running."""
    lines = ["v1", entry.conf, *(_line(source) for source in entry.sources)]
    replace_text(f"{checkpoint.rstrip('/')}/{OFFSETS}/{batch_id}", "\n".join(lines))


def _line(source: OffsetJson) -> str:
    return json.dumps(source) if source else _NO_OFFSET


def _positions(entry: OffsetEntry) -> Positions:
    return lowest([from_json(source) for source in entry.sources])


def _first_offsets(folder: str, entry: OffsetEntry) -> Positions:
    """Where the first batch starts: klamm's source carries it in its end, the official one has a file."""
    starts = [initial for source in entry.sources if (initial := initial_of(source)) is not None]
    if not starts:
        for name in files_in(f"{folder}/sources"):
            starts += _kept_start(f"{folder}/sources/{name}/0")
    if not starts:
        raise CheckpointError(
            f"checkpoint {folder}: its first batch has not ended, and its start is not known"
        )
    return lowest(starts)


def _kept_start(location: str) -> list[Positions]:
    if not exists(location):
        return []
    text = text_of(location).lstrip("\0")
    written: dict[str, Any] | None = topics_of(text.partition("\n")[2]) if text.startswith("v1\n") else None
    if written is None:
        raise CheckpointError(f"{location} is damaged: expected v1 and offsets as JSON")
    return [from_json(written)]
