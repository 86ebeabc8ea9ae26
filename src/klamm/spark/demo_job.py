"""The job that `klamm demo` runs: orders in, revenue per product and minute out, from topic to topic.

Its own process, so that Java's output does not disturb the view. Prints its current step, and ends when its
standard input closes: the demo may have been killed.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from pyspark.sql import functions as f

from klamm.spark.setup.sessions import session

SCHEMA: Final = "order long, product string, cents long, at_ms long"


def revenue_per_product(bootstrap: str, source: str, target: str, *, group: str, checkpoint: str) -> None:
    """Stream over everything in a topic of orders, with the group's offsets following the job's progress."""
    spark = session("klamm demo", master="local[2]", quick=True, log_level="OFF")
    _say("Spark is up and plans its query")
    try:
        orders = (
            spark.readStream.format("klamm")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", source)
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
            revenue.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
            .writeStream.format("klamm")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        _say("Spark reads the orders")
        query.awaitTermination()
        _say("Spark has written its sums")
    finally:
        spark.stop()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _end_with_the_demo() -> None:
    sys.stdin.read()
    os._exit(1)  # Java ends when this process has


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    broker, orders_topic, revenue_topic, job_group, folder = sys.argv[1:]
    revenue_per_product(broker, orders_topic, revenue_topic, group=job_group, checkpoint=folder)
