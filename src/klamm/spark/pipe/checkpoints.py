"""What Spark has written down about a query: its batches, and where the next one starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from klamm.spark.read.positions import Positions, initial_of
from klamm.spark.write.decisions import opened, running_batch, source_offsets, text_of, topics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A query that has run before."""

    query_id: str
    batch_id: int  # the last batch that was planned
    is_done: bool  # whether that one has ended; else it is run again
    next_offsets: Positions


def read_checkpoint(location: str) -> Checkpoint | None:
    """The state of a query; None when it has not planned a batch, or Python cannot read the file system."""
    found = running_batch(location)
    if found is None:
        return None
    folder = location.rstrip("/")
    is_done = _exists(f"{folder}/commits/{found.batch_id}")
    try:
        if is_done:
            positions = source_offsets(location, found.batch_id)
        elif found.batch_id > 0:
            positions = source_offsets(location, found.batch_id - 1)
        else:
            positions = _first_offsets(folder)
    except OSError:
        return None  # the query was made, and no batch yet
    return Checkpoint(
        query_id=found.query_id, batch_id=found.batch_id, is_done=is_done, next_offsets=positions
    )


def _first_offsets(folder: str) -> Positions:
    """Where the first batch starts, which its end carries."""
    found: Positions = {}
    for line in text_of(f"{folder}/offsets/0").splitlines()[2:]:
        written: dict[str, Any] = topics_of(line) or {}
        found |= initial_of(written) or {}
    return found


def _exists(location: str) -> bool:
    try:
        system, path = opened(location)
        return bool(system.get_file_info(path).type == pafs.FileType.File)
    except (OSError, ValueError, pa.ArrowException):
        return False
