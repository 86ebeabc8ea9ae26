"""How do klamm's consumer groups compare with Apache Kafka's on the same machine?

Starts each broker in turn on the same load, alternating, and writes a table of ratios:

    python -m bench.groups_vs_kafka          (with src and tests on PYTHONPATH)

Heartbeats of 1,000 members and commits of 200 groups with 10 partitions each, over 8 connections that are
never idle: every member has one heartbeat in flight, every group one commit. Heartbeats of 100 and of 100,000
members, always 96 in flight: does one cost more when there are many? Rebalances: from the first JoinGroup to
the last assignment, members on a connection each, in a program in Go, without initial delay; then with one
more member, which the others notice by heartbeats that they send at once. Last a restart on 1,000,000 offset
records. The 100,000 members and the restart have a broker of their own each, which nothing else has used.
Before each of these but the restart, a broker has the same load for half a minute and until its figure stands
still: a Java broker takes that long to compile itself.
Kafka acknowledges what is in the page cache, klamm what is on the disk.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

from bench.broker_vs_kafka import create_topic
from bench.brokers import SUBJECTS, Running, cpu_s, resident_mb
from bench.group_load import TOPIC, Address, Crowd, wait_for_coordinator
from bench.group_rates import commits, fill, heartbeats, served, spread_heartbeats
from bench.report import Figure, Report, circumstances
from bench.warming import warm_up

LANES = 8
MEMBERS = 1_000
GROUPS = 200
PARTITIONS = 10
FILLED_PARTITIONS = 100
ALONE = ({"heartbeats", "commits", "rebalances"}, {"growth"}, {"load"})  # those that share a broker

HEARTBEATS = Figure(f"heartbeats, {MEMBERS:,} members, {LANES} connections", "/s", more_is_better=True)
HEARTBEAT_CPU = Figure("broker CPU per heartbeat", "µs", more_is_better=False)
FEW_CPU = Figure("broker CPU per heartbeat, 100 members in 1 group", "µs", more_is_better=False)
MANY_CPU = Figure("broker CPU per heartbeat, 100,000 members in 1,000 groups", "µs", more_is_better=False)
COMMITS = Figure(f"commits, {GROUPS} groups of {PARTITIONS} partitions", "/s", more_is_better=True)
COMMIT_CPU = Figure("broker CPU per commit", "µs", more_is_better=False)
RESTART = Figure("restart until 1,000,000 offset records are served", "s", more_is_better=False)
LOAD = Figure("of that, what it takes longer than without records", "s", more_is_better=False)
LOAD_CPU = Figure("broker CPU of that load", "s", more_is_better=False)
MEMORY = Figure("memory after the load, resident", "MB", more_is_better=False)


def fresh_figure(size: int) -> Figure:
    return Figure(f"{size:,} members join, until all are assigned", "ms", more_is_better=False)


def one_more_figure(size: int) -> Figure:
    return Figure(f"one more joins {size:,}, until all are assigned", "ms", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything: enough to measure, or just enough to try."""

    warm_up_s: float
    measure_s: float
    rebalances: dict[int, int]  # size of the group -> how often
    records: int
    groups: int  # of 100 members


FULL = Amounts(30, 6, {10: 15, 100: 9, 1_000: 5, 5_000: 3}, 1_000_000, 1_000)
QUICK = Amounts(0.5, 0.5, {10: 2, 100: 2}, 20_000, 3)


