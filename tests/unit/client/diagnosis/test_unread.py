"""Since when records wait: looked up for many groups at once, at different places of the same partitions."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

import klamm
from klamm.client.admin.model import NewTopic
from klamm.client.diagnosis.unread import unread_since
from klamm.protocol.types import TopicPartition

START_MS = 1_700_000_000_000
PATIENCE_S = 30.0
RECORDS = 5_000
ORDERS, PAYMENTS, BILLS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with klamm.Broker(settings={"log.retention.ms": "-1"}) as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 2), NewTopic("bills", 1)]).unwrap()
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"v", partition=0, timestamp_ms=START_MS + number)
                producer.send("orders", b"v", partition=1, timestamp_ms=START_MS + 2 * number)
            producer.flush(30)
        with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("bills", b"v", partition=0, timestamp_ms=START_MS)
            producer.commit_transaction()
        yield broker.bootstrap


@pytest.fixture
def reader(bootstrap: str) -> Iterator[klamm.Consumer]:
    with klamm.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        yield consumer


def test_every_place_of_a_partition_is_found_near_and_far(reader: klamm.Consumer) -> None:
    places = [(ORDERS, 3), (ORDERS, 700), (ORDERS, RECORDS - 1), (PAYMENTS, 0), (PAYMENTS, 2), (ORDERS, 4)]
    found = unread_since(reader, places, {ORDERS: RECORDS, PAYMENTS: RECORDS}, PATIENCE_S)
    assert found == {
        ORDERS: {at: START_MS + at for at in (3, 4, 700, RECORDS - 1)},
        PAYMENTS: {0: START_MS, 2: START_MS + 4},
    }


def test_a_reader_looks_again_and_again(reader: klamm.Consumer) -> None:
    for _ in range(2):
        assert unread_since(reader, [(ORDERS, 9)], {ORDERS: RECORDS}, PATIENCE_S) == {
            ORDERS: {9: START_MS + 9}
        }


def test_a_marker_at_the_end_is_not_waited_for(reader: klamm.Consumer) -> None:
    # Given a log of one record and the marker of its transaction, and a group that has read the record
    began_s = monotonic()
    assert unread_since(reader, [(BILLS, 1), (BILLS, 0)], {BILLS: 2}, PATIENCE_S) == {BILLS: {0: START_MS}}
    assert unread_since(reader, [(BILLS, 1)], {BILLS: 2}, PATIENCE_S) == {}
    assert monotonic() - began_s < PATIENCE_S
