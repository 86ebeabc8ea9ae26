"""How do klamm's transactions compare with Apache Kafka's?

The same clients on both; every answer is durable on klamm's side. Each broker is warmed by the load that
follows until two rates in a row lie within a tenth of each other.

    python -m bench.transactions_vs_kafka --rounds 2

The clients differ in what they do between a commit and the next transaction: librdkafka needs 1 to 2 ms
before it sends AddPartitionsToTxn, by its own log (`debug=protocol`). franz-go's program is that of the
interop tests: `tools/build_clients.sh` builds it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.broker_vs_kafka import create_topic
from bench.brokers import SUBJECTS
from bench.report import Figure, Report
from interop.harness import ClientProcess

RECORDS = 10  # in a transaction
VALUE = b"x" * 100
WARM_ROUNDS = 12  # at most
STEADY = 0.1

ONE = Figure(f"transactions/s, 1 producer, {RECORDS} records each, librdkafka", "1/s", True)
TEN = Figure(f"transactions/s, 10 producers, {RECORDS} records each, librdkafka", "1/s", True)
ONE_GO = Figure(f"transactions/s, 1 producer, {RECORDS} records each, franz-go", "1/s", True)
TEN_GO = Figure(f"transactions/s, 10 producers, {RECORDS} records each, franz-go", "1/s", True)
VISIBLE = Figure("from commit to visible under read_committed, median", "ms", False)
LOOP = Figure("consume-transform-produce, 100 records per transaction", "records/s", True)
PLAIN = Figure("produce of 100 B, no idempotence", "records/s", True)
IDEMPOTENT = Figure("produce of 100 B, idempotent", "records/s", True)
OPEN = Figure("produce of 100 B in one open transaction", "records/s", True)


def producer(bootstrap: str, **settings: Any) -> Any:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})


def transactional(bootstrap: str, name: str, **settings: Any) -> Any:
    made = producer(bootstrap, **{"transactional.id": name, **settings})
    made.init_transactions(30)
    return made


def run_transactions(each: Any, count: int) -> None:
    for _ in range(count):
        each.begin_transaction()
        for number in range(RECORDS):
            each.produce("transactions", VALUE, partition=number % 2)
        each.commit_transaction(30)


def rate_of(work: Callable[[], object], amount: int) -> float:
    started_at = time.monotonic()
    work()
    return amount / (time.monotonic() - started_at)


def warmed(measure: Callable[[], float]) -> float:
    """The rate once it stands still."""
    before = measure()
    for _ in range(WARM_ROUNDS):
        now = measure()
        if abs(now - before) <= STEADY * before:
            return now
        before = now
    return before


def measure_rates(report: Report, name: str, bootstrap: str, count: int) -> None:
    alone = transactional(bootstrap, "alone")
    report.add(ONE, name, warmed(lambda: rate_of(lambda: run_transactions(alone, count), count)))
    many = [transactional(bootstrap, f"many-{number}") for number in range(10)]
    with ThreadPoolExecutor(len(many)) as threads:

        def together() -> None:
            list(threads.map(lambda each: run_transactions(each, count // 2), many))

        report.add(TEN, name, warmed(lambda: rate_of(together, 10 * (count // 2))))


def measure_rates_of_franz_go(report: Report, name: str, bootstrap: str, folder: Path, count: int) -> None:
    client = ClientProcess("franz-go", bootstrap, stderr_path=folder / "franz-go.log")

    def rate(producers: int, each: int) -> float:
        took = client.ask("run_transactions", topic="transactions", total=producers, count=each)
        return producers * each / float(took["seconds"])

    try:
        report.add(ONE_GO, name, warmed(lambda: rate(1, count)))
        report.add(TEN_GO, name, warmed(lambda: rate(10, count // 2)))
    finally:
        client.close()


def measure_visibility(report: Report, name: str, bootstrap: str, count: int) -> None:
    create_topic(bootstrap, "visible", 1)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 1000,
        }
    )
    consumer.assign([TopicPartition("visible", 0, 0)])
    each = transactional(bootstrap, "visible")
    took_ms = []
    for _ in range(count):
        each.begin_transaction()
        each.produce("visible", VALUE)
        each.flush(30)
        started_at = time.monotonic()
        each.commit_transaction(30)
        while (message := consumer.poll(10)) is None or message.error():
            pass
        took_ms.append((time.monotonic() - started_at) * 1000)
    consumer.close()
    report.add(VISIBLE, name, median(took_ms[count // 4 :]))


def measure_loop(report: Report, name: str, bootstrap: str, records: int) -> None:
    create_topic(bootstrap, "input", 1)
    create_topic(bootstrap, "output", 1)
    source = producer(bootstrap)
    for _ in range(records):
        source.produce("input", VALUE, on_delivery=None)
        source.poll(0)
    source.flush(60)

    def once(number: int) -> float:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"loop-{number}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["input"])
        each = transactional(bootstrap, f"loop-{number}")
        first = consumer.consume(100, 30)
        started_at, done = time.monotonic(), 0
        while done + len(first) < records:
            batch = consumer.consume(100, 30)
            each.begin_transaction()
            for message in batch:
                each.produce("output", message.value().upper())
            position = consumer.position(consumer.assignment())
            each.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
            each.commit_transaction(30)
            done += len(batch)
        took_s = time.monotonic() - started_at
        consumer.close()
        return done / took_s

    report.add(LOOP, name, max(once(number) for number in range(3)))


def measure_produce(report: Report, name: str, bootstrap: str, records: int) -> None:
    create_topic(bootstrap, "plain", 1)

    def send(each: Any) -> None:
        for _ in range(records):
            each.produce("plain", VALUE)
            each.poll(0)
        each.flush(60)

    settings = {"linger.ms": 5, "queue.buffering.max.messages": 2 * records}
    plain = producer(bootstrap, **settings)
    idempotent = producer(bootstrap, **{**settings, "enable.idempotence": True})
    within = transactional(bootstrap, "open", **settings)
    within.begin_transaction()
    for _ in range(3):  # in turns, so that all three meet the same machine
        for figure, each in ((PLAIN, plain), (IDEMPOTENT, idempotent), (OPEN, within)):
            report.add(figure, name, rate_of(lambda each=each: send(each), records))  # type: ignore[misc]
    within.commit_transaction(30)


def measure(report: Report, name: str, folder: Path, *, quick: bool) -> None:
    broker = SUBJECTS[name].make(folder)
    broker.start()
    try:
        bootstrap = f"127.0.0.1:{broker.port}"
        create_topic(bootstrap, "transactions", 2)
        measure_rates(report, name, bootstrap, 20 if quick else 300)
        measure_rates_of_franz_go(report, name, bootstrap, folder, 20 if quick else 300)
        measure_visibility(report, name, bootstrap, 20 if quick else 200)
        measure_loop(report, name, bootstrap, 500 if quick else 20_000)
        measure_produce(report, name, bootstrap, 2_000 if quick else 100_000)
    finally:
        broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2, help="how often each broker has its turn")
    parser.add_argument("--quick", action="store_true", help="tiny loads, to see that it runs")
    parser.add_argument("--brokers", default="kafka,klamm", help=f"which of {', '.join(SUBJECTS)}")
    parser.add_argument("--name", default="transactions_vs_kafka", help="of the files in bench/results")
    arguments = parser.parse_args()
    names = arguments.brokers.split(",")
    says = {name: SUBJECTS[name].says for name in names}
    report = Report("How do klamm's transactions compare with Apache Kafka's?", names[0], says)
    for turn in range(arguments.rounds):
        # Every other round backwards, so that no broker always follows the same neighbour.
        for name in names if turn % 2 == 0 else reversed(names):
            print(f"round {turn + 1} of {arguments.rounds}: {name}", flush=True)
            folder = Path(tempfile.mkdtemp(prefix="klamm-bench-"))
            try:
                measure(report, name, folder, quick=arguments.quick)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    written = report.write(arguments.name)
    print(f"\n{report.table()}\n\nwritten to {written}")


if __name__ == "__main__":
    main()
