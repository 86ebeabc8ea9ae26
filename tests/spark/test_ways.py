"""Ways of Spark beyond one source and one sink: joins of streams, several sources, foreachBatch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from klamm.spark import offsets_behind_latest
from spark.clusters import Cluster
from spark.test_pipe import committed


class Ways:
    """Two topics of ten records each, and one to write to."""

    def __init__(self, spark: SparkSession, cluster: Cluster, names: Iterator[str], folder: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.folder = folder
        self.topics = [cluster.create(next(names), 2) for _ in range(2)]
        self.target = cluster.create(next(names), 2)
        for topic in self.topics:
            cluster.fill(topic, [json.dumps({"id": number}).encode() for number in range(10)])

    def source(self, topic: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.cluster.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        return self.spark.readStream.format("klamm").options(**options).load()

    def sink(self, name: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.cluster.bootstrap,
            "topic": self.target,
            "delivery": "exactly-once",
            "transactionalId": f"{self.target}-{name}",
        }

    def written(self) -> list[Any]:
        return [json.loads(value) for _, value in committed(self.spark, self.cluster, self.target)]

    def run(self, frame: DataFrame) -> Any:
        """Write it all, in two runs on one checkpoint."""
        for _ in range(2):
            query = (
                frame.writeStream.format("klamm")
                .options(**self.sink("query"))
                .option("checkpointLocation", str(self.folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination(60)
        return query


@pytest.fixture
def ways(spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path) -> Ways:
    return Ways(spark, klamm_cluster, names, tmp_path)


def test_two_streams_are_joined_and_written_once(ways: Ways) -> None:
    def rows(topic: str, name: str) -> DataFrame:
        read = f.get_json_object(f.col("value").cast("string"), "$.id").cast("long")
        return ways.source(topic).select(read.alias(name), f.col("timestamp").alias(f"{name}_at"))

    one, other = (rows(topic, name) for topic, name in zip(ways.topics, ("a", "b"), strict=True))
    near = f.expr("a = b AND a_at BETWEEN b_at - INTERVAL 1 HOUR AND b_at + INTERVAL 1 HOUR")
    joined = one.withWatermark("a_at", "1 minute").join(other.withWatermark("b_at", "1 minute"), near)
    query = ways.run(joined.select(f.to_json(f.struct("a", "b")).alias("value")))
    assert sorted(row["a"] for row in ways.written()) == list(range(10))
    assert [found["maxOffsetsBehindLatest"] for found in offsets_behind_latest(query.lastProgress)] == [0, 0]


def test_several_sources_in_one_query_are_written_once(ways: Ways) -> None:
    one, other = (ways.source(topic).select("value") for topic in ways.topics)
    ways.run(one.unionByName(other))
    assert sorted(row["id"] for row in ways.written()) == sorted([*range(10), *range(10)])


def test_foreach_batch_writes_once_with_a_token_for_each_batch(ways: Ways) -> None:
    def write(frame: DataFrame, number: int) -> None:
        for _ in range(2):  # as after a crash between the write and the commit
            options = {**ways.sink("each"), "batchToken": f"each-{number}"}
            frame.select("value").write.format("klamm").mode("append").options(**options).save()

    writer = ways.source(ways.topics[0]).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(ways.folder / "checkpoint")).trigger(availableNow=True)
    query.start().awaitTermination(60)
    assert sorted(row["id"] for row in ways.written()) == list(range(10))
