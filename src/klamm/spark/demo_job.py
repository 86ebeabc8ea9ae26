"""The job that `klamm demo` runs: orders in, their revenue out, from topic to topic, each exactly once.

Its own process, so that Java's output does not disturb the view. Prints its current step, and ends when its
standard input closes: the demo may have been killed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from klamm.spark.audit.figures import figures
from klamm.spark.audit.report import write_report
from klamm.spark.audit.tables import Audit
from klamm.spark.setup.sessions import session
from klamm.spark.write.partitioning import by_partition

SCHEMA: Final = "order long, product string, cents long, at_ms long"
PER_BATCH: Final = 1_000
PARTITIONS: Final = 2  # of the topic it writes to
MAX_STARTS: Final = 5
BATCH_WRITTEN: Final = "written in one transaction"


def run(bootstrap: str, source: str, target: str, *, group: str, checkpoint: str, report: str) -> None:
    """Stream over everything in a topic of orders, then audit the groups and write a report.

    Starts Spark at once, and the work when a line arrives on standard input.
    """
    spark = session("klamm demo", master="local[2]", quick=True, log_level="OFF")
    _say("Spark is up")
    if not sys.stdin.readline():
        os._exit(1)  # the demo has ended
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    _say("Spark plans its query")
    try:
        for number in range(1, MAX_STARTS + 1):
            try:
                _follow(_started(spark, bootstrap, source, target, group, checkpoint))
                break
            except PySparkException:
                if number == MAX_STARTS:
                    raise
                _say("the query failed and starts again from its checkpoint")
        _say("Spark audits the groups")
        audit = Audit(spark, bootstrap)
        Path(report).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="klamm-audit-") as tables:
            audit.write(Path(tables))
            write_report(figures(audit), Path(report))
        _say("the report is written")
    finally:
        spark.stop()


def _started(
    spark: SparkSession, bootstrap: str, source: str, target: str, group: str, checkpoint: str
) -> Any:
    orders = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .option("commitOffsets", "transaction")
        .load()
        .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("order"))
        .select("order.*")
    )
    minute = f.date_format(f.timestamp_millis("at_ms"), "HH:mm").alias("minute")
    row = f.struct("order", minute, "product", "cents")
    records = orders.select(f.col("product").cast("binary").alias("key"), f.to_json(row).alias("value"))
    return (
        by_partition(records, PARTITIONS)
        .writeStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("transactionalId", group)
        .option("commitGroup", group)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def _follow(query: Any) -> None:
    """Print each completed batch until the query ends; raises its error."""
    _say("Spark reads the orders")
    last = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last and progress["numInputRows"]:
            last = progress["batchId"]
            _say(f"batch {last} is {BATCH_WRITTEN}")
        time.sleep(0.05)
    query.awaitTermination()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _end_with_the_demo() -> None:
    sys.stdin.read()
    os._exit(1)  # Java ends when this process has


if __name__ == "__main__":
    broker, orders_topic, revenue_topic, job_group, folder, report_path = sys.argv[1:]
    run(broker, orders_topic, revenue_topic, group=job_group, checkpoint=folder, report=report_path)