def measure_growth(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Heartbeats of few members, then of many."""
    address, pid = ("127.0.0.1", broker.port), broker.pid
    for figure, groups in ((FEW_CPU, 1), (MANY_CPU, amounts.groups)):
        rate = spread_heartbeats(
            address,
            pid,
            groups=groups,
            size=100,
            lanes=LANES,
            warm_up_s=amounts.warm_up_s,
            measure_s=amounts.measure_s,
        )
        report.add(figure, name, rate.cpu_us)


def measure_rates(report: Report, name: str, broker: Running, amounts: Amounts, parts: set[str]) -> None:
    """Requests that settled members send all the time."""
    address, pid = ("127.0.0.1", broker.port), broker.pid
    times = {"warm_up_s": amounts.warm_up_s, "measure_s": amounts.measure_s}
    if "heartbeats" in parts:
        beating = heartbeats(address, pid, members=MEMBERS, lanes=LANES, **times)
        report.add(HEARTBEATS, name, beating.per_second)
        report.add(HEARTBEAT_CPU, name, beating.cpu_us)
    if "commits" in parts:
        committing = commits(address, pid, groups=GROUPS, partitions=PARTITIONS, lanes=LANES, **times)
        report.add(COMMITS, name, committing.per_second)
        report.add(COMMIT_CPU, name, committing.cpu_us)


def measure_rebalances(report: Report, name: str, address: Address, amounts: Amounts) -> None:
    """Groups of several sizes, each several times, the median counts."""
    crowd = Crowd(address, max(amounts.rebalances) + 1)
    turns = count()

    def rebalances_per_second() -> float:
        took_s = 0.0
        for size in sorted(amounts.rebalances, reverse=True):
            group = crowd.settle(f"warming-{next(turns)}", size)
            took_s += group.took_s
            crowd.one_more(group)
            took_s += group.took_s
            group.leave(address)
        return 2 * len(amounts.rebalances) / took_s

    warm_up(rebalances_per_second, amounts.warm_up_s)
    for size, repeats in amounts.rebalances.items():
        fresh_ms: list[float] = []
        one_more_ms: list[float] = []
        for turn in range(repeats):
            group = crowd.settle(f"fresh-{size}-{turn}", size)
            fresh_ms.append(group.took_s * 1000)
            crowd.one_more(group)
            one_more_ms.append(group.took_s * 1000)
            group.leave(address)
        report.add(fresh_figure(size), name, median(fresh_ms))
        report.add(one_more_figure(size), name, median(one_more_ms))
    crowd.close()


def restarted(broker: Running, group_ids: list[str]) -> tuple[float, float]:
    """Stop, start, and wait for the offsets of all groups: seconds, and seconds of processor time."""
    broker.stop()
    started_at = time.monotonic()
    broker.start()
    address = ("127.0.0.1", broker.port)
    while served(address, group_ids, FILLED_PARTITIONS):
        time.sleep(0.005)
        if time.monotonic() - started_at > 300:
            raise TimeoutError("the offsets are not served after five minutes")
    return time.monotonic() - started_at, cpu_s(broker.pid)


def measure_load(report: Report, name: str, broker: Running, amounts: Amounts) -> None:
    """Two restarts, with few and with many records behind the same offsets."""
    address = ("127.0.0.1", broker.port)
    few = {"groups": GROUPS, "partitions": FILLED_PARTITIONS}
    group_ids = fill(address, records=GROUPS * FILLED_PARTITIONS, **few)
    empty_s, empty_cpu_s = restarted(broker, group_ids)
    fill(address, records=amounts.records, **few)
    full_s, full_cpu_s = restarted(broker, group_ids)
    report.add(RESTART, name, full_s)
    report.add(LOAD, name, full_s - empty_s)
    report.add(LOAD_CPU, name, full_cpu_s - empty_cpu_s)
    report.add(MEMORY, name, resident_mb(broker.pid))


def measure(report: Report, name: str, folder: Path, amounts: Amounts, parts: set[str]) -> None:
    """One broker through some loads, from an empty folder."""
    broker = SUBJECTS[name].make(folder)
    try:
        broker.start()
        address = ("127.0.0.1", broker.port)
        create_topic(f"127.0.0.1:{broker.port}", TOPIC, FILLED_PARTITIONS)
        wait_for_coordinator(address, ["any"])
        measure_rates(report, name, broker, amounts, parts)
        if "rebalances" in parts:
            measure_rebalances(report, name, address, amounts)
        if "growth" in parts:
            measure_growth(report, name, broker, amounts)
        if "load" in parts:
            measure_load(report, name, broker, amounts)
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
        "--parts", default="heartbeats,growth,commits,rebalances,load", help="which loads (default all)"
    )
    parser.add_argument("--brokers", default="kafka,klamm", help=f"which of {', '.join(SUBJECTS)}")
    parser.add_argument(
        "--folder", type=Path, help="where the brokers keep their data (default: a temporary one)"
    )
    parser.add_argument("--name", help="of the files in bench/results (default groups-COMMIT)")
    arguments = parser.parse_args()

    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a socket per member, on both ends
    names = arguments.brokers.split(",")
    says = {name: SUBJECTS[name].says for name in names}
    report = Report("How do klamm's consumer groups compare with Apache Kafka's?", names[0], says)
    amounts = QUICK if arguments.quick else FULL
    for turn in range(arguments.rounds):
        # Every other round backwards, so that no subject always follows the same neighbour.
        for name in names if turn % 2 == 0 else reversed(names):
            print(f"round {turn + 1} of {arguments.rounds}: {name}", flush=True)
            for parts in ALONE:
                if asked := parts & set(arguments.parts.split(",")):
                    folder = Path(tempfile.mkdtemp(prefix="klamm-bench-", dir=arguments.folder))
                    try:
                        measure(report, name, folder, amounts, asked)
                    finally:
                        shutil.rmtree(folder, ignore_errors=True)
    written = report.write(arguments.name or f"groups-{circumstances()['commit'].split()[0]}")
    print(f"\n{report.table()}\n\nwritten to {written}")


if __name__ == "__main__":
    main()
