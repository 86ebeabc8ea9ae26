"""What a job has done, noted beside its checkpoint while it runs: `klamm pipe status` reads it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa

from klamm.clock import Clock
from klamm.spark.pipe.folders import exists, replace_text, text_of
from klamm.spark.pipe.job import Job

NAME: Final = "klamm-status.json"
EVERY_MS: Final = 5_000  # without a batch; what is older was left behind by a run that was killed
AT_MOST_EVERY_MS: Final = 1_000
RUNNING: Final = "running"
ENDED: Final = "ended"
STOPPED: Final = "stopped"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNotes:
    """Counts are of all runs since `since_ms`; times are milliseconds since 1970."""

    since_ms: int
    updated_ms: int
    state: str
    run_since_ms: int
    place: str = ""  # host and process
    batches: int = 0
    read: int = 0
    written: int = 0
    dead_letters: int = 0
    failures: int = 0
    last_failure: str | None = None
    last_failure_ms: int | None = None
    last_batch: int | None = None
    last_batch_ms: int | None = None


class NotesKeeper:
    """Keeps the notes of a run; a folder that cannot be written is told once, and the job goes on."""

    def __init__(self, job: Job, clock: Clock, say: Callable[[str], None]) -> None:
        self._location = f"{job.checkpoint.rstrip('/')}/{NAME}"
        self._clock = clock
        self._say = say
        now_ms = clock.timestamp_ms()
        known = read_notes(job.checkpoint) or JobNotes(
            since_ms=now_ms, updated_ms=now_ms, state=RUNNING, run_since_ms=now_ms
        )
        place = f"{socket.gethostname()}, process {os.getpid()}"
        self._notes = replace(known, state=RUNNING, run_since_ms=now_ms, place=place)
        self._written_ms: int | None = None
        self._is_new = True
        self._is_told = False

    def batch(self, found: Mapping[str, Any]) -> None:
        """A batch has ended."""
        notes = self._notes
        self._notes = replace(
            notes,
            batches=notes.batches + 1,
            read=notes.read + found["rows"],
            written=notes.written + found["written"],
            dead_letters=notes.dead_letters + found["dead_letters"],
            last_batch=found["batch"],
            last_batch_ms=self._clock.timestamp_ms(),
        )
        self._is_new = True

    def failure(self, cause: str) -> None:
        """The query failed, and may be started again."""
        self._notes = replace(
            self._notes,
            failures=self._notes.failures + 1,
            last_failure=cause,
            last_failure_ms=self._clock.timestamp_ms(),
        )
        self._is_new = True

    def ended(self, state: str) -> None:
        """The run is over."""
        self._notes = replace(self._notes, state=state)
        self._write()

    def look(self) -> None:
        """Write what is new, and every few seconds that the run is alive."""
        since_ms = None if self._written_ms is None else self._clock.timestamp_ms() - self._written_ms
        if since_ms is None or since_ms >= (AT_MOST_EVERY_MS if self._is_new else EVERY_MS):
            self._write()

    def _write(self) -> None:
        now_ms = self._clock.timestamp_ms()
        self._notes = replace(self._notes, updated_ms=now_ms)
        self._written_ms, self._is_new = now_ms, False
        try:
            replace_text(self._location, json.dumps({"format": 1, **asdict(self._notes)}))
        except (OSError, pa.ArrowException) as error:
            if not self._is_told:
                self._is_told = True
                self._say(
                    f"cannot write {self._location}, klamm pipe status will not know of this run: {error}"
                )


def read_notes(checkpoint: str) -> JobNotes | None:
    """The notes of a job; None where there are none that can be read."""
    location = f"{checkpoint.rstrip('/')}/{NAME}"
    if not exists(location):
        return None
    try:
        tree = json.loads(text_of(location))
        known = {name: tree[name] for name in JobNotes.__slots__ if name in tree}
        return JobNotes(**known)
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException):
        return None
