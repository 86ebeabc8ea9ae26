"""What does exactly-once delivery cost on Spark, and how fast is the audit?

Run: PYTHONPATH=src:tests python -m bench.spark_pipeline [--rounds 3] [--rows 400000] [--broker kafka]
One Spark application on `local[2]` and one broker; the subjects take turns within every round, after turns
that are not counted. Three questions:

- a batch write of generated rows: Spark's own connector and klamm at least once, klamm exactly once with one
  transaction for all tasks (shared) and with one for each task (per-task);
- one record at a time through a running query, from topic to topic: the duration of a micro-batch;
- the audit of a log of `--records` offset commits, made by real requests: records of the log a second for
  the table of latest offsets, and for every table, written as Parquet.

`--only write|latency|audit` runs one of them. Processor time is that of Spark and its Python workers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import uuid
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import klamm.spark
from bench.report import Figure, Report
from bench.spark_vs_connector import WARMING_UP, Bench, a_broker
from interop.kafka_tools import cache_dir
from interop.processes import ROOT
from interop.questions import Conversation
from klamm.protocol.types import TopicPartition
from klamm.spark.audit import Audit
from spark.audit_load import WIDE, commit

SUBJECTS = {
    "kafka": "Spark's own connector, spark-sql-kafka-0-10 4.2.0: at least once",
    "klamm": "klamm's data source, at least once",
    "shared": "klamm's data source, exactly once, one transaction for all tasks of a batch (the default)",
    "per-task": "klamm's data source, exactly once, a transaction for each task",
}
PARTITIONS = 2
TRIGGERS = 12
GROUPS = 40


def sink_options(subject: str) -> dict[str, str]:
    if subject in ("kafka", "klamm"):
        return {}
    return {
        "delivery": "exactly-once",
        "transactionalId": f"bench-{uuid.uuid4().hex[:12]}",
        "txn.mode": subject,
    }


def connector(subject: str) -> str:
    return "kafka" if subject == "kafka" else "klamm"


def placed(subject: str, frame: Any) -> Any:
    """One transaction for all tasks needs one task for each partition."""
    return klamm.spark.by_partition(frame, PARTITIONS) if subject == "shared" else frame


class PipelineBench(Bench):
    """The same application, broker and report for all questions."""

    def writes(self, rounds: int, rows: int) -> None:
        for turn in range(1 - WARMING_UP, rounds + 1):
            print(f"writing: {f'round {turn}' if turn > 0 else 'warming up'}", flush=True)
            for subject in SUBJECTS:
                target = self.topic(PARTITIONS)
                self.timed(
                    f"batch write, 100 B, {PARTITIONS} partitions",
                    subject,
                    rows,
                    lambda subject=subject, target=target: self.write_once(subject, target, rows),  # type: ignore[misc]
                    counts=turn > 0,
                )
                self.admin.delete_topics([target])

    def write_once(self, subject: str, topic: str, rows: int) -> None:
        generated = self.spark.range(0, rows, numPartitions=2).selectExpr(
            "lpad(cast(id as string), 16, '0') as key", "repeat('v', 100) as value"
        )
        (
            placed(subject, generated)
            .write.format(connector(subject))
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", topic)
            .options(**sink_options(subject))
            .mode("append")
            .save()
        )

    def latencies(self, rounds: int) -> None:
        for turn in range(rounds):
            print(f"micro-batches: round {turn + 1}", flush=True)
            for subject in SUBJECTS:
                self.small_batches(subject)

    def small_batches(self, subject: str) -> None:
        origin, target = self.topic(PARTITIONS), self.topic(PARTITIONS)
        broker = {"kafka.bootstrap.servers": self.bootstrap}
        read = (
            self.spark.readStream.format(connector(subject))
            .options(**broker, subscribe=origin, startingOffsets="latest")
            .load()
            .selectExpr("key", "value")
        )
        query = (
            placed(subject, read)
            .writeStream.format(connector(subject))
            .options(**broker, topic=target, **sink_options(subject))
            .option("checkpointLocation", str(self.folder / uuid.uuid4().hex))
            .start()
        )
        query.processAllAvailable()
        with klamm.Producer(bootstrap_servers=self.bootstrap) as producer:
            for _ in range(TRIGGERS):
                producer.send(origin, b"x", key=b"k").result(30)
                query.processAllAvailable()
        query.stop()
        figure = Figure("one micro-batch of one record, topic to topic", "ms", False)
        for item in [item for item in query.recentProgress if item["numInputRows"]][2:]:
            self.report.add(figure, subject, item["durationMs"]["triggerExecution"])

    def audits(self, rounds: int, records: int) -> None:
        print(f"making a log of {records:,} offset commits", flush=True)
        topic = self.topic(WIDE)
        # The first one to look for a coordinator makes its topic.
        self.admin.alter_group_offsets("audited", {TopicPartition(topic, 0): 0}).unwrap()
        with Conversation(self.bootstrap) as broker:
            for number in range(records // WIDE):
                commit(broker, f"audited-{number % GROUPS}", topic, number)
        for turn in range(1 - WARMING_UP, rounds + 1):
            audit = Audit(self.spark, self.bootstrap)
            latest = audit.table("latest_offsets").write.format("noop").mode("overwrite")
            self.timed("audit: latest offsets", "klamm", audit.record_count, latest.save, counts=turn > 0)
        for turn in range(1 - WARMING_UP, rounds + 1):
            audit = Audit(self.spark, self.bootstrap)
            counted = partial(audit.write, self.folder / "audit")
            what = "audit: every table as Parquet"
            self.timed(what, "klamm", audit.record_count, counted, counts=turn > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--records", type=int, default=1_000_000, help="of the log that is audited")
    parser.add_argument("--broker", choices=("kafka", "klamm"), default="klamm")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--only", choices=("write", "latency", "audit"))
    parser.add_argument("--write", action="store_true", help="the result into bench/results")
    given = parser.parse_args()
    subprocess.run([ROOT / "tools" / "fetch_spark_connector.sh"], check=True)
    jars = sorted((cache_dir() / "spark-kafka-4.2.0" / "libs").glob("*.jar"))
    report = Report(f"exactly once and the audit on Spark, broker {given.broker}", "klamm", dict(SUBJECTS))
    with (
        tempfile.TemporaryDirectory(prefix="klamm-bench-") as name,
        a_broker(given.broker, given.bootstrap, Path(name) / "broker") as bootstrap,
    ):
        spark = klamm.spark.session(
            "bench",
            master="local[2]",
            log_level="OFF",
            conf={"spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "2g"},
        )
        bench = PipelineBench(spark, bootstrap, report, Path(name))
        if given.only in (None, "write"):
            bench.writes(given.rounds, given.rows)
        if given.only in (None, "latency"):
            bench.latencies(given.rounds)
        if given.only in (None, "audit"):
            bench.audits(given.rounds, given.records)
        bench.admin.close()
        spark.stop()
    report.note(f"PySpark {version('pyspark')}; times better: than klamm at least once")
    report.note(f"load average at the end: {' '.join(f'{value:.1f}' for value in os.getloadavg())}")
    print(report.table())
    if given.write:
        print(report.write(f"spark_pipeline_{given.broker}"))


if __name__ == "__main__":
    main()
