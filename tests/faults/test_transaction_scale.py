"""Transactional ids in numbers and sizes, and topics that vanish under a transaction, on a real broker.

KLAMM_TXN_IDS=1000000 measures a million ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

import klamm
from faults.test_memory import resident_mb
from interop.own import Own
from interop.processes import KlammProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from klamm.testing import wait_until
from klamm.testing.wire import WireClient

IDS: Final = int(os.environ.get("KLAMM_TXN_IDS", "10000"))
CLIENTS: Final = 100
MAX_BYTES_PER_ID: Final = 1_500  # resident, of short ids; a third of it at a hundred thousand and more
LONG_IDS: Final = 300
LONGEST_ID: Final = 32_767
PATIENCE_S: Final = 60 + IDS // 5_000
STOP_S: Final = 15  # with any number of ids: what is durable is not written once more


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KlammProcess]:
    broker = KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log")
    with WireClient(broker.bootstrap) as client:
        wait_for_coordinator(client)
    yield broker
    broker.kill()


def wait_for_coordinator(client: WireClient) -> None:
    """The internal topic exists, and all its partitions are loaded."""
    # One of these ids is in each of the 50 partitions.
    wanted = FindCoordinatorRequest(key_type=1, coordinator_keys=[f"{number}" for number in range(1_000)])
    nothing = ListTransactionsRequest(transactional_id_pattern="no id is called so")

    def is_loaded() -> bool:
        found = client.ask(ApiKey.FIND_COORDINATOR, 4, wanted).coordinators
        if any(each.error_code for each in found):
            return False
        return not client.ask(ApiKey.LIST_TRANSACTIONS, 2, nothing).error_code

    wait_until(is_loaded, f"{PATIENCE_S}s")


def initialize(broker: KlammProcess, names: Iterable[str]) -> None:
    """InitProducerId for each name, a hundred at a time."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(WireClient(broker.bootstrap, timeout_s=PATIENCE_S)) for _ in range(CLIENTS)
        ]
        pending = iter(names)
        while batch := [name for _, name in zip(clients, pending, strict=False)]:
            for client, name in zip(clients, batch, strict=False):
                client.send(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(name, 60_000))
            for client, _ in zip(clients, batch, strict=False):
                assert client.receive(ApiKey.INIT_PRODUCER_ID, 4)[1].error_code == 0


def test_many_transactional_ids_take_little_memory_and_are_loaded_again(
    broker: KlammProcess, tmp_path: Path
) -> None:
    initialize(broker, (f"warm-{number}" for number in range(CLIENTS)))
    before_mb = resident_mb(broker.pid)
    initialize(broker, (f"id-{number}" for number in range(IDS)))
    grown_mb = resident_mb(broker.pid) - before_mb
    assert grown_mb * 1024 * 1024 < MAX_BYTES_PER_ID * IDS + 8_000_000
    started_at = time.monotonic()
    assert broker.terminate(STOP_S) == 0
    stopped_s = time.monotonic() - started_at
    started_at = time.monotonic()
    with (
        KlammProcess(tmp_path / "data", stderr_path=tmp_path / "again.log") as again,
        WireClient(again.bootstrap, timeout_s=PATIENCE_S) as client,
    ):
        wait_for_coordinator(client)
        loaded_s = time.monotonic() - started_at
        one = ListTransactionsRequest(transactional_id_pattern=f"id-{IDS - 1}")
        (found,) = client.ask(ApiKey.LIST_TRANSACTIONS, 2, one).transaction_states
        assert found.transactional_id == f"id-{IDS - 1}"
        started_at = time.monotonic()
        listed = client.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest()).transaction_states
        listed_s = time.monotonic() - started_at
        assert len(listed) == IDS + CLIENTS
        print(  # noqa: T201 - with -s: the figures
            f"{IDS} ids: {grown_mb * 1024 * 1024 / IDS:.0f} bytes each, stopped in {stopped_s:.1f} s, "
            f"started and loaded in {loaded_s:.1f} s, {resident_mb(again.pid):.0f} MB; "
            f"all listed in {listed_s:.2f} s"
        )


def test_the_longest_transactional_ids_are_kept_once(broker: KlammProcess) -> None:
    before_mb = resident_mb(broker.pid)
    for _ in range(2):  # the same ids again: nothing is added
        initialize(broker, (f"{number:05}".ljust(LONGEST_ID, "x") for number in range(LONG_IDS)))
    grown_bytes = (resident_mb(broker.pid) - before_mb) * 1024 * 1024
    # The id, and what of its records is in buffers of the log.
    assert grown_bytes < 3 * LONG_IDS * LONGEST_ID + 20_000_000
    with WireClient(broker.bootstrap, timeout_s=PATIENCE_S) as client:
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("short", 60_000))
        assert answer.error_code == 0


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_transaction_ends_when_one_of_its_topics_is_deleted(broker: KlammProcess, commits: bool) -> None:
    with Own(broker.bootstrap) as own:
        (kept,) = own.create_topic("kept")
        own.create_topic("gone", 3)
        own_producer = own.producer(**{"transactional.id": "own"})
        own_producer.init_transactions(timeout=PATIENCE_S)
        own_producer.begin_transaction()
        other = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "other", "log_level": 0}
        )
        other.init_transactions(PATIENCE_S)
        other.begin_transaction()
        for number in range(3):
            own_producer.send("gone", b"x", partition=number)
            other.produce("gone", b"x", partition=number)
        own_producer.send("kept", b"own")
        other.produce("kept", b"other")
        own_producer.flush(PATIENCE_S)
        assert other.flush(PATIENCE_S) == 0
        # When the topic goes, then both transactions end, and nothing holds back readers of the other topic
        own.admin.delete_topics(["gone"])
        if commits:
            own_producer.commit_transaction(timeout=PATIENCE_S)
            other.commit_transaction(PATIENCE_S)
        else:
            own_producer.abort_transaction(timeout=PATIENCE_S)
            other.abort_transaction(PATIENCE_S)
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as plain:
            plain.send("kept", b"plain").result(PATIENCE_S)
        seen = read_until(own, kept, b"plain")
        assert seen == ({b"own", b"other"} if commits else set())
        # And the next transactions of both work
        with own_producer.transaction():
            own_producer.send("kept", b"again")
        states = {each.transactional_id: str(each.state) for each in own.admin.list_transactions()}
        expected = "CompleteCommit" if commits else "CompleteAbort"
        assert states == {"own": "CompleteCommit", "other": expected}


def read_until(own: Own, partition: klamm.TopicPartition, last: bytes) -> set[bytes]:
    consumer = own.consumer(isolation_level="read_committed")
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    seen: set[bytes] = set()
    due_at = time.monotonic() + PATIENCE_S
    while last not in seen:
        assert time.monotonic() < due_at, f"{last!r} is held back; seen: {seen}"
        seen |= {record.value or b"" for record in consumer.poll(0.5)}
    return seen - {last}
