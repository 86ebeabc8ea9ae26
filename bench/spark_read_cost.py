"""Who uses the processor while Spark reads a topic, in microseconds per row?

Run: PYTHONPATH=src:tests python -m bench.spark_read_cost [--rounds 5] [--rows 300000] [--size 1024]
One Spark application on `local[2]`, one broker, a topic of two partitions; klamm, Spark's own connector and a
source that only hands over prepared batches (`bench.spark_floor`) take turns. Time is counted for the Python
workers, for the threads of the JVM by their names, and for the broker. Wall time says how much of two
processors that is.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import klamm.spark
from bench.brokers import CLOCK_TICKS_PER_S, SUBJECTS, Running
from bench.report import Figure, Report
from bench.spark_floor import PreparedSource
from bench.spark_vs_connector import CONNECTORS, READ_ONLY, Bench, grown, tree_cpu_s
from interop.kafka_tools import cache_dir
from interop.processes import ROOT

PARTITIONS = 2
WARMING_UP = 4
KINDS = {
    "C1 Compiler": "JVM, compilers",
    "C2 Compiler": "JVM, compilers",
    "Executor task": "JVM, threads of tasks",
}
OTHER = "JVM, all other threads"
WORKERS = "Python workers"
BROKER = "the broker"


def threads_s(pid: int) -> dict[tuple[str, int], float]:
    """Processor time of the threads of a JVM, by their kind and number."""
    found: dict[tuple[str, int], float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # a thread that has just ended
        kind = next((kind for start, kind in KINDS.items() if name.startswith(start)), OTHER)
        fields = rest.split()
        found[kind, int(task.name)] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S
    return found


class CostBench(Bench):
    """Reads, and what each of the parties used meanwhile."""

    broker_pid: int

    def used_s(self) -> dict[tuple[str, int], float]:
        """Processor time so far, by who used it."""
        workers = {pid: used for pid, used in tree_cpu_s(self.jvm_pid).items() if pid != self.jvm_pid}
        return {
            **threads_s(self.jvm_pid),
            **{(WORKERS, pid): used for pid, used in workers.items()},
            **{(BROKER, pid): used for pid, used in tree_cpu_s(self.broker_pid).items()},
        }

    def costs(self, subject: str, rows: int, read: Callable[[], object], *, counts: bool) -> None:
        before, started = self.used_s(), time.perf_counter()
        read()
        wall_s, after = time.perf_counter() - started, self.used_s()
        if not counts:
            return
        spent: dict[str, float] = defaultdict(float)
        for kind in (WORKERS, *dict.fromkeys(KINDS.values()), OTHER, BROKER):
            of_kind = [
                {number: used for (name, number), used in times.items() if name == kind}
                for times in (before, after)
            ]
            spent[kind] = grown(*of_kind)
        in_spark = sum(used for kind, used in spent.items() if kind != BROKER)
        shown = {
            **spent,
            "Spark, all of that but the broker": in_spark,
            "Spark, without compilers": in_spark - spent["JVM, compilers"],
            "wall": wall_s,
        }
        for what, used in shown.items():
            self.report.add(Figure(what, "us per row", False), subject, used / rows * 1e6)


def run(bench: CostBench, rounds: int, rows: int, size: int) -> None:
    bench.spark.dataSource.register(PreparedSource)
    topic = bench.topic(PARTITIONS)
    bench.write("klamm", topic, rows, size)
    reads: dict[str, Callable[[], object]] = {
        "kafka": lambda: bench.read("kafka", topic),
        "klamm": lambda: bench.read("klamm", topic),
        "prepared": lambda: bench.read_prepared(rows, size, PARTITIONS),
    }
    for turn in range(-WARMING_UP, rounds):
        print("warming up" if turn < 0 else f"round {turn + 1}", flush=True)
        for subject, read in reads.items():
            bench.costs(subject, rows, read, counts=turn >= 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=1024, help="of a value")
    parser.add_argument("--broker", choices=("kafka", "klamm"), default="klamm")
    parser.add_argument("--write", action="store_true", help="the result into bench/results")
    given = parser.parse_args()
    subprocess.run([ROOT / "tools" / "fetch_spark_connector.sh"], check=True)
    jars = sorted((cache_dir() / "spark-kafka-4.2.0" / "libs").glob("*.jar"))
    report = Report(
        f"processor time of reading values of {given.size} bytes on Spark, broker {given.broker}",
        "kafka",
        {**CONNECTORS, **READ_ONLY},
    )
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as name:
        broker: Running = SUBJECTS[given.broker].make(Path(name) / "broker")
        broker.start()
        try:
            spark = klamm.spark.session(
                "bench",
                master="local[2]",
                log_level="OFF",
                conf={"spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "2g"},
            )
            bench = CostBench(spark, f"127.0.0.1:{broker.port}", report, Path(name))
            bench.broker_pid = broker.pid
            run(bench, given.rounds, given.rows, given.size)
            bench.admin.close()
            spark.stop()
        finally:
            broker.stop()
    print(report.table())
    if given.write:
        print(report.write(f"spark_read_cost_{given.size}"))


if __name__ == "__main__":
    main()
