"""The data source end to end, in Spark, on klamm's broker and on Apache Kafka."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from interop.kafka_tools import run_kafka_tool
from interop.processes import ROOT
from klamm import Consumer
from klamm.protocol.types import TopicPartition
from spark.clusters import Cluster

TEN = [b"%d" % number for number in range(10)]


def source(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    return (
        spark.read.format("klamm")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )


def stream(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    return (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )


def values(spark: SparkSession, cluster: Cluster, topic: str) -> list[str]:
    return sorted(bytes(row.value).decode() for row in source(spark, cluster, topic).collect())


def save(frame: DataFrame, format_name: str, cluster: Cluster, topic: str, mode: str = "append") -> None:
    """Write a batch."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
    frame.write.format(format_name).options(**options).mode(mode).save()


def copy_now(frame: DataFrame, cluster: Cluster, topic: str, checkpoint: str, **options: str) -> Any:
    """Write what there is to another topic and end."""
    query = (
        frame.writeStream.format("klamm")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_rows_are_written_and_read_back(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 3)
    frame = spark.range(1000).selectExpr(
        "cast(id as string) as key",
        "cast(id * 2 as string) as value",
        "if(id % 2 = 0, array(struct('h' as key, encode(id, 'utf-8') as value)), null) as headers",
        "cast(if(id % 5 = 0, 2, null) as int) as partition",
    )
    save(frame, "klamm", cluster, topic)
    rows = source(spark, cluster, topic, includeHeaders="true", minPartitions="5").collect()
    assert len(rows) == 1000
    for row in rows:
        number = int(row.key)
        assert int(row.value) == number * 2
        assert (row.headers is None) == (number % 2 == 1)
        if number % 5 == 0:
            assert row.partition == 2
    assert {partition: end for partition, end in cluster.ends(topic).items() if end} == {
        partition: sum(row.partition == partition for row in rows) for partition in range(3)
    }


def test_what_sparks_own_connector_writes_goes_to_the_same_partitions(
    spark: SparkSession, cluster: Cluster, names: Iterator[str]
) -> None:
    ours, theirs = (cluster.create(next(names), 4) for _ in range(2))
    frame = spark.range(200).selectExpr("concat('key-', id) as key", "cast(id as string) as value")
    for format_name, topic in (("klamm", ours), ("kafka", theirs)):
        save(frame, format_name, cluster, topic)
    placed = [
        sorted(
            (bytes(row.key), row.partition, bytes(row.value))
            for row in source(spark, cluster, topic).collect()
        )
        for topic in (ours, theirs)
    ]
    assert placed[0] == placed[1]


def test_a_stream_carries_everything_over_and_its_group_shows_it(
    spark: SparkSession, cluster: Cluster, names: Iterator[str], checkpoint: str
) -> None:
    origin, target = cluster.create(next(names), 2), cluster.create(next(names), 2)
    group = f"{origin}-group"
    cluster.fill(origin, TEN, partition=0)
    cluster.fill(origin, TEN[:6], partition=1)
    options = {"kafka.group.id": group, "commitOffsets": "progress", "maxOffsetsPerTrigger": "5"}
    query = copy_now(stream(spark, cluster, origin, **options), cluster, target, checkpoint)
    assert values(spark, cluster, target) == values(spark, cluster, origin)
    # Complete at the end of the run, not a batch behind.
    assert {key.partition: found.offset for key, found in cluster.committed(group).items()} == {0: 10, 1: 6}
    progress = query.recentProgress
    assert [item["numInputRows"] for item in progress if item["numInputRows"]] == [4, 4, 4, 4]
    assert json.loads(progress[-1]["sources"][0]["latestOffset"]) == {origin: {"0": 10, "1": 6}}
    # More comes: lag, until the next run from the same checkpoint.
    cluster.fill(origin, [b"more"], partition=1)
    shown = run_kafka_tool(
        "consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", cluster.bootstrap, "--describe", "--group", group),
    ).stdout
    lags = {line.split()[2]: line.split()[5] for line in shown.splitlines() if line.startswith(group)}
    assert lags == {"0": "0", "1": "1"}
    copy_now(stream(spark, cluster, origin, **options), cluster, target, checkpoint)
    assert len(values(spark, cluster, target)) == 17
    assert cluster.committed(group)[TopicPartition(origin, 1)].offset == 7


def test_the_example_counts_what_each_product_brought_in_each_minute(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "spark_pipeline.py"))
    example["main"](spark)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["09:00", "apples", "4.25"],
        ["09:00", "bread", "4.20"],
        ["09:01", "apples", "3.00"],
    ]


