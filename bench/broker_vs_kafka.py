"""How does klamm's data path compare with Apache Kafka's on the same machine?

Starts each broker in turn on the same load, alternating, and writes a table of ratios:

    make bench                       (python -m bench.broker_vs_kafka, with src and tests on PYTHONPATH)

`--parts` names the loads, each of which starts its brokers anew: `tools` (Kafka's own producer and consumer,
then single requests), `latency` (1,000 requests/s) and `fetch` (large batches).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import SUBJECTS, Running, cpu_s, resident_mb
from bench.parallel_fetch import fill, parallel_fetch
from bench.raw_load import paced_produce, pipelined_produce, read_partition, wait_until_writable
from bench.report import Figure, Report
from bench.scheduled_load import Distribution, scheduled_produce, scheduled_syncs
from interop.kafka_tools import java_command

LOAD_FLAGS = ("-Xmx512m",)  # as Kafka's own scripts start its tools

START = Figure("start to first answered request", "s", more_is_better=False)
IDLE_MEMORY = Figure("idle memory, resident", "MB", more_is_better=False)
LOADED_MEMORY = Figure("memory after all loads, resident", "MB", more_is_better=False)
PIPELINED = Figure("small produce requests, 8 connections x 16 in flight", "requests/s", more_is_better=True)
PACED_MEDIAN = Figure("produce latency at 100 requests/s, median", "ms", more_is_better=False)
PACED_P99 = Figure("produce latency at 100 requests/s, 99 %", "ms", more_is_better=False)
PER_SECOND = 1_000  # at a fixed rate, each request timed from when it was due
CONNECTIONS = 4
RAW_FETCH = Figure("fetch, one raw connection, 1 KiB records", "MB/s", more_is_better=True)


def produce_figure(record_bytes: int) -> Figure:
    return Figure(
        f"produce, kafka-producer-perf-test, {record_bytes} B, acks=all", "MB/s", more_is_better=True
    )


def consume_figure(record_bytes: int) -> Figure:
    return Figure(f"consume, kafka-consumer-perf-test, {record_bytes} B", "MB/s", more_is_better=True)


def latency_figures(what: str) -> tuple[Figure, ...]:
    """For each number of a `Distribution`."""
    return tuple(
        Figure(f"{what}, {part}", "ms", more_is_better=False)
        for part in ("median", "99 %", "99.9 %", "longest")
    )


SCHEDULED = latency_figures(f"produce latency at {PER_SECOND:,} requests/s, {CONNECTIONS} connections")
SENT_LATE = latency_figures("of which the load sent the request too late")
SYNCED = latency_figures(f"fdatasync alone in the same folder, {PER_SECOND:,}/s")


def fetch_figure(connections: int) -> Figure:
    return Figure(
        f"fetch, {connections} raw connection(s), lz4 batches of 256 KiB, 1 MiB each",
        "MB/s",
        more_is_better=True,
    )


def cpu_figure(record_bytes: int) -> Figure:
    return Figure(f"broker CPU while producing {record_bytes} B records", "s/GB", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything: enough to measure, or just enough to try."""

    perf_mb: int
    pipelined_s: float
    paced_requests: int
    settle_s: float
    scheduled_s: int
    fetch_s: float
    fetch_mb: int


FULL = Amounts(
    perf_mb=400,
    pipelined_s=8,
    paced_requests=500,
    settle_s=5,
    scheduled_s=12,
    fetch_s=4,
    fetch_mb=100,
)
QUICK = Amounts(
    perf_mb=10, pipelined_s=1, paced_requests=50, settle_s=1, scheduled_s=1, fetch_s=0.5, fetch_mb=10
)


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def run_tool(tool: str, *arguments: str) -> str:
    done = subprocess.run(
        java_command(f"org.apache.kafka.tools.{tool}", *arguments, flags=LOAD_FLAGS),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{tool} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout


def produce_mb_s(bootstrap: str, topic: str, *, record_bytes: int, count: int) -> float:
    """Megabytes (10^6) per second of Kafka's own producer, its first tenth left out."""
    printed = run_tool(
        "ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--record-size", str(record_bytes)),
        *("--num-records", str(count), "--warmup-records", str(count // 10), "--throughput", "-1"),
        *("--command-property", "acks=all"),
    )
    found = re.search(r"steady state records sent, ([\d.]+) records/sec", printed)
    if found is None:
        raise RuntimeError(f"no figure in {printed[-500:]}")
    return float(found[1]) * record_bytes / 1e6


def consume_mb_s(bootstrap: str, topic: str, *, record_bytes: int, count: int) -> float:
    """Megabytes (10^6) per second of Kafka's own consumer, joining its group left out."""
    printed = run_tool(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count), "--hide-header"),
        *("--timeout", "10000"),
    )
    fields = [field.strip() for field in printed.strip().splitlines()[-1].split(",")]
    if int(fields[4]) < count:
        raise RuntimeError(f"{fields[4]} of {count} records were read")
    return float(fields[9]) * record_bytes / 1e6


