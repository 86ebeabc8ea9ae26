"""Beside Spark's own Kafka connector, on the same broker: same rows, same offsets, same refusals."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark.parity_cases import BATCH, STREAM, Case
from spark.parity_data import Data, make

OFFICIAL, OURS = "kafka", "klamm"
# Enough patience for a broker on this machine; the defaults are minutes.
PATIENCE: Final = {
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
    "kafkaConsumer.pollTimeoutMs": "1000",
    "kafka.default.api.timeout.ms": "10000",
    "kafka.request.timeout.ms": "10000",
}
REFUSALS: Final = (PySparkException, Py4JJavaError)


Outcome = tuple[Any, Exception | None]
# Most of a small query is waiting for one process or the other.
AT_ONCE: Final = 4


class Runs:
    """The queries of all cases, a few at a time and ahead of the tests that look at them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._started: dict[str, Future[tuple[Outcome, Outcome]]] = {}

    def start(self, name: str, run: Callable[[str], Any]) -> None:
        """Both connectors, one after the other."""
        self._started[name] = self._pool.submit(
            lambda: (outcome(lambda: run(OFFICIAL)), outcome(lambda: run(OURS)))
        )

    def result(self, name: str) -> tuple[Outcome, Outcome]:
        return self._started[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, spark: SparkSession, names: Iterator[str]) -> Iterator[Runs]:
    """Every case that this run of the tests asks for, under way."""
    started = Runs()
    data: dict[str, Data] = {}
    folder = request.getfixturevalue("tmp_path_factory").mktemp("parity")
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            given: dict[str, Any] = item.callspec.params
            case, kind = given["case"], given.get("kind", "klamm")
            if kind not in data:
                cluster = request.getfixturevalue("kafka" if kind == "kafka" else "klamm_cluster")
                data[kind] = make(cluster, names)
            options = {
                "kafka.bootstrap.servers": data[kind].cluster.bootstrap,
                **PATIENCE,
                **data[kind].fill_in(case.options),
            }
            is_batch = item.originalname == test_a_batch_is_the_same.__name__
            started.start(
                item.name,
                partial(read, spark, options)
                if is_batch
                else partial(streamed, spark, options, folder / uuid.uuid4().hex),
            )
    yield started
    started.close()


def plain(rows: list[Any]) -> list[str]:
    """Rows as texts that can be sorted and compared."""
    return sorted(json.dumps(row.asDict(recursive=True), default=repr, sort_keys=True) for row in rows)


def outcome(run: Callable[[], Any]) -> Outcome:
    try:
        return run(), None
    except REFUSALS as error:
        return None, error


def check(case: Case, outcomes: tuple[Outcome, Outcome]) -> None:
    """The two must agree, and the table with them."""
    (expected, official_error), (found, error) = outcomes
    assert (official_error is not None) == case.is_error, f"the table is wrong: {official_error}"
    if official_error is None:
        assert error is None, error
        assert found == expected
    else:
        assert error is not None, f"Spark's own connector refuses: {official_error}"


@pytest.mark.parametrize("kind", ["klamm", "kafka"])
@pytest.mark.parametrize("case", BATCH, ids=lambda case: case.name)
def test_a_batch_is_the_same(request: pytest.FixtureRequest, runs: Runs, case: Case, kind: str) -> None:
    check(case, runs.result(request.node.name))


@pytest.mark.parametrize("case", STREAM, ids=lambda case: case.name)
def test_a_stream_is_the_same(request: pytest.FixtureRequest, runs: Runs, case: Case) -> None:
    check(case, runs.result(request.node.name))


def read(spark: SparkSession, options: dict[str, str], source: str) -> list[str]:
    """The rows of a batch."""
    return plain(spark.read.format(source).options(**options).load().collect())


def streamed(spark: SparkSession, options: dict[str, str], folder: Path, source: str) -> Any:
    """Rows and the offsets of every micro-batch, in AvailableNow."""
    rows: list[str] = []
    checkpoint = folder / source

    def keep(batch: DataFrame, _batch_id: int) -> None:
        rows.extend(plain(batch.collect()))

    query = (
        spark.readStream.format(source)
        .options(**options)
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(rows), logged_offsets(checkpoint)


def logged_offsets(checkpoint: Path) -> list[Any]:
    """What each micro-batch ended at, as Spark's offset log has it; without what is klamm's own."""
    found: list[Any] = []
    for path in sorted((checkpoint / "offsets").iterdir(), key=lambda item: item.name.zfill(9)):
        if path.name.isdigit():
            offsets = json.loads(path.read_text().splitlines()[-1])
            if not found:
                offsets.pop("$initial", None)  # where the other keeps a file of its own
            found.append(offsets)
    return found