def test_a_query_that_lost_its_checkpoint_goes_on_where_its_group_stands(
    spark: SparkSession, cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    origin, target = cluster.create(next(names)), cluster.create(next(names))
    options = {"kafka.group.id": f"{origin}-group", "commitOffsets": "progress", "startingOffsets": "group"}
    for number, checkpoint in enumerate(("first", "second")):
        cluster.fill(origin, [b"%d" % number])
        copy_now(stream(spark, cluster, origin, **options), cluster, target, str(tmp_path / checkpoint))
    assert values(spark, cluster, target) == ["0", "1"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_stream_takes_over_from_consumers_of_either_protocol_and_they_from_it(
    spark: SparkSession,
    cluster: Cluster,
    names: Iterator[str],
    checkpoint: str,
    protocol: Literal["classic", "consumer"],
) -> None:
    origin, target = cluster.create(next(names)), cluster.create(next(names))
    group, place = f"{origin}-group", TopicPartition(origin, 0)

    def consume() -> list[bytes]:
        """All that is new to the group, as a member of it."""
        with Consumer(
            origin,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            found: list[bytes] = []
            while consumer.end_offsets([place])[place] > (consumer.position(place) if found else 0):
                found += [record.value or b"" for record in consumer.poll(1)]
            consumer.commit()
        return found

    cluster.fill(origin, [b"1", b"2"])
    assert consume() == [b"1", b"2"]
    cluster.fill(origin, [b"3"])
    options = {"kafka.group.id": group, "commitOffsets": "progress", "startingOffsets": "group"}
    copy_now(stream(spark, cluster, origin, **options), cluster, target, checkpoint)
    assert values(spark, cluster, target) == ["3"]
    assert cluster.committed(group)[place].offset == 3
    cluster.fill(origin, [b"4"])
    assert consume() == [b"4"]


def test_a_running_query_reads_what_comes(
    spark: SparkSession, cluster: Cluster, names: Iterator[str], checkpoint: str
) -> None:
    origin, target = cluster.create(next(names)), cluster.create(next(names))
    query = (
        stream(spark, cluster, origin, startingOffsets="latest")
        .writeStream.format("klamm")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        query.processAllAvailable()
        for value in (b"1", b"2"):
            cluster.fill(origin, [value])
            query.processAllAvailable()
        assert values(spark, cluster, target) == ["1", "2"]
    finally:
        query.stop()


def test_a_checkpoint_of_sparks_own_connector_is_carried_on(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], checkpoint: str
) -> None:
    cluster = klamm_cluster
    origin, target = (cluster.create(next(names), 2) for _ in range(2))
    cluster.fill(origin, TEN[:4])
    theirs = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", origin)
        .option("startingOffsets", "earliest")
        .load()
    )
    copy_now(theirs, cluster, target, checkpoint)
    assert values(spark, cluster, target) == ["0", "1", "2", "3"]
    cluster.fill(origin, TEN[4:], partition=1)
    copy_now(stream(spark, cluster, origin), cluster, target, checkpoint)
    assert values(spark, cluster, target) == [value.decode() for value in TEN]


def test_output_modes_are_those_that_spark_allows(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    cluster = klamm_cluster
    origin, target = cluster.create(next(names)), cluster.create(next(names))
    cluster.fill(origin, TEN)
    counted = stream(spark, cluster, origin).groupBy().count().selectExpr("cast(count as string) as value")

    def write(mode: str) -> None:
        query = (
            counted.writeStream.format("klamm")
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / mode))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    write("complete")
    assert values(spark, cluster, target) == ["10"]
    with pytest.raises(PySparkException):
        write("update")
    frame = spark.range(1).selectExpr("'x' as value")
    for mode in ("overwrite", "errorifexists"):
        with pytest.raises(PySparkException):
            save(frame, "klamm", cluster, target, mode)
    assert values(spark, cluster, target) == ["10"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"includeHeaders": "maybe"}, "expected true or false"),
        ({"subscribePattern": "x"}, "expected exactly one of"),
    ],
)
def test_a_wrong_option_is_told_when_the_frame_is_made(
    spark: SparkSession, options: dict[str, str], said: str
) -> None:
    reading = (
        spark.read.format("klamm").option("kafka.bootstrap.servers", "localhost:1").option("subscribe", "t")
    )
    with pytest.raises(PySparkException, match=said):
        reading.options(**options).load()


def test_a_wrong_sink_is_told_before_anything_is_written(
    spark: SparkSession, klamm_cluster: Cluster, topic: str
) -> None:
    writing = (
        spark.range(1)
        .selectExpr("'x' as value")
        .write.format("klamm")
        .option("kafka.bootstrap.servers", klamm_cluster.bootstrap)
        .option("topic", topic)
        .mode("append")
    )
    with pytest.raises(PySparkException, match="delivery=exactly-once needs option transactionalId"):
        writing.option("delivery", "exactly-once").save()


def test_columns_are_picked_by_a_schema_and_ranges_by_filters(
    spark: SparkSession, klamm_cluster: Cluster, topic: str
) -> None:
    klamm_cluster.create(topic, 2)
    klamm_cluster.fill(topic, TEN, partition=0)
    klamm_cluster.fill(topic, TEN, partition=1)
    reading = (
        spark.read.format("klamm")
        .option("kafka.bootstrap.servers", klamm_cluster.bootstrap)
        .option("subscribe", topic)
    )
    picked = reading.schema("value binary, offset long").load()
    assert picked.columns == ["value", "offset"]
    assert picked.filter("offset >= 8").count() == 4
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reading.schema("partition int, offset long").option("filterPushdown", "true").load()
        wanted = frame.filter("partition = 1 and offset >= 8")
        assert sorted(tuple(row) for row in wanted.collect()) == [(1, 8), (1, 9)]
        assert wanted.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
