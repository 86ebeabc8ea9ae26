"""Transactional producers of every client library, in both versions of the transaction protocol.

Java, franz-go and klamm use version 2 where the broker offers it; the other libraries always use version 1.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from interop.conftest import QUICK_GROUPS
from interop.harness import CLIENTS, START_MS, ClientError, ClientProcess, Record
from interop.kafka_tools import run_kafka_tool
from interop.processes import KlammProcess

pytestmark = pytest.mark.timeout(180)

ClientFactory = Callable[[str], ClientProcess]

# What each library says of a fenced producer.
FENCED = {
    "aiokafka": "ProducerFenced",  # without an error code
    "confluent": "-144: ",  # librdkafka's own code _FENCED
    "franz-go": "90: ",
    "java": "90: ",
    "kafka-python": "90: ",
    "kafkajs": "47: ",  # its EndTxn requests are older than PRODUCER_FENCED: INVALID_PRODUCER_EPOCH
    "klamm": "90: ",
}


@pytest.fixture(scope="module", params=["0", "2"], ids=["v1", "v2"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of this transaction version, or the one that KLAMM_INTEROP_BOOTSTRAP names."""
    elsewhere = os.environ.get("KLAMM_INTEROP_BOOTSTRAP")
    if elsewhere is not None:
        yield elsewhere
        return
    folder = tmp_path_factory.mktemp("klamm")
    settings = {**QUICK_GROUPS, "transaction.version": request.param}
    with KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=settings) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def client(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientFactory]:
    """Clients of this broker by name; each library is started once and asked many times."""
    folder = tmp_path_factory.mktemp("clients")
    started: dict[str, ClientProcess] = {}

    def by_name(name: str) -> ClientProcess:
        if name not in started:
            started[name] = ClientProcess(name, bootstrap, stderr_path=folder / f"{name}.log")
        return started[name]

    yield by_name
    for process in started.values():
        process.close()


class TransactionalProducer:
    """One transactional producer in a client's process."""

    def __init__(
        self, client: ClientProcess, transactional_id: str, *, instance: str = "only", **group: str
    ) -> None:
        self._client = client
        self._name = f"{transactional_id} {instance}"
        self._ask("init_transactions", transactional_id=transactional_id, **group)

    def _ask(self, do: str, **arguments: object) -> None:
        self._client.ask(do, producer=self._name, **arguments)

    def begin(self) -> None:
        self._ask("begin_transaction")

    def produce(self, topic: str, *values: str, partition: int = 0) -> None:
        """Write records and wait for their acknowledgements."""
        encoded = [base64.b64encode(value.encode()).decode() for value in values]
        self._ask("produce_in_transaction", topic=topic, partition=partition, values=encoded)

    def transfer(self, source: str, target: str, group: str, count: int) -> None:
        """Copy records from one topic to another, and send the group's offsets to the transaction."""
        self._ask("transfer", source=source, topic=target, partition=0, group=group, count=count)

    def commit(self) -> None:
        self._ask("commit_transaction")

    def abort(self) -> None:
        self._ask("abort_transaction")

    def close(self) -> None:
        self._ask("close_producer")


def read(
    client: ClientProcess, topic: str, count: int, partition: int = 0, isolation: str = "read_committed"
) -> list[str]:
    """The first `count` values of a partition under this isolation level."""
    answer = client.ask(
        "consume", topic=topic, partition=partition, offset=0, count=count, isolation=isolation
    )
    return [base64.b64decode(record["value"]).decode() for record in answer["records"]]