def measure_perf_tools(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Kafka's own producer and consumer, with small and with larger records."""
    bootstrap = f"127.0.0.1:{broker.port}"
    for record_bytes in (100, 1024):
        topic = f"perf-{record_bytes}"
        count = amounts.perf_mb * 1_000_000 // record_bytes
        create_topic(bootstrap, topic, 1)
        cpu_before_s = cpu_s(broker.pid)
        report.add(
            produce_figure(record_bytes),
            name,
            produce_mb_s(bootstrap, topic, record_bytes=record_bytes, count=count),
        )
        used_s = cpu_s(broker.pid) - cpu_before_s
        report.add(cpu_figure(record_bytes), name, used_s / (amounts.perf_mb / 1000))
        try:
            consumed = consume_mb_s(bootstrap, topic, record_bytes=record_bytes, count=count)
        except RuntimeError as error:
            report.note(f"{name}: kafka-consumer-perf-test did not finish: {str(error)[:200]}")
        else:
            report.add(consume_figure(record_bytes), name, consumed)
    report.add(RAW_FETCH, name, read_partition(("127.0.0.1", broker.port), "perf-1024", 0, count))


def measure_requests(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Single small requests: how many at most, and how long one takes."""
    address = ("127.0.0.1", broker.port)
    create_topic(f"127.0.0.1:{broker.port}", "small", 8)
    wait_until_writable(address, "small", 8)
    latencies = paced_produce(address, "small", per_second=100, count=amounts.paced_requests)
    report.add(PACED_MEDIAN, name, latencies.median_ms)
    report.add(PACED_P99, name, latencies.p99_ms)
    answered_per_s = pipelined_produce(
        address,
        "small",
        connections=8,
        in_flight=16,
        warm_up_s=amounts.pipelined_s / 2,
        measure_s=amounts.pipelined_s,
    )
    report.add(PIPELINED, name, answered_per_s)


def measure_tools(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Everything that a broker just started goes through."""
    report.add(START, name, broker.start_to_first_answer_s)
    time.sleep(amounts.settle_s)
    report.add(IDLE_MEMORY, name, resident_mb(broker.pid))
    measure_perf_tools(report, name, broker, amounts)  # which also warms it up for what follows
    measure_requests(report, name, broker, amounts)
    report.add(LOADED_MEMORY, name, resident_mb(broker.pid))


def measure_latency(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """At a fixed rate, after as long a time of the same load; and what the disk takes of that."""
    address = ("127.0.0.1", broker.port)
    create_topic(f"127.0.0.1:{broker.port}", "scheduled", CONNECTIONS)
    wait_until_writable(address, "scheduled", CONNECTIONS)

    def add(figures: tuple[Figure, ...], found: Distribution) -> None:
        for figure, sample in zip(figures, found.all_ms, strict=True):
            report.add(figure, name, sample)

    def load() -> tuple[Distribution, Distribution]:
        return scheduled_produce(
            address,
            "scheduled",
            connections=CONNECTIONS,
            per_second=PER_SECOND,
            count=PER_SECOND * amounts.scheduled_s,
        )

    load()
    latencies, delays = load()
    add(SCHEDULED, latencies)
    add(SENT_LATE, delays)
    syncs = PER_SECOND * amounts.scheduled_s // 2
    add(SYNCED, scheduled_syncs(broker.folder, per_second=PER_SECOND, count=syncs))


def measure_fetch(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Large batches from the page cache; as long before as it is measured."""
    address = ("127.0.0.1", broker.port)
    create_topic(f"127.0.0.1:{broker.port}", "large", CONNECTIONS)
    wait_until_writable(address, "large", CONNECTIONS)
    for partition in range(CONNECTIONS):
        end_offset = fill(address, "large", partition, total_bytes=amounts.fetch_mb * 1_000_000)
    for connections in (1, CONNECTIONS):
        for is_measured in (False, True):
            rate = parallel_fetch(
                address,
                "large",
                end_offset=end_offset,
                connections=connections,
                seconds=amounts.fetch_s,
                max_bytes=1 << 20,
            )
            if is_measured:
                report.add(fetch_figure(connections), name, rate)


PARTS = {"tools": measure_tools, "latency": measure_latency, "fetch": measure_fetch}


def measure(report: Report, name: str, part: str, folder: Path, amounts: Amounts) -> None:
    """One broker through the loads of one part, from an empty folder."""
    broker = SUBJECTS[name].make(folder)
    broker.start()
    try:
        PARTS[part](report, name, broker, amounts)
    finally:
        broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each broker has its turn (default 3)"
    )
    parser.add_argument("--quick", action="store_true", help="tiny loads, to see that it runs")
    parser.add_argument("--mb", type=int, help=f"to write per load (default {FULL.perf_mb})")
    parser.add_argument("--brokers", default=",".join(SUBJECTS), help="which, comma-separated (default all)")
    parser.add_argument(
        "--folder", type=Path, help="where the brokers keep their data (default: a temporary one)"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="which loads, comma-separated (default all)")
    parser.add_argument("--name", default="broker_vs_kafka", help="of the files in bench/results")
    arguments = parser.parse_args()

    names = arguments.brokers.split(",")
    says = {name: SUBJECTS[name].says for name in names}
    report = Report("How does klamm's data path compare with Apache Kafka's?", names[0], says)
    amounts = QUICK if arguments.quick else FULL
    if arguments.mb is not None:
        amounts = replace(amounts, perf_mb=arguments.mb)
    for turn in range(arguments.rounds):
        # Every other round backwards, so that no subject always follows the same neighbour.
        for name in names if turn % 2 == 0 else reversed(names):
            for part in arguments.parts.split(","):
                print(f"round {turn + 1} of {arguments.rounds}: {name}, {part}", flush=True)
                folder = Path(tempfile.mkdtemp(prefix="klamm-bench-", dir=arguments.folder))
                try:
                    measure(report, name, part, folder, amounts)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{report.table()}\n\nwritten to {report.write(arguments.name)}")


if __name__ == "__main__":
    main()
