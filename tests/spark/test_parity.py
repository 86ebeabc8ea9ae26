"""Beside Spark's own Kafka connector, on the same broker: same rows, same offsets, same refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark.clusters import Cluster
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


@pytest.fixture(scope="module")
def datasets(names: Iterator[str]) -> dict[str, Data]:
    return {}


@pytest.fixture
def data(cluster: Cluster, names: Iterator[str], datasets: dict[str, Data]) -> Data:
    """The topics on each kind of broker."""
    return filled(cluster, names, datasets)


@pytest.fixture
def klamm_data(klamm_cluster: Cluster, names: Iterator[str], datasets: dict[str, Data]) -> Data:
    """The topics on klamm's broker."""
    return filled(klamm_cluster, names, datasets)


def filled(cluster: Cluster, names: Iterator[str], datasets: dict[str, Data]) -> Data:
    if cluster.kind not in datasets:
        datasets[cluster.kind] = make(cluster, names)
    return datasets[cluster.kind]


def plain(rows: list[Any]) -> list[str]:
    """Rows as texts that can be sorted and compared."""
    return sorted(json.dumps(row.asDict(recursive=True), default=repr, sort_keys=True) for row in rows)


def outcome(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return run(), None
    except REFUSALS as error:
        return None, error


def check(case: Case, run: Callable[[str], Any]) -> None:
    """Both connectors, one after the other."""
    expected, official_error = outcome(lambda: run(OFFICIAL))
    found, error = outcome(lambda: run(OURS))
    assert (official_error is not None) == case.is_error, f"the table is wrong: {official_error}"
    if official_error is None:
        assert error is None, error
        assert found == expected
    else:
        assert error is not None, f"Spark's own connector refuses: {official_error}"


@pytest.mark.parametrize("case", BATCH, ids=lambda case: case.name)
def test_a_batch_is_the_same(spark: SparkSession, data: Data, case: Case) -> None:
    options = {
        "kafka.bootstrap.servers": data.cluster.bootstrap,
        **PATIENCE,
        **data.fill_in(case.options),
    }
    check(case, lambda source: plain(spark.read.format(source).options(**options).load().collect()))


@pytest.mark.parametrize("case", STREAM, ids=lambda case: case.name)
def test_a_stream_is_the_same(spark: SparkSession, klamm_data: Data, tmp_path: Path, case: Case) -> None:
    options = {
        "kafka.bootstrap.servers": klamm_data.cluster.bootstrap,
        **PATIENCE,
        **klamm_data.fill_in(case.options),
    }
    check(case, lambda source: streamed(spark, source, options, tmp_path / source))


def streamed(spark: SparkSession, source: str, options: dict[str, str], checkpoint: Path) -> Any:
    """Rows and the offsets of every micro-batch, in AvailableNow."""
    rows: list[str] = []

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
    found = []
    for path in sorted((checkpoint / "offsets").iterdir(), key=lambda item: item.name.zfill(9)):
        if path.name.isdigit():
            offsets = json.loads(path.read_text().splitlines()[-1])
            found.append({topic: ends for topic, ends in offsets.items() if not topic.startswith("$")})
    return found
