"""Consume, transform, produce: orders in, revenue per product and minute out.

    pip install '.[spark]'
    python examples/spark_pipeline.py

The broker lives in this process and Spark on this machine, so nothing else is needed; the job itself would be
the same against any Kafka. It ends by itself.
"""

from __future__ import annotations

import json
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import klamm
from klamm.spark import session

ORDERS = [
    {"product": "apples", "cents": 250, "at": "2026-01-05 09:00:10"},
    {"product": "bread", "cents": 420, "at": "2026-01-05 09:00:40"},
    {"product": "apples", "cents": 175, "at": "2026-01-05 09:00:59"},
    {"product": "apples", "cents": 300, "at": "2026-01-05 09:01:00"},
]


def run_job(spark: SparkSession, bootstrap: str, checkpoint: str) -> None:
    """Read what there is in topic `orders`, write the sums to topic `revenue`, remember how far it got."""
    orders = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "revenue-job")  # `klamm groups describe revenue-job` shows its lag
        .option("commitOffsets", "progress")
        .load()
        .selectExpr("from_json(cast(value as string), 'product string, cents long, at timestamp') as line")
        .select("line.*")
    )
    minute = f.date_format(f.date_trunc("minute", "at"), "HH:mm").alias("minute")
    revenue = orders.groupBy("product", minute).agg(f.sum("cents").alias("cents"))
    query = (
        revenue.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "revenue")
        .option("checkpointLocation", checkpoint)
        .outputMode("complete")  # all sums whenever one has changed; the last one of each counts
        .trigger(availableNow=True)  # leave it out, and the job goes on until it is stopped
        .start()
    )
    query.awaitTermination()


def main(spark: SparkSession) -> None:
    """Everything from the first order to the last sum."""
    with klamm.Broker() as broker, tempfile.TemporaryDirectory() as checkpoint:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([klamm.NewTopic("orders", 2), klamm.NewTopic("revenue", 1)]).unwrap()
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for order in ORDERS:
                producer.send("orders", json.dumps(order), key=str(order["product"]))
        run_job(spark, broker.bootstrap, checkpoint)
        with klamm.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([klamm.TopicPartition("revenue", 0)])
            sums = [json.loads(record.value or b"{}") for record in consumer.poll(10)]
    for line in sorted(sums, key=lambda line: (line["minute"], line["product"])):
        sys.stdout.write(f"{line['minute']}  {line['product']:<8} {line['cents'] / 100:>8.2f}\n")


if __name__ == "__main__":
    with session("revenue", quick=True) as started:
        main(started)
