"""Runs a job: start, monitor, restart after transient failures, report the result."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from klamm.config import ConfigError
from klamm.errors import BrokerError
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.query import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 60.0
WATCH_S: Final = 0.2

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
FENCED: Final = 3  # another run of the job has taken over
DATA_LOST: Final = 4  # offsets to be read were deleted
BAD_RECORD: Final = 5  # a record does not fit the schema, and there is no topic for dead letters
ROWS_LOST: Final = 6  # a decided batch lacks rows that cannot be written again (txn.mode=per-task)

# Error of a failed query -> exit code. Any other error is retried.
_FINAL: Final[Mapping[str, int]] = {
    "SinkFencedError": FENCED,
    "DataLossError": DATA_LOST,
    "LostRowsError": ROWS_LOST,
    "ManyWritersError": FAILED,
    "UnknownTopicError": FAILED,
    "ConfigError": MISUSED,
}
# With its place: the text alone is in the plan that Spark prints with every failure.
_BAD_RECORD: Final = re.compile(r"the record does not fit source\.schema: \S+-\d+ offset \d+")


class JobFailedError(Exception):
    """The job ended with an error; `exit_code` is its class."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run(
    spark: SparkSession,
    job: Job,
    *,
    say: Callable[[str], None],
    report: Callable[[Mapping[str, Any]], None],
    sleep: Callable[[float], None] = time.sleep,
    restarts: int | None = None,
) -> None:
    """Run until the job ends. Raises JobFailedError when starting it again would not help.

    `report` gets the progress of every batch. `restarts` is how often a failed query is started again in a
    row; None is without end. A batch that succeeds starts the count again.
    """
    failures = 0
    while True:
        seen = _Progress(report)
        try:
            _follow(started(spark, job), seen, sleep)
            return
        except ConfigError as error:
            raise JobFailedError(str(error), MISUSED) from error
        except BrokerError as error:
            raise JobFailedError(str(error), FAILED) from error
        except PySparkException as error:
            text = str(error)
            exit_code = final_code(text, is_analysis=isinstance(error, AnalysisException))
            if exit_code is not None:
                raise JobFailedError(cause_of(text), exit_code) from error
            failures = 1 if seen.count else failures + 1
            if restarts is not None and failures > restarts:
                raise JobFailedError(cause_of(text), FAILED) from error
            pause_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (failures - 1))
            say(f"{cause_of(text)}; starting again in {pause_s:g} s")
            sleep(pause_s)


def final_code(text: str, *, is_analysis: bool = False) -> int | None:
    """The exit code of a failure that starting again does not mend; None for one that may pass."""
    if is_analysis:
        return MISUSED
    if _BAD_RECORD.search(text):
        return BAD_RECORD
    return next((exit_code for word, exit_code in _FINAL.items() if word in text), None)


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
    """Reports each batch once."""

    def __init__(self, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._report = report
        self._last = -1
        self.count = 0

    def look(self, query: Any) -> None:
        for progress in query.recentProgress:
            if progress["batchId"] > self._last and progress["numInputRows"]:
                self._last = progress["batchId"]
                self.count += 1
                self._report(summary(progress))


def summary(progress: Any) -> dict[str, Any]:
    """A batch in a few numbers."""
    lag = 0
    # By branch of the query: dead letters and good rows read the same offsets.
    unique = {json.dumps(item["endOffset"], default=str): item for item in progress["sources"]}
    for item in unique.values():
        latest, end = _positions(item["latestOffset"]), _positions(item["endOffset"])
        lag += sum(max(0, offset - end.get(key, 0)) for key, offset in latest.items())
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        "rows_per_second": round(progress["processedRowsPerSecond"] or 0.0, 1),
        "lag": lag,
        "state_rows": sum(item["numRowsTotal"] for item in progress["stateOperators"]),
        "state_bytes": sum(item["memoryUsedBytes"] for item in progress["stateOperators"]),
        "ms": progress["durationMs"].get("triggerExecution", 0),
    }


def _positions(offset: Any) -> dict[tuple[str, str], int]:
    """Offsets of a progress report, which are JSON as text or as objects."""
    tree = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(tree, dict):
        return {}
    return {
        (topic, number): value
        for topic, partitions in tree.items()
        if not topic.startswith("$") and isinstance(partitions, dict)
        for number, value in partitions.items()
    }


def cause_of(text: str) -> str:
    """The line of a failure that names its cause: the last Python error, else the first line."""
    bad_record = _BAD_RECORD.search(text)
    if bad_record is not None:
        return f"{bad_record[0]}; set source.dead_letters to keep such records"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("klamm.") and "Error: " in line]
    if errors:
        return errors[-1].partition("Error: ")[2]
    named = [line for line in lines if "Error: " in line and not line.startswith(("File", "["))]
    return named[-1] if named else (lines[0] if lines else "unknown failure")
