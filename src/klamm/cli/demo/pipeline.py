"""The demo's Spark job: orders in, revenue per product and minute out, its progress visible as a group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.cli.demo.orders import TOPIC
from klamm.client.admin.face import Admin
from klamm.client.admin.offsets import LATEST
from klamm.protocol.types import TopicPartition

SPARK_GROUP: Final = "revenue"
SCHEMA: Final = "order long, product string, cents long, at_ms long"


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What Spark counted, and what its group has committed."""

    orders: int
    revenue_cents: int
    rows: list[tuple[str, str, int, int]]  # minute, product, orders, cents
    lag: int


def run(bootstrap: str, folder: Path) -> PipelineResult:
    """Run the streaming job over everything there is, and read its result."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is an extra

    from klamm.spark import session  # noqa: PLC0415

    spark = session("klamm demo", master="local[2]", quick=True)
    try:
        orders = (
            spark.readStream.format("klamm")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("kafka.group.id", SPARK_GROUP)
            .option("commitOffsets", "progress")
            .load()
            .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("order"))
            .select("order.*")
        )
        revenue = orders.groupBy(
            f.date_format(f.timestamp_millis("at_ms"), "HH:mm").alias("minute"), "product"
        ).agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
        query = (
            revenue.writeStream.format("memory")
            .queryName("revenue")
            .outputMode("complete")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = [
            (row["minute"], row["product"], row["orders"], row["cents"])
            for row in spark.sql("select * from revenue order by minute, product").collect()
        ]
    finally:
        spark.stop()
    return PipelineResult(sum(row[2] for row in rows), sum(row[3] for row in rows), rows, _lag(bootstrap))


def _lag(bootstrap: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.list_group_offsets(SPARK_GROUP)
        topic = admin.describe_topics([TOPIC]).unwrap()[TOPIC]
        keys = [TopicPartition(TOPIC, item.partition) for item in topic.partitions]
        ends = admin.list_offsets(dict.fromkeys(keys, LATEST)).unwrap()
    return sum(ends[key].offset - (committed[key].offset if key in committed else 0) for key in keys)
