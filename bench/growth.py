"""Does the cost of klamm's broker grow as the work does, and no faster?

    python -m bench.growth          (with src and tests on PYTHONPATH; 15 minutes)

Members of groups, groups, partitions and connections, each in steps of ten: processor time of the broker's
process per request, memory, start, and what it costs when idle. Processor time and not wall time, so that
other processes of the machine disturb little. A cost per request or per member that stays the same while
their number grows is what we look for.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.brokers import Klamm
from bench.growth_groups import (
    COMMITTED,
    GROUP_SIZE,
    GROUPS,
    MEMBERS,
    grown_groups,
    grown_members,
    rebalanced,
)
from bench.growth_load import most_connections
from bench.growth_partitions import CONNECTIONS, PARTITIONS, grown_connections, grown_partitions
from bench.growth_report import Growth

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
WAIT_S = 900  # for a broker with many partitions to start or to stop
AXES = {
    MEMBERS: f"Members in groups of {GROUP_SIZE}; a whole group of that many members where it rebalances. "
    "Heartbeats of all members in a random order, 96 in flight on 8 connections.",
    GROUPS: f"Groups, each with {COMMITTED} committed offsets. Commits of all groups in a random order, "
    "96 in flight on 8 connections.",
    PARTITIONS: "Partitions of one topic. Requests for all partitions in a random order, 96 in flight on 8 "
    "connections, acks=all.",
    CONNECTIONS: "Connections that stay open.",
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything: enough to measure, or just enough to try."""

    largest: dict[str, int]
    rebalanced: Sequence[int]  # sizes of groups
    requests: int
    joins: int  # in one sample of small groups
    repeats: int
    idle_s: float
    idle_connections_s: float


FULL = Amounts(
    {MEMBERS: 100_000, GROUPS: 10_000, PARTITIONS: 10_000, CONNECTIONS: 10_000},
    rebalanced=(10, 100, 1_000, 5_000),  # of 10,000 members the group's record exceeds a megabyte
    requests=20_000,
    joins=2_000,
    repeats=3,
    idle_s=70,
    idle_connections_s=10,
)
QUICK = Amounts(dict.fromkeys(FULL.largest, 100), (10, 100), 500, 100, 1, 2, 1)


def steps(smallest: int, largest: int) -> list[int]:
    """Powers of ten."""
    sizes = [smallest]
    while sizes[-1] * 10 <= largest:
        sizes.append(sizes[-1] * 10)
    return sizes


@contextmanager
def brokers(count: int, parent: Path | None) -> Iterator[Sequence[Klamm]]:
    """Running brokers with empty data."""
    folder = Path(tempfile.mkdtemp(prefix="klamm-growth-", dir=parent))
    running = [Klamm(folder / str(number), SETTINGS, wait_s=WAIT_S) for number in range(count)]
    try:
        for broker in running:
            broker.start()
        yield running
    finally:
        for broker in running:
            broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(growth: Growth, axis: str, amounts: Amounts, parent: Path | None) -> None:
    """One table."""
    sizes = steps(10 if axis == MEMBERS else 1, amounts.largest[axis])
    requests, repeats = amounts.requests, amounts.repeats
    if axis == PARTITIONS:
        with brokers(len(sizes), parent) as running:
            by_size = dict(zip(sizes, running, strict=True))
            grown_partitions(growth, by_size, requests=requests, repeats=repeats, idle_s=amounts.idle_s)
        return
    with brokers(1, parent) as (broker,):
        if axis == MEMBERS:
            grown_members(growth, broker, sizes, requests, repeats)
        elif axis == GROUPS:
            grown_groups(growth, broker, sizes, requests, repeats)
        else:
            allowed = [size for size in sizes if size <= most_connections()]
            if allowed != sizes:
                growth.note(
                    f"more than {allowed[-1]:,} connections need a higher limit of open files (ulimit -n)"
                )
            grown_connections(
                growth,
                broker,
                allowed,
                requests=requests,
                repeats=repeats,
                idle_s=amounts.idle_connections_s,
            )
    if axis == MEMBERS:
        with brokers(1, parent) as (broker,):
            sizes = [size for size in amounts.rebalanced if size < most_connections()]
            rebalanced(growth, broker, sizes, amounts.joins, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument(
        "--axes",
        default=",".join(AXES),
        help="what is to grow (default all); the last results of the others are kept",
    )
    parser.add_argument("--folder", type=Path, help="for the data of brokers (default: a temporary one)")
    parser.add_argument("--name", default="growth", help="of the files in bench/results")
    arguments = parser.parse_args()
    most_connections()  # raises the limit, which brokers inherit
    growth = Growth(AXES, arguments.name)
    amounts = QUICK if arguments.quick else FULL
    for axis in arguments.axes.split(","):
        growth.say(f"growing {axis}")
        measure(growth, axis, amounts, arguments.folder)
        written = growth.write()
    print(f"\n{written.read_text()}")
    print(f"written to {written}")


if __name__ == "__main__":
    main()
