"""How fast does klamm's data source read and write, beside Spark's own Kafka connector on the same broker?

Run: PYTHONPATH=src:tests python -m bench.spark_vs_connector [--rounds 3] [--rows 1000000] [--broker klamm]
One Spark application on `local[2]`, one broker; the two take turns within every round, and each figure starts
with turns that are not counted. Rows have a key of 16 bytes; reading takes all seven columns into a sink that
drops them; writing generates its rows. Beside rows a second by the clock on the wall there are rows a second
of processor time, of Spark and its Python workers together: a busy machine changes the first, not the second.
The JVM compiles hot code for the first dozen queries, on threads of its own. That takes as long as reading a
million rows, so processor time is given without these threads, too: it is what a job pays that runs for long.
A third source only hands prepared batches to Spark: no source in Python reads faster (`bench.spark_floor`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import klamm.spark
from bench.brokers import CLOCK_TICKS_PER_S, SUBJECTS
from bench.report import Figure, Report
from bench.spark_floor import PreparedSource
from interop.kafka_tools import cache_dir
from interop.processes import ROOT
from klamm.client.admin.model import NewTopic
from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition

CONNECTORS = {
    "kafka": "Spark's own connector, spark-sql-kafka-0-10 4.2.0 with kafka-clients 3.9.2",
    "klamm": "klamm's data source",
}
READ_ONLY = {"prepared": "a Python data source that only hands prepared batches to Spark"}
SHAPES = ((100, 2), (100, 8), (1024, 2), (1024, 8))
TRIGGERS = 12
WARMING_UP = 3  # turns that are not counted


class Bench:
    """One application, one broker, one report."""

    def __init__(self, spark: Any, bootstrap: str, report: Report, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.report = report
        self.folder = folder
        self.admin = klamm.Admin(bootstrap_servers=bootstrap)
        self.jvm_pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

    def topic(self, partitions: int) -> str:
        name = f"bench-{uuid.uuid4().hex[:12]}"
        self.admin.create_topics([NewTopic(name, partitions, 1)]).unwrap()
        self.admin.wait_for_topics([name])
        return name

    def timed(self, what: str, subject: str, rows: int, run: Callable[[], object], *, counts: bool) -> None:
        """Rows a second, by the wall and by the processor."""
        before, compiled, started = tree_cpu_s(self.jvm_pid), compilers_s(self.jvm_pid), time.perf_counter()
        run()
        wall_s = time.perf_counter() - started
        # A worker that ended meanwhile takes its share with it; they live for a minute without work.
        cpu_s = grown(before, tree_cpu_s(self.jvm_pid))
        work_s = cpu_s - grown(compiled, compilers_s(self.jvm_pid))
        if counts:
            self.report.add(Figure(what, "rows/s", True), subject, rows / wall_s)
            by_cpu = Figure(f"{what}, per CPU second", "rows/CPU s", True)
            self.report.add(by_cpu, subject, rows / max(cpu_s, 1e-9))
            by_work = Figure(f"{what}, per CPU second without compilers", "rows/CPU s", True)
            self.report.add(by_work, subject, rows / max(work_s, 1e-9))

    def write(self, connector: str, topic: str, rows: int, size: int) -> None:
        (
            self.spark.range(0, rows, numPartitions=2)
            .selectExpr("lpad(cast(id as string), 16, '0') as key", f"repeat('v', {size}) as value")
            .write.format(connector)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", topic)
            .mode("append")
            .save()
        )

    def read(self, connector: str, topic: str) -> None:
        (
            self.spark.read.format(connector)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic)
            .load()
            .write.format("noop")
            .mode("overwrite")
            .save()
        )

    def read_prepared(self, rows: int, size: int, partitions: int) -> None:
        given = {"rows": str(rows), "size": str(size), "partitions": str(partitions)}
        prepared = self.spark.read.format("prepared").options(**given).load()
        prepared.write.format("noop").mode("overwrite").save()

    def throughput(self, rounds: int, rows: int, only_partitions: int | None) -> None:
        self.spark.dataSource.register(PreparedSource)
        for size, partitions in SHAPES:
            if only_partitions not in (None, partitions):
                continue
            count = rows if size == 100 else max(rows // 2, 1)
            source = self.topic(partitions)
            self.write("klamm", source, count, size)
            for turn in range(1 - WARMING_UP, rounds + 1):
                label = f"{size} B, {partitions} partitions"
                print(f"{label}: {f'round {turn}' if turn > 0 else 'warming up'}", flush=True)
                for connector in CONNECTORS:
                    self.turn(connector, source, count, size, partitions, counts=turn > 0)
                self.timed(
                    f"read, {label}",
                    "prepared",
                    count,
                    partial(self.read_prepared, count, size, partitions),
                    counts=turn > 0,
                )
            self.admin.delete_topics([source])

    def turn(
        self, connector: str, source: str, count: int, size: int, partitions: int, *, counts: bool
    ) -> None:
        label = f"{size} B, {partitions} partitions"
        self.timed(f"read, {label}", connector, count, lambda: self.read(connector, source), counts=counts)
        target = self.topic(partitions)
        self.timed(
            f"write, {label}",
            connector,
            count,
            lambda: self.write(connector, target, count, size),
            counts=counts,
        )
        self.admin.delete_topics([target])

    def latency(self, rounds: int) -> None:
        """One record at a time through a running query: how long is a micro-batch, and when is it seen?"""
        for _ in range(rounds):
            for connector in CONNECTORS:
                for sink in ("noop", "topic"):
                    self.micro_batches(connector, sink)

    def micro_batches(self, connector: str, sink: str) -> None:
        origin, target = self.topic(2), self.topic(2)
        broker = {"kafka.bootstrap.servers": self.bootstrap}
        writing = (
            self.spark.readStream.format(connector)
            .options(**broker, subscribe=origin, startingOffsets="latest")
            .load()
            .selectExpr("key", "value")
            .writeStream.format("noop" if sink == "noop" else connector)
            .option("checkpointLocation", str(self.folder / uuid.uuid4().hex))
        )
        if sink != "noop":
            writing = writing.options(**broker, topic=target)
        query = writing.start()
        query.processAllAvailable()
        seen = Figure("one record, topic to topic, until it is seen", "ms", False)
        watched = Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        watched.assign([TopicPartition(target, number) for number in range(2)])
        with klamm.Producer(bootstrap_servers=self.bootstrap) as producer, watched:
            for trigger in range(TRIGGERS):
                started = time.perf_counter()
                producer.send(origin, b"x", key=b"k").result(30)
                while sink != "noop" and not len(watched.poll(5)):
                    pass
                if sink != "noop" and trigger > 1:
                    self.report.add(seen, connector, (time.perf_counter() - started) * 1000)
                query.processAllAvailable()
        query.stop()
        where = "a sink that drops it" if sink == "noop" else "a topic"
        figure = Figure(f"one micro-batch of one record, to {where}", "ms", False)
        batches = [item for item in query.recentProgress if item["numInputRows"]]
        for item in batches[2:]:
            self.report.add(figure, connector, item["durationMs"]["triggerExecution"])


def grown(before: dict[int, float], after: dict[int, float]) -> float:
    """How much was used since, by what is still there."""
    return sum(used - before.get(number, 0.0) for number, used in after.items())


def compilers_s(pid: int) -> dict[int, float]:
    """Processor time of the threads of a JVM that compile."""
    found: dict[int, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # a thread that has just ended
        if name.startswith(("C1 Compiler", "C2 Compiler")):
            fields = rest.split()
            found[int(task.name)] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S
    return found


def tree_cpu_s(pid: int) -> dict[int, float]:
    """Processor time of a process and of all that descend from it."""
    found: dict[int, float] = {}
    pending = [pid]
    while pending:
        current = pending.pop()
        try:
            fields = Path(f"/proc/{current}/stat").read_text().rpartition(")")[2].split()
            found[current] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S
            for task in Path(f"/proc/{current}/task").iterdir():
                pending += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


@contextmanager
def a_broker(kind: str, bootstrap: str | None, folder: Path) -> Iterator[str]:
    """The one given, or a new one."""
    if bootstrap:
        yield bootstrap
        return
    broker = SUBJECTS[kind].make(folder)
    broker.start()
    try:
        yield f"127.0.0.1:{broker.port}"
    finally:
        broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 100 bytes; half of them of 1 KiB")
    parser.add_argument("--broker", choices=("kafka", "klamm"), default="kafka")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--only", choices=("throughput", "latency"))
    parser.add_argument("--partitions", type=int, help="shapes with so many only")
    parser.add_argument("--write", action="store_true", help="the result into bench/results")
    given = parser.parse_args()
    subprocess.run([ROOT / "tools" / "fetch_spark_connector.sh"], check=True)
    jars = sorted((cache_dir() / "spark-kafka-4.2.0" / "libs").glob("*.jar"))
    report = Report(
        f"klamm on Spark beside Spark's own connector, broker {given.broker}",
        "kafka",
        {**CONNECTORS, **READ_ONLY},
    )
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
        bench = Bench(spark, bootstrap, report, Path(name))
        if given.only != "latency":
            bench.throughput(given.rounds, given.rows, given.partitions)
        if given.only != "throughput":
            bench.latency(given.rounds)
        bench.admin.close()
        spark.stop()
    report.note(f"PySpark {version('pyspark')}, pyarrow {version('pyarrow')}")
    report.note(f"load average at the end: {' '.join(f'{value:.1f}' for value in os.getloadavg())}")
    print(report.table())
    if given.write:
        print(report.write(f"spark_vs_connector_{given.broker}"))


if __name__ == "__main__":
    main()
