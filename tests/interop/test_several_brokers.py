"""Real clients of three brokers, while every broker stops and starts again: no error reaches their users.

KLAMM_GROUP_ROUNDS=20 restarts them for longer.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final

import pytest

import klamm
from interop.harness import START_MS, ClientProcess, Record
from interop.kafka_tools import run_kafka_tool
from interop.stores import STORES, three_brokers

NAMES = ("klamm", "confluent", "java", "franz-go")
PARTITIONS = 6
BATCH = 20  # records
SETTINGS: Final[dict[str, str | int]] = {
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
    "auto.leader.rebalance.enable": "false",
}
ROUNDS: Final = int(os.environ.get("KLAMM_GROUP_ROUNDS", "1"))


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker(brokers=3, settings=SETTINGS) as broker:
        yield broker


def records(name: str, number: int) -> list[Record]:
    return [
        Record(timestamp_ms=START_MS + each, key=b"k", value=f"{name}-{number}-{each}".encode())
        for each in range(BATCH)
    ]


def work(client: ClientProcess, topic: str, is_over: Event) -> list[list[Record]]:
    """Write to every partition in turn until the brokers have been restarted; what was acknowledged."""
    written: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    number = 0
    while not is_over.is_set() or number < 2 * PARTITIONS:
        partition = number % PARTITIONS
        batch = records(client.name, number)
        offsets = client.produce(topic, batch, partition=partition, idempotent=True)
        assert offsets == [len(written[partition]) + each for each in range(len(batch))]
        written[partition] += batch
        transact(client, f"{topic}-committed", partition, f"{number}".encode())
        number += 1
    return written


def transact(client: ClientProcess, topic: str, partition: int, value: bytes) -> None:
    client.ask("begin_transaction", producer="p")
    values = [base64.b64encode(value).decode()]
    client.ask("produce_in_transaction", producer="p", topic=topic, partition=partition, values=values)
    client.ask("commit_transaction", producer="p")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_a_rolling_restart_shows_no_error_to_any_client(store: str, tmp_path: Path) -> None:
    settings = {name: str(value) for name, value in SETTINGS.items()}
    with three_brokers(store, tmp_path, settings) as brokers, ThreadPoolExecutor(len(NAMES)) as threads:
        clients = [
            ClientProcess(name, brokers.bootstrap, stderr_path=tmp_path / f"{name}.log") for name in NAMES
        ]
        is_over = Event()
        try:
            for client in clients:
                for topic in (f"rolling-{client.name}", f"rolling-{client.name}-committed"):
                    client.create_topic(topic, PARTITIONS)
                client.ask("init_transactions", producer="p", transactional_id=f"rolling-{client.name}")
            working = {
                client: threads.submit(work, client, f"rolling-{client.name}", is_over) for client in clients
            }
            try:
                for node_id in (1, 2, 3) * ROUNDS:
                    brokers.stop(node_id)
                    brokers.start(node_id)
            finally:
                is_over.set()
            for client, worked in working.items():
                produced = worked.result()
                for partition, written in enumerate(produced):
                    transactions = len(written) // BATCH
                    numbers = [partition + PARTITIONS * each for each in range(transactions)]
                    committed = client.consume(
                        f"rolling-{client.name}-committed", transactions, partition=partition
                    )
                    assert [record.value for record in committed] == [b"%d" % each for each in numbers]
                for partition, written in enumerate(produced):
                    assert (
                        client.consume(f"rolling-{client.name}", len(written), partition=partition) == written
                    )
        finally:
            is_over.set()
            for client in clients:
                client.close()


def test_kafka_transactions_asks_any_replica_about_producers(broker: klamm.Broker, tmp_path: Path) -> None:
    def transactions(*arguments: str) -> list[str]:
        done = run_kafka_tool("TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()[1:]

    topic = "replicas-and-producers"
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic(topic, 3, 3)])
    client = ClientProcess("confluent", broker.bootstrap, stderr_path=tmp_path / "confluent.log")
    try:
        client.ask("init_transactions", producer="p", transactional_id=topic)
        transact(client, topic, 0, b"done")
    finally:
        client.close()
    assert transactions("find-hanging", "--broker-id", "2") == []
    described = {
        tuple(line.split())
        for node_id in ("1", "2", "3")
        for line in transactions(
            "describe-producers", "--topic", topic, "--partition", "0", "--broker-id", node_id
        )
    }
    assert len(described) == 1
