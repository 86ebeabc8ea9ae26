"""Jobs from topic to topic with a real Spark: rows, dead letters, restarts, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from klamm.config import ConfigError
from klamm.spark.pipe.analysis import analysed
from klamm.spark.pipe.failures import BAD_BATCH, BAD_RECORD, FAILED, MISUSED, JobFailedError
from klamm.spark.pipe.job import Job, job_of
from klamm.spark.pipe.running import run
from spark.clusters import Cluster


def committed(spark: SparkSession, cluster: Cluster, topic: str) -> list[tuple[Any, bytes]]:
    cluster.until_stable(topic)
    frame = (
        spark.read.format("klamm")
        .options(
            **{
                "kafka.bootstrap.servers": cluster.bootstrap,
                "subscribe": topic,
                "kafka.isolation.level": "read_committed",
            }
        )
        .load()
    )
    rows = frame.select("key", "value").collect()
    return sorted((None if row.key is None else bytes(row.key), bytes(row.value)) for row in rows)


class Pipe:
    """A job on one cluster."""

    def __init__(self, spark: SparkSession, cluster: Cluster, names: Iterator[str], folder: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.folder = folder
        self.origin = cluster.create(next(names), 2)
        self.target = cluster.create(next(names), 3)
        self.dead = cluster.create(next(names), 1)
        self.lines: list[str] = []
        self.batches: list[dict[str, Any]] = []

    def job(self, **tables: Any) -> Job:
        tree = {
            "bootstrap": self.cluster.bootstrap,
            "trigger": "once",
            "checkpoint": str(self.folder / "checkpoint"),
            **tables,
        }
        tree["source"] = {"topics": self.origin, **tables.get("source", {})}
        tree["sink"] = {"topic": self.target, **tables.get("sink", {})}
        return job_of(tree, name=f"{self.origin}-job")

    def run(self, job: Job, *, restarts: int | None = None) -> None:
        run(
            self.spark,
            job,
            say=self.lines.append,
            report=lambda batch: self.batches.append(dict(batch)),
            sleep=lambda _s: None,
            restarts=restarts,
        )

    def written(self) -> list[tuple[Any, bytes]]:
        return committed(self.spark, self.cluster, self.target)


@pytest.fixture
def pipe(spark: SparkSession, cluster: Cluster, names: Iterator[str], tmp_path: Path) -> Pipe:
    return Pipe(spark, cluster, names, tmp_path)


ORDERS = [json.dumps({"product": "ab"[number % 2], "cents": number}).encode() for number in range(20)]
JSON = {"format": "json", "schema": "product string, cents long"}


def test_rows_are_transformed_by_sql_and_dead_letters_are_kept(pipe: Pipe) -> None:
    pipe.cluster.fill(pipe.origin, [*ORDERS[:10], b"not json"], partition=0)
    pipe.cluster.fill(pipe.origin, ORDERS[10:], partition=1)
    sql = {"sql": "SELECT product, cents * 2 AS doubled FROM input WHERE cents >= 5"}
    job = pipe.job(source={**JSON, "dead_letters": pipe.dead}, transform=sql, sink={"key": "product"})
    pipe.run(job)
    rows = pipe.written()
    assert sorted(json.loads(value)["doubled"] for _, value in rows) == [2 * cents for cents in range(5, 20)]
    assert {key for key, _ in rows} == {b"a", b"b"}
    assert [value for _, value in committed(pipe.spark, pipe.cluster, pipe.dead)] == [b"not json"]
    # The group has no lag, and a second run writes nothing twice.
    ends = pipe.cluster.ends(pipe.origin)
    offsets = {key.partition: item.offset for key, item in pipe.cluster.committed(job.name).items()}
    assert offsets == ends
    pipe.run(job)
    assert pipe.written() == rows


def doubled(frame: DataFrame) -> DataFrame:
    return frame.groupBy("product").agg(f.sum("cents").alias("cents"))


SUMS = "SELECT product, sum(cents) AS cents FROM input GROUP BY product"


@pytest.mark.parametrize(
    ("schema", "sql", "mode", "reason"),
    [
        ("product text", "SELECT product FROM input", "append", "source.schema"),
        ("product string", "SELEC product FROM input", "append", "Syntax error at or near 'SELEC'"),
        ("product string", "SELECT cents FROM input", "append", "`cents` cannot be resolved"),
        ("product string", "SELECT product FROM inputs", "append", "`inputs` cannot be found"),
        (
            "product string",
            "SELECT product, count(*) AS n FROM input GROUP BY product",
            "append",
            "output mode",
        ),
        ("product string", "SELECT product FROM input", "complete", "output mode"),
        ("product string", "SELECT product AS p FROM input", "append", "there is no column product: p"),
    ],
)
def test_what_spark_refuses_is_found_without_running(
    spark: SparkSession, schema: str, sql: str, mode: str, reason: str
) -> None:
    tables = {
        "source": {"topics": "nowhere", "format": "json", "schema": schema},
        "transform": {"sql": sql},
        "sink": {"topic": "nowhere-else", "mode": mode, "key": "product"},
    }
    with pytest.raises(ConfigError) as refused:
        analysed(spark, job_of(tables, name="j"))
    assert reason in str(refused.value)


def test_the_columns_of_a_job_are_known_without_running(spark: SparkSession) -> None:
    sql = "SELECT product, sum(cents) AS cents FROM input GROUP BY product"
    tables = {
        "source": {"topics": "nowhere", **JSON, "dead_letters": "dead"},
        "transform": {"sql": sql},
        "sink": {"topic": "nowhere-else", "mode": "complete", "key": "product"},
    }
    assert analysed(spark, job_of(tables, name="j")).columns == "product string, cents bigint"


@pytest.mark.parametrize("transform", [{"function": "spark.test_pipe:doubled"}, {"sql": SUMS}])
def test_a_transform_may_keep_state_from_run_to_run(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path, transform: Any
) -> None:
    pipe = Pipe(spark, klamm_cluster, names, tmp_path)
    job = pipe.job(source=JSON, transform=transform, sink={"key": "product", "mode": "complete"})
    pipe.cluster.fill(pipe.origin, ORDERS[:10])
    pipe.run(job)
    assert totals(pipe) == {"a": [20], "b": [25]}
    pipe.cluster.fill(pipe.origin, ORDERS[10:])
    pipe.run(job)
    assert totals(pipe) == {"a": [20, 90], "b": [25, 100]}
    assert pipe.batches[-1]["lag"] == 0
    assert pipe.batches[-1]["state_rows"] == 2
    assert pipe.batches[-1]["state_bytes"] > 0


def totals(pipe: Pipe) -> dict[str, list[int]]:
    """What was written for each product, ascending."""
    found: dict[str, list[int]] = {}
    for _, value in pipe.written():
        row = json.loads(value)
        found.setdefault(row["product"], []).append(row["cents"])
    return {product: sorted(cents) for product, cents in sorted(found.items())}


def test_what_cannot_work_ends_the_job_with_its_own_code(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    pipe = Pipe(spark, klamm_cluster, names, tmp_path)
    pipe.cluster.fill(pipe.origin, [*ORDERS[:3], b"not json"])
    with pytest.raises(JobFailedError, match=r"does not fit source\.schema") as bad:
        pipe.run(pipe.job(source=JSON))
    assert bad.value.exit_code == BAD_RECORD
    with pytest.raises(JobFailedError) as wrong:
        pipe.run(pipe.job(source=JSON, transform={"sql": "SELECT nothing FROM input"}))
    assert wrong.value.exit_code == MISUSED
    with pytest.raises(
        JobFailedError, match=r"\"product strin, cents long\" for source\.schema.*STRIN"
    ) as unread:
        pipe.run(pipe.job(source={**JSON, "schema": "product strin, cents long"}))
    assert unread.value.exit_code == MISUSED
    with pytest.raises(JobFailedError) as gone:
        pipe.run(pipe.job(sink={"topic": "no-such-topic-at-all"}))
    assert gone.value.exit_code == FAILED
    assert pipe.written() == []


def failing(frame: DataFrame) -> DataFrame:
    return frame.select(f.expr("assert_true(cents < 0, 'made to fail')").alias("value"), "product")


def test_a_transform_that_refuses_a_value_ends_the_job_at_once(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    pipe = Pipe(spark, klamm_cluster, names, tmp_path)
    pipe.cluster.fill(pipe.origin, ORDERS)
    job = pipe.job(source=JSON, transform={"function": "spark.test_pipe:failing"})
    with pytest.raises(JobFailedError, match=r"^\[USER_RAISED_EXCEPTION\] made to fail$") as failed:
        pipe.run(job)
    assert failed.value.exit_code == BAD_BATCH
    assert pipe.lines == []
    assert pipe.written() == []


def raising(frame: DataFrame) -> DataFrame:
    def refused(cents: int) -> int:
        if cents > 15:
            raise ValueError("made to fail")
        return cents

    return frame.select("product", f.udf(refused, "long", useArrow=False)("cents").alias("cents"))


def test_a_transform_that_raises_is_tried_three_times_and_leaves_nothing_open(pipe: Pipe) -> None:
    pipe.cluster.fill(pipe.origin, ORDERS)
    job = pipe.job(source=JSON, transform={"function": "spark.test_pipe:raising"})
    with pytest.raises(
        JobFailedError, match=r"failed 3 times: ValueError: made to fail \(in refused"
    ) as failed:
        pipe.run(job)
    assert failed.value.exit_code == BAD_BATCH
    assert len(pipe.lines) == 2
    assert "ValueError: made to fail" in pipe.lines[0]
    assert "starting again in 1 s" in pipe.lines[0]
    assert pipe.written() == []  # waits until nothing is open
    assert not [
        item
        for item in pipe.cluster.admin.list_transactions(states=["Ongoing"])
        if item.transactional_id == job.name
    ]
