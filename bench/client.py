"""How many records a second does klamm's client read and send, beside the other clients for Python?

Run: PYTHONPATH=src python -m bench.client --bootstrap HOST:PORT [--rounds 3] [--records 200000] [--write]
asyncio.gather over sends: --tasks gather --clients klamm aiokafka --records 50000
Every measurement is a process of its own, the clients take turns, and each round goes through all of them
before the next begins. Shown is the median of the rounds: records a second by the clock on the wall, and by
processor time of the client, which says the same on a busy machine. Ratios are klamm over the other.
`--write` keeps the samples, with their circumstances, in bench/results.
"""

# ruff: noqa: PLC0415 - a process imports only the client that it measures

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from bench.report import Figure, Report

SIZES = (100, 1024)
PARTITIONS = 4
LINGER_MS = 5
BATCH_BYTES = 128 * 1024
MANY = 10_000  # records asked for at once, where batches are read
SLOW = ("kafka-python", "aiokafka")  # they get a quarter of the records, to limit the duration
CLIENTS = ("klamm", "confluent-kafka", "aiokafka", "kafka-python")
TASKS = ("consume one by one", "consume in batches", "produce")
TOGETHER = 1_000  # sends in one asyncio.gather: the task `gather`, of klamm and aiokafka alone


class Watch:
    """Wall clock and processor time, from the first record on."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._processor = time.process_time()

    def per_second(self, count: int) -> dict[str, float]:
        return {
            "wall": count / (time.perf_counter() - self._wall),
            "processor": count / (time.process_time() - self._processor),
        }


def topic_name(size: int) -> str:
    return f"klamm-bench-client-{size}"


# --- reading ----------------------------------------------------------------------------------------------


def read_klamm(bootstrap: str, size: int, count: int, in_batches: bool) -> dict[str, float]:
    from klamm import Consumer, TopicPartition

    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic_name(size), number) for number in range(PARTITIONS)])
    consumer.poll(30, max_records=1)
    consumer.seek_to_beginning()
    seen = total = 0
    watch = Watch()
    if in_batches:
        while seen < count:
            for chunk in consumer.poll(30, max_records=MANY).chunks:
                for record in chunk.records:
                    total += len(record.value or b"")
                seen += len(chunk.records)
    else:
        for message in consumer:
            total += len(message.value or b"")
            seen += 1
            if seen >= count:
                break
    speed = watch.per_second(seen)
    consumer.close()
    return speed


def read_confluent(bootstrap: str, size: int, count: int, in_batches: bool) -> dict[str, float]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "klamm-bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic_name(size), number, 0) for number in range(PARTITIONS)])
    consumer.consume(1, 30)
    seen = 1
    total = 0
    watch = Watch()
    if in_batches:
        while seen < count:
            for message in consumer.consume(MANY, 0.1):
                total += len(message.value())
                seen += 1
    else:
        while seen < count:
            message = consumer.poll(30)
            total += len(message.value())
            seen += 1
    speed = watch.per_second(seen)
    consumer.close()
    return speed


def read_kafka_python(bootstrap: str, size: int, count: int, in_batches: bool) -> dict[str, float]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    assigned = [TopicPartition(topic_name(size), number) for number in range(PARTITIONS)]
    consumer.assign(assigned)
    consumer.poll(timeout_ms=30_000, max_records=1)
    consumer.seek_to_beginning(*assigned)
    seen = total = 0
    watch = Watch()
    if in_batches:
        while seen < count:
            for messages in consumer.poll(timeout_ms=30_000, max_records=MANY).values():
                for message in messages:
                    total += len(message.value or b"")
                seen += len(messages)
    else:
        for message in consumer:
            total += len(message.value or b"")
            seen += 1
            if seen >= count:
                break
    speed = watch.per_second(seen)
    consumer.close()
    return speed


def read_aiokafka(bootstrap: str, size: int, count: int, in_batches: bool) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> dict[str, float]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
        await consumer.start()
        assigned = [TopicPartition(topic_name(size), number) for number in range(PARTITIONS)]
        consumer.assign(assigned)
        await consumer.getmany(timeout_ms=30_000, max_records=1)
        await consumer.seek_to_beginning(*assigned)
        seen = total = 0
        watch = Watch()
        if in_batches:
            while seen < count:
                for messages in (await consumer.getmany(timeout_ms=30_000, max_records=MANY)).values():
                    for message in messages:
                        total += len(message.value or b"")
                    seen += len(messages)
        else:
            async for message in consumer:
                total += len(message.value or b"")
                seen += 1
                if seen >= count:
                    break
        speed = watch.per_second(seen)
        await consumer.stop()
        return speed

    return asyncio.run(read())


# --- sending ----------------------------------------------------------------------------------------------


def send_klamm(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from klamm import Producer

    value = b"v" * size
    with Producer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        producer.send(topic_name(size) + "-sent", value).result(30)
        watch = Watch()
        for _ in range(count):
            producer.send(topic_name(size) + "-sent", value)
        producer.flush()
        return watch.per_second(count)


def send_confluent(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import Producer

    value = b"v" * size
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "enable.idempotence": True,
        }
    )
    producer.produce(topic_name(size) + "-sent", value)
    producer.flush()
    watch = Watch()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic_name(size) + "-sent", value)
                break
            except BufferError:  # its queue is full
                producer.poll(0.01)
    producer.flush()
    return watch.per_second(count)


def send_kafka_python(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from kafka import KafkaProducer

    value = b"v" * size
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all"
    )
    producer.send(topic_name(size) + "-sent", value).get(30)
    watch = Watch()
    for _ in range(count):
        producer.send(topic_name(size) + "-sent", value)
    producer.flush()
    speed = watch.per_second(count)
    producer.close()
    return speed


def send_aiokafka(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    value = b"v" * size

    async def send() -> dict[str, float]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            enable_idempotence=True,
        )
        await producer.start()
        await producer.send_and_wait(topic_name(size) + "-sent", value)
        watch = Watch()
        for _ in range(count):
            await producer.send(topic_name(size) + "-sent", value)
        await producer.flush()
        speed = watch.per_second(count)
        await producer.stop()
        return speed

    return asyncio.run(send())


def gather_klamm(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from klamm import aio

    async def send() -> dict[str, float]:
        async with aio.Producer(
            bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
        ) as producer:
            return await gathered(producer, topic_name(size) + "-sent", b"v" * size, count)

    return asyncio.run(send())


def gather_aiokafka(bootstrap: str, size: int, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    async def send() -> dict[str, float]:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            enable_idempotence=True,
        ) as producer:
            return await gathered(producer, topic_name(size) + "-sent", b"v" * size, count)

    return asyncio.run(send())


async def gathered(producer: Any, topic: str, value: bytes, count: int) -> dict[str, float]:
    """Many tasks that each send one record and wait for it."""
    await producer.send_and_wait(topic, value)
    watch = Watch()
    for _ in range(count // TOGETHER):
        await asyncio.gather(*[producer.send_and_wait(topic, value) for _ in range(TOGETHER)])
    return watch.per_second(count // TOGETHER * TOGETHER)


READ: dict[str, Callable[[str, int, int, bool], dict[str, float]]] = {
    "klamm": read_klamm,
    "confluent-kafka": read_confluent,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
}
SEND: dict[str, Callable[[str, int, int], dict[str, float]]] = {
    "klamm": send_klamm,
    "confluent-kafka": send_confluent,
    "aiokafka": send_aiokafka,
    "kafka-python": send_kafka_python,
}

GATHER: dict[str, Callable[[str, int, int], dict[str, float]]] = {
    "klamm": gather_klamm,
    "aiokafka": gather_aiokafka,
}


# --- the run ----------------------------------------------------------------------------------------------


def prepare(bootstrap: str, count: int) -> None:
    """Topics to read, filled once, and topics to send to."""
    from klamm import Admin, Producer
    from klamm.client.admin.model import NewTopic

    with Admin(bootstrap_servers=bootstrap) as admin:
        there = admin.list_topics()
        for size in SIZES:
            names = [name for name in (topic_name(size), topic_name(size) + "-sent") if name not in there]
            if names:
                admin.create_topics([NewTopic(name, PARTITIONS) for name in names])
                admin.wait_for_topics(names)
    for size in SIZES:
        with Producer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
            for number in range(missing(bootstrap, size, count)):
                producer.send(topic_name(size), b"v" * size, partition=number % PARTITIONS)


def missing(bootstrap: str, size: int, count: int) -> int:
    from klamm import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic_name(size), i) for i in range(PARTITIONS)])
    return max(0, count - sum(ends.values()))


def measure(client: str, task: str, size: int, count: int, bootstrap: str) -> dict[str, float]:
    """One measurement, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "bench.client",
        "--measure",
        client,
        task,
        str(size),
        str(count),
        bootstrap,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{client}, {task}: {done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def one(client: str, task: str, size: int, count: int, bootstrap: str) -> dict[str, float]:
    if task == "gather":
        return GATHER[client](bootstrap, size, count)
    if task == "produce":
        return SEND[client](bootstrap, size, count)
    return READ[client](bootstrap, size, count, task == "consume in batches")


def table(header: Iterable[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[index]) for row in [list(header), *rows]) for index in range(len(rows[0]))]
    for row in [list(header), *rows]:
        print(
            "  ".join(
                cell.ljust(width) if not i else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--clients", nargs="*", default=list(CLIENTS))
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        client, task, size, count, bootstrap = arguments.measure
        print(json.dumps(one(client, task, int(size), int(count), bootstrap)))
        return
    load_before = os.getloadavg()
    prepare(arguments.bootstrap, arguments.records)
    found: dict[tuple[str, int, str], list[dict[str, float]]] = defaultdict(list)
    for _ in range(arguments.rounds):
        for task in arguments.tasks:
            for size in SIZES:
                for client in arguments.clients:
                    count = arguments.records // (4 if client in SLOW and task != "gather" else 1)
                    found[task, size, client].append(measure(client, task, size, count, arguments.bootstrap))
    show(found, arguments.tasks, arguments.clients)
    if arguments.write:
        keep(found, arguments.clients, load_before)


def show(
    found: dict[tuple[str, int, str], list[dict[str, float]]], tasks: list[str], clients: list[str]
) -> None:
    def median(task: str, size: int, client: str, kind: str) -> float:
        return statistics.median(item[kind] for item in found[task, size, client])

    for kind in ("wall", "processor"):
        rows: list[list[Any]] = []
        for task in tasks:
            for size in SIZES:
                own = median(task, size, clients[0], kind)
                row = [f"{task}, {size} B"]
                for client in clients:
                    speed = median(task, size, client, kind)
                    ratio = "" if client == clients[0] else f" ({own / speed:.2f}x)"
                    row.append(f"{speed:,.0f}{ratio}")
                rows.append(row)
        print(f"\nrecords/s by {'the clock on the wall' if kind == 'wall' else 'processor time'}")
        table(["", *clients], rows)


def keep(
    found: dict[tuple[str, int, str], list[dict[str, float]]],
    clients: list[str],
    load_before: tuple[float, float, float],
) -> None:
    report = Report(
        "How many records a second does klamm's client read and send, beside the others for Python?",
        clients[0],
        {client: f"{client} {version(client)}" for client in clients},
        load_before=load_before,
    )
    for kind, unit in (("wall", "records/s"), ("processor", "records/s of processor time")):
        for (task, size, client), samples in found.items():
            figure = Figure(f"{task}, {size} B", unit, more_is_better=True)
            for sample in samples:
                report.samples.setdefault(figure, {}).setdefault(client, []).append(sample[kind])
    report.note("aiokafka and kafka-python were given a quarter of the records")
    print(report.write("client"))


def version(client: str) -> str:
    if client == "klamm":
        from klamm import __version__

        return __version__
    return importlib.metadata.version(client)


if __name__ == "__main__":
    main()
