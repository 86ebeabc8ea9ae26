"""What does the journal gain? The same broker with and without it, alternating, on the same load.

    python -m bench.journal_gain [--rounds 3]          (with src and tests on PYTHONPATH)

Commits of 200 groups with 10 partitions each over 8 connections, one in flight for each group; transactions
of 10 records in two partitions by one producer, and by ten at once (librdkafka). Everything is
durable before it is answered.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.broker_vs_kafka import create_topic
from bench.brokers import Klamm
from bench.group_load import wait_for_coordinator
from bench.group_rates import commits
from bench.transactions_vs_kafka import rate_of, run_transactions, transactional

GROUPS = 200
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
VARIANTS = {"without": {**SETTINGS, "klamm.journal.file.bytes": "0"}, "with": SETTINGS}


def measure(broker: Klamm, number: int) -> dict[str, float]:
    """One turn of a broker."""
    address, bootstrap = ("127.0.0.1", broker.port), f"127.0.0.1:{broker.port}"
    rate = commits(address, broker.pid, groups=GROUPS, partitions=10, lanes=8, warm_up_s=1.0, measure_s=4.0)
    one = transactional(bootstrap, f"one-{number}")
    run_transactions(one, 20)
    ten = [transactional(bootstrap, f"ten-{number}-{index}") for index in range(10)]
    with ThreadPoolExecutor(len(ten)) as threads:
        return {
            "commits/s": rate.per_second,
            "µs of CPU per commit": rate.cpu_us,
            "transactions/s, one producer": rate_of(lambda: run_transactions(one, 200), 200),
            "transactions/s, ten producers": rate_of(
                lambda: list(threads.map(lambda each: run_transactions(each, 100), ten)), 1000
            ),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant has its turn")
    rounds = parser.parse_args().rounds
    figures: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        brokers = {name: Klamm(Path(folder) / name, settings) for name, settings in VARIANTS.items()}
        try:
            for broker in brokers.values():
                broker.start()
                for topic, partitions in (("orders", 10), ("transactions", 2)):
                    create_topic(f"127.0.0.1:{broker.port}", topic, partitions)
                groups = [f"committing-{number:03}" for number in range(GROUPS)]
                wait_for_coordinator(("127.0.0.1", broker.port), groups)
            for number in range(rounds):
                for name, broker in brokers.items():
                    for figure, value in measure(broker, number).items():
                        figures.setdefault(figure, {}).setdefault(name, []).append(value)
        finally:
            for broker in brokers.values():
                broker.stop()
    for figure, by_variant in figures.items():
        print(figure, *(f"{name}: {_summary(values)}" for name, values in by_variant.items()), sep="  ")


def _summary(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


if __name__ == "__main__":
    main()
