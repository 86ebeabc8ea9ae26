"""kill -9 at every step of an exactly-once batch, of the JVM, a Python process or the broker: no row twice.

Each test runs queries that stop at several places, of both protocols, and on both kinds of broker unless the
broker is what dies. All of them reach their place before anything is killed. KLAMM_ALL_CRASHES=1
(`make test-crash`) runs all of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from interop.kafka_tools import ApacheKafka, free_port
from interop.processes import ROOT, KlammProcess, LineProcess
from klamm.testing import wait_until
from spark.clusters import Cluster
from spark.crash_cases import Case, cases
from spark.crashing import PARTITIONS, PLACES, REACHED_WITHIN, StoppingSource, ended, job
from spark.readers import committed_values

RUNS_ALL = os.environ.get("KLAMM_ALL_CRASHES") == "1"
TELLING = ("task has written", "before EndTxn", "after EndTxn", "one slot committed")
IN_TASKS = ("task begins", "task has written", "task done")


def grouped(places: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Places that are reached together, so that something is killed once for all of them."""
    return [tuple(places[first : first + size]) for first in range(0, len(places), size)]


def broker_groups(places: Sequence[str]) -> list[tuple[str, ...]]:
    """A task that stops keeps its thread, of which there are two: one such place at a time."""
    elsewhere = [place for place in places if place not in IN_TASKS]
    return grouped([place for place in places if place in IN_TASKS], 1) + grouped(elsewhere, 3)


PROCESS_GROUPS = grouped(PLACES, 2) if RUNS_ALL else [TELLING[:3]]
BROKER_GROUPS = broker_groups(PLACES if RUNS_ALL else TELLING)


def at_places(
    clusters: Sequence[Cluster],
    names: Iterator[str],
    folder: Path,
    places: Sequence[str],
    *,
    is_suicide: bool = False,
) -> list[Case]:
    """For each place each kind of broker and each protocol; all of their pairs with KLAMM_ALL_CRASHES."""
    chosen: list[Case] = []
    for place in places:
        own = folder / place.replace(" ", "-")
        own.mkdir()
        found = cases(clusters, names, own, place, is_suicide=is_suicide)
        if not RUNS_ALL and len(found) == 4:
            found = [found[0], found[3]] if PLACES.index(place) % 2 else [found[1], found[2]]
        chosen += found
    return chosen


def finish(spark: SparkSession, found: Sequence[Case]) -> None:
    """The queries again, from their checkpoints, without a crash."""
    started = [case.query.start(spark) for case in found]
    for case, query in zip(found, started, strict=True):
        failure = ended(query, partial(case.query.start, spark))
        assert failure is None, f"{case.stop}: {failure}"
    for case in found:
        case.check()


@pytest.fixture(scope="module")
def stopping(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(StoppingSource)
    return spark


@pytest.mark.parametrize("places", PROCESS_GROUPS, ids=", ".join)
def test_a_killed_jvm_leaves_every_row_to_be_written_once(
    spark: SparkSession,
    klamm_cluster: Cluster,
    kafka: Cluster,
    names: Iterator[str],
    tmp_path: Path,
    places: tuple[str, ...],
) -> None:
    found = at_places([klamm_cluster, kafka], names, tmp_path, places)
    process = LineProcess(
        [sys.executable, "-m", "spark.crashing", job([(case.query, case.stop) for case in found])],
        stderr_path=tmp_path / "job.log",
        environment={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )
    try:
        jvm = json.loads(process.read_line(240))["jvm"]
        wait_until(
            lambda: all(case.stop.reached.exists() for case in found) or process.process.poll() is not None,
            REACHED_WITHIN,
        )
        assert process.process.poll() is None, process.what_it_said()
        os.kill(jvm, signal.SIGKILL)
    finally:
        process.kill()
    finish(spark, found)


@pytest.mark.parametrize("places", PROCESS_GROUPS, ids=", ".join)
def test_a_killed_python_process_leaves_every_row_to_be_written_once(
    stopping: SparkSession,
    klamm_cluster: Cluster,
    kafka: Cluster,
    names: Iterator[str],
    tmp_path: Path,
    places: tuple[str, ...],
) -> None:
    found = at_places([klamm_cluster, kafka], names, tmp_path, places, is_suicide=True)
    started = [case.query.start(stopping, case.stop) for case in found]
    for case, query in zip(found, started, strict=True):
        start_again = partial(case.query.start, stopping, case.stop)
        failure = ended(query, start_again, case.stop.reached.exists)
        assert case.stop.reached.exists(), f"{case.stop}: {failure}"
        assert failure is not None, case.stop
    finish(stopping, found)


class Killable(Protocol):
    """A broker that can be killed and started again, with its data, on its port."""

    bootstrap: str

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def close(self) -> None: ...


class KillableKlamm:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.start()
        self.bootstrap = self._process.bootstrap

    def start(self) -> None:
        log = self._folder / "broker.log"
        self._process = KlammProcess(self._folder / "data", stderr_path=log, port=self._port)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()


class KillableKafka:
    def __init__(self, folder: Path) -> None:
        self._kafka = ApacheKafka(folder, flags=("-Xmx512m", "-XX:TieredStopAtLevel=1"))
        self.start()
        self.bootstrap = self._kafka.bootstrap

    def start(self) -> None:
        self._kafka.start()

    def kill(self) -> None:
        self._kafka.kill()

    def close(self) -> None:
        self._kafka.stop()


@pytest.fixture(scope="module", params=[KillableKlamm, KillableKafka], ids=["klamm", "kafka"])
def killable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    broker: Killable = request.param(tmp_path_factory.mktemp("killable"))
    yield broker
    broker.close()


@pytest.mark.parametrize("places", BROKER_GROUPS, ids=", ".join)
def test_a_killed_broker_leaves_every_row_to_be_written_once(
    stopping: SparkSession, killable: Killable, names: Iterator[str], tmp_path: Path, places: tuple[str, ...]
) -> None:
    with Cluster("killable", killable.bootstrap) as cluster:
        found = at_places([cluster], names, tmp_path, places)
        started: list[Any] = [case.query.start(stopping, case.stop) for case in found]
        wait_until(lambda: all(case.stop.reached.exists() for case in found), "4m")
        killable.kill()
        for case in found:
            case.stop.released.touch()
        killable.start()
        for case, query in zip(found, started, strict=True):
            # Most queries wait for the broker and go on. One that fails is started again, as for any failure.
            ended(query, partial(case.query.start, stopping, case.stop))
        finish(stopping, found)


def test_of_two_queries_with_one_id_the_older_fails_and_says_so(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    older = [case.query for case in cases([klamm_cluster], names, tmp_path, "nowhere")]
    newer = [replace(query, checkpoint=f"{query.checkpoint}-newer") for query in older]
    for queries in (older, newer):
        for started in [query.start(spark) for query in queries]:
            assert started.awaitTermination(240)
    for query in older:
        klamm_cluster.fill(query.origin, [b"one more"])
    for query in [each.start(spark) for each in older]:
        with pytest.raises(StreamingQueryException, match=r"SinkFencedError: .* is used by a newer query"):
            query.awaitTermination(240)
    for query in [each.start(spark) for each in newer]:
        assert query.awaitTermination(240)
    for each in newer:
        klamm_cluster.until_stable(each.target)
        found = committed_values(klamm_cluster.bootstrap, each.target, PARTITIONS)
        assert found[b"one more"] == 1
