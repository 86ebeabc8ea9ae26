"""Runs a job: start, monitor, restart after failures that may pass, report the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from klamm.clock import Clock, SystemClock
from klamm.config import ConfigError
from klamm.errors import BrokerError, KlammError
from klamm.protocol.errors import ErrorCode
from klamm.spark.pipe.dead_letters import METRIC, WRITTEN
from klamm.spark.pipe.failures import (
    BAD_BATCH,
    FAILED,
    MISUSED,
    JobFailedError,
    cause_of,
    final_code,
    is_outage,
)
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.notes import ENDED, EVERY_MS, STOPPED, NotesKeeper
from klamm.spark.pipe.notes import FAILED as FAILED_STATE
from klamm.spark.pipe.query import started
from klamm.spark.pipe.replacing import end_replacement
from klamm.spark.read.positions import INITIAL
from klamm.spark.read.progress import offset_tree, offsets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 60.0
WATCH_S: Final = 0.2
# How often one batch is tried, unless the cluster is away: what fails each time is in the data or the code.
TRIES_OF_A_BATCH: Final = 3
# After so much time without a batch it is said what the query does, then at longer intervals.
SILENT_MS: Final = 10_000
MAX_SILENT_MS: Final = 60_000
# What Spark says when there is nothing to do. The source waits for records while it gets offsets; the first
# time, it looks for brokers and topics there.
_IDLE: Final = "waiting for data"
_LOOKING: Final = "getting offsets"
_BETWEEN_TRIGGERS: Final = "waiting for next trigger"


def run(
    spark: SparkSession,
    job: Job,
    *,
    say: Callable[[str], None],
    report: Callable[[Mapping[str, Any]], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Clock | None = None,
    restarts: int | None = None,
) -> None:
    """Run until the job ends. Raises JobFailedError when starting it again would not help.

    `report` gets the progress of every batch. A query that failed because the cluster did not answer is
    started again without end; one that failed otherwise, until the same batch has failed TRIES_OF_A_BATCH
    times. `restarts` is how often a query is started again in a row instead, whatever the cause.
    """
    if end_replacement(job.checkpoint):
        say(f"a new checkpoint was not in its place yet, {job.checkpoint}: it is now")
    notes = NotesKeeper(job, clock or SystemClock(), say)
    state = FAILED_STATE
    try:
        _run(spark, job, notes, say, report, sleep, clock or SystemClock(), restarts)
        state = ENDED
    except KeyboardInterrupt:
        state = STOPPED
        raise
    finally:
        notes.ended(state)


def _run(
    spark: SparkSession,
    job: Job,
    notes: NotesKeeper,
    say: Callable[[str], None],
    report: Callable[[Mapping[str, Any]], None],
    sleep: Callable[[float], None],
    clock: Clock,
    restarts: int | None,
) -> None:
    failures = tries = 0
    while True:
        seen = _Progress(job, notes, say, report, clock)
        failed: Exception
        try:
            _follow(started(spark, job), seen, sleep)
            return
        except ConfigError as error:
            notes.failure(str(error))
            raise JobFailedError(str(error), MISUSED) from error
        except JobFailedError as error:
            notes.failure(str(error))
            raise
        except KlammError as error:
            notes.failure(str(error))
            if not error.retriable or _is_unknown_topic(error):
                raise JobFailedError(str(error), FAILED) from error
            cause, is_away, failed = str(error), True, error
        except PySparkException as error:
            text = str(error)
            cause = cause_of(text)
            notes.failure(cause)
            exit_code = final_code(text, is_analysis=isinstance(error, AnalysisException))
            if exit_code is not None:
                raise JobFailedError(cause, exit_code) from error
            is_away, failed = is_outage(text), error
        if seen.count:
            failures = tries = 0
        failures += 1
        tries += not is_away
        if restarts is not None and failures > restarts:
            raise JobFailedError(cause, FAILED) from failed
        if restarts is None and tries >= TRIES_OF_A_BATCH:
            raise JobFailedError(f"the batch failed {tries} times: {cause}", BAD_BATCH) from failed
        pause_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10))
        say(f"{cause}; starting again in {pause_s:g} s")
        _pause(pause_s, notes, sleep)


def _pause(pause_s: float, notes: NotesKeeper, sleep: Callable[[float], None]) -> None:
    """Wait, and leave signs of life meanwhile."""
    left_s = pause_s
    while left_s > 0:
        notes.look()
        sleep(min(left_s, EVERY_MS / 1000))
        left_s -= EVERY_MS / 1000


def _is_unknown_topic(error: KlammError) -> bool:
    return isinstance(error, BrokerError) and error.error_code == ErrorCode.unknown_topic_or_partition


def _follow(query: Any, seen: _Progress, sleep: Callable[[float], None]) -> None:
    try:
        while query.isActive:
            seen.look(query)
            sleep(WATCH_S)
        query.awaitTermination()  # raises what ended it
        seen.look(query)
    finally:
        query.stop()


class _Progress:
    """Reports each batch once, and what the query does when no batch ends for a while."""

    def __init__(
        self,
        job: Job,
        notes: NotesKeeper,
        say: Callable[[str], None],
        report: Callable[[Mapping[str, Any]], None],
        clock: Clock,
    ) -> None:
        self._job = job
        self._notes = notes
        self._say = say
        self._report = report
        self._clock = clock
        self._last = -1
        self._since_ms = clock.now_ms()
        self._silent_ms = SILENT_MS
        self._said_idle = False
        self.count = 0

    def look(self, query: Any) -> None:
        last = query.lastProgress
        if last is not None and last["batchId"] > self._last:
            for progress in query.recentProgress:
                if progress["batchId"] > self._last and _has_run(progress):
                    self._last = progress["batchId"]
                    self.count += 1
                    self._since_ms, self._silent_ms = self._clock.now_ms(), SILENT_MS
                    found = summary(progress)
                    self._notes.batch(found)
                    self._report(found)
        self._notes.look()
        self._break_silence(query)

    def _break_silence(self, query: Any) -> None:
        passed_ms = self._clock.now_ms() - self._since_ms
        if passed_ms < self._silent_ms:
            return
        doing = query.status["message"]
        has_looked = query.lastProgress is not None
        is_idle = doing.lower().startswith((_IDLE, _LOOKING) if has_looked else _IDLE)
        if is_idle or doing.lower().startswith(_BETWEEN_TRIGGERS):
            self._since_ms, self._silent_ms = self._clock.now_ms(), SILENT_MS
            if is_idle and not self._said_idle:
                self._said_idle = True
                self._say(f"waiting for records in {', '.join(self._job.topics)}")
            return
        self._silent_ms = passed_ms + min(passed_ms, MAX_SILENT_MS)
        self._say(f"no batch has ended for {passed_ms / 1000:.0f} s; Spark says: {doing}")


def _has_run(progress: Any) -> bool:
    """Whether a batch ended, perhaps one without records: a watermark closes windows in such ones."""
    return bool(progress["numInputRows"]) or "addBatch" in progress["durationMs"]


def summary(progress: Any) -> dict[str, Any]:
    """A batch in a few numbers."""
    lag = offsets = 0
    # By branch of the query: dead letters and good rows read the same offsets.
    unique = {json.dumps(item["endOffset"], default=str): item for item in progress["sources"]}
    for item in unique.values():
        latest, end = offsets_of(item["latestOffset"]), offsets_of(item["endOffset"])
        lag += sum(max(0, offset - end.get(key, 0)) for key, offset in latest.items())
        start = offsets_of(item["startOffset"]) or offsets_of(offset_tree(item["endOffset"]).get(INITIAL))
        offsets += sum(offset - start.get(key, 0) for key, offset in end.items())
    # Spark counts a row for each branch that reads it.
    rows = min(progress["numInputRows"], offsets) if offsets else progress["numInputRows"]
    observed = progress.get("observedMetrics") or {}
    dead, written = observed.get(METRIC), observed.get(WRITTEN)
    dead_count, first_dead = (0, None) if dead is None else (dead["count"], dead["first"])
    rate = (progress["processedRowsPerSecond"] or 0.0) * rows / max(1, progress["numInputRows"])
    return {
        "batch": progress["batchId"],
        "rows": rows,
        "written": 0 if written is None else written["count"],
        "rows_per_second": round(rate, 1),
        "lag": lag,
        "state_rows": sum(item["numRowsTotal"] for item in progress["stateOperators"]),
        "state_bytes": sum(item["memoryUsedBytes"] for item in progress["stateOperators"]),
        "dead_letters": dead_count,
        "first_dead_letter": first_dead,
        "ms": progress["durationMs"].get("triggerExecution", 0),
    }
