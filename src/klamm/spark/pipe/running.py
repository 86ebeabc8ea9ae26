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
from klamm.spark.pipe.query import started
from klamm.spark.read.positions import INITIAL

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
    failures = tries = 0
    while True:
        seen = _Progress(job, say, report, clock or SystemClock())
        failed: Exception
        try:
            _follow(started(spark, job), seen, sleep)
            return
        except ConfigError as error:
            raise JobFailedError(str(error), MISUSED) from error
        except KlammError as error:
            if not error.retriable or _is_unknown_topic(error):
                raise JobFailedError(str(error), FAILED) from error
            cause, is_away, failed = str(error), True, error
        except PySparkException as error:
            text = str(error)
            cause = cause_of(text)
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
        sleep(pause_s)


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
        say: Callable[[str], None],
        report: Callable[[Mapping[str, Any]], None],
        clock: Clock,
    ) -> None:
        self._job = job
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
                if progress["batchId"] > self._last and progress["numInputRows"]:
                    self._last = progress["batchId"]
                    self.count += 1
                    self._since_ms, self._silent_ms = self._clock.now_ms(), SILENT_MS
                    self._report(summary(progress))
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


def summary(progress: Any) -> dict[str, Any]:
    """A batch in a few numbers."""
    lag = offsets = 0
    # By branch of the query: dead letters and good rows read the same offsets.
    unique = {json.dumps(item["endOffset"], default=str): item for item in progress["sources"]}
    for item in unique.values():
        latest, end = _positions(item["latestOffset"]), _positions(item["endOffset"])
        lag += sum(max(0, offset - end.get(key, 0)) for key, offset in latest.items())
        start = _positions(item["startOffset"]) or _positions(_tree(item["endOffset"]).get(INITIAL))
        offsets += sum(offset - start.get(key, 0) for key, offset in end.items())
    # Spark counts a row for each branch that reads it.
    rows = min(progress["numInputRows"], offsets) if offsets else progress["numInputRows"]
    rate = (progress["processedRowsPerSecond"] or 0.0) * rows / max(1, progress["numInputRows"])
    return {
        "batch": progress["batchId"],
        "rows": rows,
        "rows_per_second": round(rate, 1),
        "lag": lag,
        "state_rows": sum(item["numRowsTotal"] for item in progress["stateOperators"]),
        "state_bytes": sum(item["memoryUsedBytes"] for item in progress["stateOperators"]),
        "ms": progress["durationMs"].get("triggerExecution", 0),
    }


def _positions(offset: Any) -> dict[tuple[str, str], int]:
    """Offsets of a progress report."""
    return {
        (topic, number): value
        for topic, partitions in _tree(offset).items()
        if not topic.startswith("$") and isinstance(partitions, dict)
        for number, value in partitions.items()
    }


def _tree(offset: Any) -> Mapping[str, Any]:
    """Offsets are JSON as text or as objects."""
    tree = json.loads(offset) if isinstance(offset, str) else offset
    return tree if isinstance(tree, dict) else {}