def committed_offset(bootstrap: str, group: str, topic: str, isolation: str) -> int:
    """The group's offset in partition 0; read_committed waits for a transaction that changes it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
    finally:
        consumer.close()
    offset: int = found.offset
    return offset


@pytest.fixture(scope="module")
def written(client: ClientFactory, topic_numbers: Iterator[int]) -> dict[str, str]:
    """A topic of two partitions per library, in which it committed and aborted transactions by turns."""
    topics = {}
    for name in CLIENTS:
        topic = topics[name] = f"turns-{next(topic_numbers):x}"
        client("confluent").create_topic(topic, 2)
        producer = TransactionalProducer(client(name), topic)
        for turn in range(5):
            producer.begin()
            for partition in (0, 1):
                producer.produce(topic, f"{turn}a", f"{turn}b", partition=partition)
            if turn % 2:
                producer.abort()
            else:
                producer.commit()
        producer.close()
    return topics


@pytest.mark.parametrize("reader", CLIENTS)
def test_committed_transactions_of_every_client_are_read_whole_and_aborted_ones_not_at_all(
    client: ClientFactory, written: dict[str, str], reader: str
) -> None:
    for writer, topic in written.items():
        for partition in (0, 1):
            # The last transaction was committed: an aborted record that showed would come before it.
            values = read(client(reader), topic, 6, partition)
            assert values == ["0a", "0b", "2a", "2b", "4a", "4b"], f"written by {writer}"


@pytest.mark.parametrize("writer", CLIENTS)
def test_the_records_of_aborted_transactions_are_in_the_log(
    client: ClientFactory, written: dict[str, str], writer: str
) -> None:
    values = read(client(writer), written[writer], 10, isolation="read_uncommitted")
    assert values == [f"{turn}{letter}" for turn in range(5) for letter in "ab"]


@pytest.mark.parametrize("name", CLIENTS)
def test_offsets_sent_to_a_transaction_move_if_and_only_if_it_commits(
    client: ClientFactory, bootstrap: str, topic: str, name: str
) -> None:
    source, target, group = f"{topic}-source", f"{topic}-target", f"{topic}-group"
    for created in (source, target):
        client("confluent").create_topic(created)
    records = [Record(timestamp_ms=START_MS + n, key=None, value=b"%d" % n) for n in range(5)]
    client("confluent").produce(source, records)
    producer = TransactionalProducer(client(name), topic, group=group, source=source)

    producer.begin()
    producer.transfer(source, target, group, 5)
    producer.abort()
    assert committed_offset(bootstrap, group, source, "read_committed") == OFFSET_INVALID

    producer.begin()
    producer.transfer(source, target, group, 3)
    assert committed_offset(bootstrap, group, source, "read_uncommitted") == OFFSET_INVALID
    producer.commit()
    assert committed_offset(bootstrap, group, source, "read_committed") == 3

    producer.begin()
    producer.transfer(source, target, group, 2)
    producer.commit()
    assert committed_offset(bootstrap, group, source, "read_committed") == 5
    assert read(client("confluent"), target, 5) == ["0", "1", "2", "3", "4"]
    producer.close()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_second_instance_fences_the_first(client: ClientFactory, topic: str, name: str) -> None:
    client("confluent").create_topic(topic)
    first = TransactionalProducer(client(name), topic, instance="first")
    first.begin()
    first.produce(topic, "zombie")
    second = TransactionalProducer(client(name), topic, instance="second")
    with pytest.raises(ClientError) as refused:
        first.commit()
    assert FENCED[name] in str(refused.value)
    second.begin()
    second.produce(topic, "alive")
    second.commit()
    assert read(client("confluent"), topic, 1) == ["alive"]
    for producer in (first, second):
        producer.close()


def test_java_commits_many_transactions(client: ClientFactory, bootstrap: str, topic: str) -> None:
    client("confluent").create_topic(topic)
    done = run_kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "200"),
        *("--record-size", "10", "--throughput", "400"),
        *("--transactional-id", topic, "--transaction-duration-ms", "20"),
    )
    assert done.returncode == 0, done.stderr
    assert len(read(client("confluent"), topic, 200)) == 200
    listed = run_kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, "list"
    )
    (line,) = (line for line in listed.stdout.splitlines() if topic in line)
    assert "CompleteCommit" in line
