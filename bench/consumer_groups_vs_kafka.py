"""How do groups of the consumer protocol (KIP-848) on klamm compare with Apache Kafka's on the same machine?

Starts each broker in turn on the same load, alternating, and writes a table of ratios:

    python -m bench.consumer_groups_vs_kafka          (with src and tests on PYTHONPATH)

Heartbeats that only keep alive, of 1,000 members in one group and of 10,000 in ten, 1,000 of them always in
flight over 8 connections. Then from the first heartbeat of a new group to all members at one epoch, each with
its share of a topic; then with one more member. Members are on a connection each, in a program in Go. They
send a heartbeat at once when they have something to acknowledge, and after 20 ms otherwise, not after 5 s:
what is measured is the broker. Kafka computes a target at most once a second, its default.
Kafka acknowledges what is in the page cache, klamm what is on the disk.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

from bench.broker_vs_kafka import create_topic
from bench.brokers import SUBJECTS, Running, cpu_s
from bench.group_load import Crowd, Group, wait_for_coordinator
from bench.group_rates import consumer_heartbeats
from bench.report import Figure, Report, circumstances
from bench.warming import warm_up

LANES = 8
TOPIC = "wide"  # as in bench/group_crowd
PARTITIONS = 1_000
SETTINGS = {  # no session ends while others are measured
    "group.consumer.max.session.timeout.ms": "1200000",
    "group.consumer.session.timeout.ms": "1200000",
}


def rate_figure(members: int) -> Figure:
    return Figure(f"heartbeats, {members:,} members, {LANES} connections", "/s", more_is_better=True)


def cpu_figure(members: int) -> Figure:
    return Figure(f"broker CPU per heartbeat, {members:,} members", "µs", more_is_better=False)


def fresh_figure(size: int) -> Figure:
    return Figure(f"{size:,} members join, until the group is stable", "ms", more_is_better=False)


def fresh_cpu_figure(size: int) -> Figure:
    return Figure(f"broker CPU of that, {size:,} members", "ms", more_is_better=False)


def one_more_figure(size: int) -> Figure:
    return Figure(f"one more joins {size:,}, until the group is stable", "ms", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything: enough to measure, or just enough to try."""

    warm_up_s: float
    measure_s: float
    heartbeats: dict[int, int]  # groups of a thousand members
    sizes: dict[int, int]  # of a group -> how often


FULL = Amounts(30, 6, {1_000: 1, 10_000: 10}, {100: 9, 1_000: 5, 5_000: 3})
QUICK = Amounts(2, 2, {1_000: 1}, {100: 2, 1_000: 1})


def measure_heartbeats(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    for members, groups in amounts.heartbeats.items():
        rate = consumer_heartbeats(
            ("127.0.0.1", broker.port),
            broker.pid,
            groups=groups,
            size=members // groups,
            partitions=PARTITIONS,
            lanes=LANES,
            warm_up_s=amounts.warm_up_s,
            measure_s=amounts.measure_s,
        )
        report.add(rate_figure(members), name, rate.per_second)
        report.add(cpu_figure(members), name, rate.cpu_us)


def measure_joins(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    crowd = Crowd(("127.0.0.1", broker.port), max(amounts.sizes) + 1)
    turns = count()

    def gathered(size: int) -> Group:
        group = Group(f"gathered-{size}-{next(turns)}")
        crowd.gather(group, size, PARTITIONS)
        return group

    warm_up(lambda: 1 / gathered(100).took_s, amounts.warm_up_s)
    for size, repeats in amounts.sizes.items():
        fresh_ms: list[float] = []
        cpu_ms: list[float] = []
        one_more_ms: list[float] = []
        for _ in range(repeats):
            before_s = cpu_s(broker.pid)
            group = gathered(size)
            fresh_ms.append(group.took_s * 1000)
            cpu_ms.append((cpu_s(broker.pid) - before_s) * 1000)
            crowd.gather(group, 1, PARTITIONS)
            one_more_ms.append(group.took_s * 1000)
        report.add(fresh_figure(size), name, median(fresh_ms))
        report.add(fresh_cpu_figure(size), name, median(cpu_ms))
        report.add(one_more_figure(size), name, median(one_more_ms))
    crowd.close()


def measure(report: Report, name: str, folder: Path, amounts: Amounts) -> None:
    """One broker through both loads, from an empty folder."""
    broker = SUBJECTS[name].make(folder, SETTINGS)
    try:
        broker.start()
        create_topic(f"127.0.0.1:{broker.port}", TOPIC, PARTITIONS)
        wait_for_coordinator(("127.0.0.1", broker.port), ["any"])
        measure_heartbeats(report, name, broker, amounts)
        measure_joins(report, name, broker, amounts)
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
    parser.add_argument(
        "--brokers",
        default="kafka,klamm",
        help=f"comma-separated brokers to compare, the first is the base: {', '.join(SUBJECTS)}",
    )
    parser.add_argument("--name", help="of the files in bench/results (default consumer-groups-COMMIT)")
    arguments = parser.parse_args()

    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a socket per member, on both ends
    names = arguments.brokers.split(",")
    report = Report(
        "How do groups of the consumer protocol on klamm compare with Apache Kafka's?",
        names[0],
        {name: SUBJECTS[name].says for name in names},
    )
    for turn in range(arguments.rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            print(f"round {turn + 1} of {arguments.rounds}: {name}", flush=True)
            folder = Path(tempfile.mkdtemp(prefix="klamm-bench-"))
            try:
                measure(report, name, folder, QUICK if arguments.quick else FULL)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    written = report.write(arguments.name or f"consumer-groups-{circumstances()['commit'].split()[0]}")
    print(f"\n{report.table()}\n\nwritten to {written}")


if __name__ == "__main__":
    main()
