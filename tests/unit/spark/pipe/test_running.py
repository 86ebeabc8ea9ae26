"""A job that runs, without Spark: which failures are tried again, how often, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from klamm.clock import ManualClock
from klamm.errors import KlammTimeoutError
from klamm.spark.pipe import running
from klamm.spark.pipe.dead_letters import WRITTEN
from klamm.spark.pipe.failures import BAD_BATCH, FAILED, JobFailedError
from klamm.spark.pipe.job import job_of
from klamm.spark.pipe.notes import EVERY_MS, read_notes
from unit.spark.pipe.test_failures import AWAY, FUNCTION

JOB = job_of({"source": {"topics": "orders"}, "sink": {"topic": "revenue"}}, name="j")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the job has its checkpoint."""
    monkeypatch.chdir(tmp_path)


WATCHED_MS = round(running.WATCH_S * 1000)


def progress(batch_id: int) -> dict[str, Any]:
    return {
        "batchId": batch_id,
        "numInputRows": 5,
        "processedRowsPerSecond": 1.0,
        "sources": [],
        "stateOperators": [],
        "durationMs": {},
    }


class Query:
    """A query that lives for some looks, reports batches, and ends with an error or without."""

    def __init__(self, error: str | None, *, batches: int = 0, looks: int = 1, doing: str = "") -> None:
        self._error = error
        self._looks = looks
        self.status = {"message": doing}
        self.recentProgress = [progress(number) for number in range(batches)]

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self._looks -= 1
        return self._looks >= 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        if self._error is not None:
            raise PySparkException(self._error)

    def stop(self) -> None:
        pass


class Run:
    """A run of the job over queries that a test has made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *queries: Callable[[], Query]) -> None:
        self.clock = ManualClock()
        self.lines: list[str] = []
        self.batches = 0
        self.job = JOB
        self.at: Callable[[int], None] = lambda _now_ms: None
        left = list(queries)
        monkeypatch.setattr(running, "started", lambda _spark, _job: left.pop(0)())
        self.left = left

    def start(self, restarts: int | None = None) -> None:
        spark: Any = None
        running.run(
            spark,
            self.job,
            say=self.lines.append,
            report=self.count,
            sleep=self.sleep,
            clock=self.clock,
            restarts=restarts,
        )

    def sleep(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1000))
        self.at(self.clock.timestamp_ms())

    def count(self, _batch: object) -> None:
        self.batches += 1


def test_a_batch_that_fails_each_time_ends_the_job_at_the_third(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, *[lambda: Query(FUNCTION)] * 4)
    with pytest.raises(
        JobFailedError, match=r"the batch failed 3 times: ValueError: cannot handle 2"
    ) as failed:
        run.start()
    assert failed.value.exit_code == BAD_BATCH
    assert len(run.left) == 1
    assert [line.rpartition("; ")[2] for line in run.lines] == [
        "starting again in 1 s",
        "starting again in 2 s",
    ]


def test_a_batch_that_succeeds_starts_the_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failing, recovering = lambda: Query(FUNCTION), lambda: Query(FUNCTION, batches=2)
    run = Run(monkeypatch, failing, failing, recovering, failing, lambda: Query(None))
    run.start()
    assert run.batches == 2
    assert [line.rpartition(" in ")[2] for line in run.lines] == ["1 s", "2 s", "1 s", "2 s"]


def test_a_cluster_that_is_away_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> Query:
        raise KlammTimeoutError("describing topics timed out")

    run = Run(monkeypatch, *[lambda: Query(AWAY), refused] * 100, lambda: Query(None))
    run.start()
    assert len(run.lines) == 200
    assert run.lines[-1].endswith("starting again in 60 s")


def test_a_job_that_waits_for_its_cluster_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Run(monkeypatch, *[lambda: Query(AWAY)] * 10, lambda: Query(None))
    run.job = replace(JOB, checkpoint=str(tmp_path))
    ages = []

    def at(now_ms: int) -> None:
        found = read_notes(str(tmp_path))
        ages.append(now_ms - (found.updated_ms if found is not None else 0))

    run.at = at
    run.start()
    assert max(ages) < 2 * EVERY_MS
    assert len(ages) > 60


def test_a_number_of_restarts_is_for_every_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, *[lambda: Query(AWAY)] * 3)
    with pytest.raises(JobFailedError, match="describing topics timed out") as failed:
        run.start(restarts=2)
    assert failed.value.exit_code == FAILED


def test_a_batch_without_records_counts_and_a_trigger_without_a_batch_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closing = {**progress(1), "numInputRows": 0, "durationMs": {"addBatch": 3}}
    closing["observedMetrics"] = {WRITTEN: {"count": 7}}
    idle = {**progress(2), "numInputRows": 0, "durationMs": {"latestOffset": 3}}
    query = Query(None, batches=1)
    query.recentProgress += [closing, idle]
    run = Run(monkeypatch, lambda: query)
    run.start()
    found = read_notes(JOB.checkpoint)
    assert found is not None
    assert (run.batches, found.batches, found.written, found.last_batch) == (2, 2, 7, 1)


def test_a_query_that_ends_no_batch_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 200_000 // WATCHED_MS
    run = Run(monkeypatch, lambda: Query(None, looks=looks, doing="Initializing sources"))
    run.start()
    said = [line.partition(";")[0] for line in run.lines]
    assert (
        said == [f"no batch has ended for {seconds} s" for seconds in (10, 20, 40, 80, 140, 200)][: len(said)]
    )
    assert len(said) >= 5
    assert run.lines[0].endswith("Spark says: Initializing sources")


@pytest.mark.parametrize(
    ("doing", "lines"),
    [
        ("Waiting for data to arrive", ["waiting for records in orders"]),
        ("Getting offsets from klamm", ["waiting for records in orders"]),
        ("Waiting for next trigger", []),
    ],
)
def test_a_query_without_records_says_so_once(
    monkeypatch: pytest.MonkeyPatch, doing: str, lines: list[str]
) -> None:
    run = Run(monkeypatch, lambda: Query(None, batches=1, looks=200_000 // WATCHED_MS, doing=doing))
    run.start()
    assert run.lines == lines


def test_a_query_that_gets_its_first_offsets_does_not_wait_for_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doing = "Getting offsets from klamm"
    run = Run(monkeypatch, lambda: Query(None, looks=15_000 // WATCHED_MS, doing=doing))
    run.start()
    assert run.lines == [f"no batch has ended for 10 s; Spark says: {doing}"]
