"""The job that `klamm demo` runs: orders in, revenue per product and minute out."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import functions as f

from klamm.spark.sessions import session

SCHEMA: Final = "order long, product string, cents long, at_ms long"


class Revenue(NamedTuple):
    """What one product brought in one minute."""

    minute: str
    product: str
    orders: int
    cents: int


def revenue_per_product(bootstrap: str, topic: str, *, group: str, checkpoint: str) -> list[Revenue]:
    """Stream over everything in a topic of orders, with the group's offsets following the job's progress."""
    spark = session("klamm demo", master="local[2]", quick=True)
    try:
        orders = (
            spark.readStream.format("klamm")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("kafka.group.id", group)
            .option("commitOffsets", "progress")
            .load()
            .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("order"))
            .select("order.*")
        )
        minute = f.date_format(f.timestamp_millis("at_ms"), "HH:mm").alias("minute")
        revenue = orders.groupBy(minute, "product").agg(
            f.count("*").alias("orders"), f.sum("cents").alias("cents")
        )
        query = (
            revenue.writeStream.format("memory")
            .queryName("revenue")
            .outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.sql("select minute, product, orders, cents from revenue order by minute, product")
        return [Revenue(*row) for row in rows.collect()]
    finally:
        spark.stop()
