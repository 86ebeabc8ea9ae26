"""Batch writes that are delivered exactly once: any task may write to any partition, in both protocols."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from klamm.spark import by_partition, session
from spark.batches import MODES
from spark.clusters import Cluster
from spark.readers import committed_values

PARTITIONS = 2
ROWS = 3000


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_written_once_for_each_token(
    spark: SparkSession, cluster: Cluster, topic: str, mode: str
) -> None:
    cluster.create(topic, PARTITIONS)
    # Three tasks, each with rows for both partitions.
    rows = spark.range(0, ROWS, numPartitions=3).selectExpr(
        "cast(id as string) as key", "concat('v', id) as value"
    )

    def write(token: str) -> Counter[bytes]:
        writer = by_partition(rows, PARTITIONS).write.format("klamm").mode("append")
        writer = writer.options(**{"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic})
        writer = writer.options(**{"delivery": "exactly-once", "txn.mode": mode})
        writer.options(transactionalId=f"{topic}-sink", batchToken=token).save()
        cluster.until_stable(topic)
        return Counter(committed_values(cluster.bootstrap, topic, PARTITIONS))

    every = [b"v%d" % number for number in range(ROWS)]
    assert write("first") == Counter(every)
    assert write("first") == Counter(every)
    assert write("second") == Counter(dict.fromkeys(every, 2))


def test_rows_are_shuffled_only_where_tasks_cannot_take_turns(spark: SparkSession) -> None:
    rows = spark.range(0, 8, numPartitions=3).selectExpr("cast(id as string) as key", "'v' as value")
    assert by_partition(rows, 4) is rows
    assert by_partition(rows, 4, tasks=2).rdd.getNumPartitions() == 2
    with pytest.raises(ValueError, match="1 partition or more, not 0"):
        by_partition(rows, 0)


def test_a_thread_that_asks_for_the_session_can_write(
    spark: SparkSession, klamm_cluster: Cluster, topic: str
) -> None:
    klamm_cluster.create(topic, PARTITIONS)

    def write() -> None:
        rows = session("klamm-tests", master="local[2]").range(3).selectExpr("concat('v', id) as value")
        writer = rows.write.format("klamm").mode("append")
        writer.options(**{"kafka.bootstrap.servers": klamm_cluster.bootstrap, "topic": topic}).save()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    found = committed_values(klamm_cluster.bootstrap, topic, PARTITIONS)
    assert sorted(found) == [b"v0", b"v1", b"v2"]
