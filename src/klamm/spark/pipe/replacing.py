"""A new checkpoint in place of another: as a whole or not at all, whenever its maker is killed.

The new one is written beside the old one, as `CHECKPOINT.new`. Between the two renames that follow there is
no checkpoint, and a run that found none would read everything again: whoever comes next ends the replacement.
"""

from __future__ import annotations

from typing import Final

from klamm.spark.pipe import notes, record
from klamm.spark.pipe.folders import exists, files_in, move, move_aside, remove_folder
from klamm.spark.pipe.record import JobRecord, write_record
from klamm.spark.write.steps import Hook, nowhere

DRAFT: Final = ".new"
_OURS: Final = (record.NAME, notes.NAME)


def replace_checkpoint(checkpoint: str, new: JobRecord, *, at: Hook = nowhere) -> str | None:
    """Put the old checkpoint aside, and in its place one that has only a record; where the old one is now."""
    at("before the record")
    if not _is_of_spark(checkpoint):
        write_record(checkpoint, new)  # one rename
        at("in place")
        return None
    draft = _draft(checkpoint)
    remove_folder(draft)  # of an attempt that ended before it put the old one aside
    write_record(draft, new)
    at("draft written")
    former = move_aside(checkpoint)
    at("old one aside")
    move(draft, checkpoint)
    at("in place")
    return former


def whole_checkpoint(checkpoint: str) -> str:
    """Where the checkpoint is: elsewhere only if a replacement was killed between its two renames."""
    return _draft(checkpoint) if _is_interrupted(checkpoint) else checkpoint


def end_replacement(checkpoint: str) -> bool:
    """End what a kill has interrupted; whether there was such a thing."""
    if not _is_interrupted(checkpoint):
        return False
    remove_folder(checkpoint)  # there may be notes of a run that found no checkpoint
    move(_draft(checkpoint), checkpoint)
    return True


def _draft(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}{DRAFT}"


def _is_interrupted(checkpoint: str) -> bool:
    """Whether the old checkpoint is put aside, and the new one not in its place."""
    if not exists(f"{_draft(checkpoint)}/{record.NAME}") or exists(f"{checkpoint.rstrip('/')}/{record.NAME}"):
        return False
    return not _is_of_spark(checkpoint)


def _is_of_spark(checkpoint: str) -> bool:
    """Whether a query has begun on it."""
    return any(name not in _OURS and not name.startswith(".") for name in files_in(checkpoint))
