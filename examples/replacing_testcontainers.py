"""Tests that used a Kafka of testcontainers, with klamm in its place: one fixture is another one.

Run it: `pytest examples/replacing_testcontainers.py`, or `python examples/replacing_testcontainers.py`.

Before, it was

    from testcontainers.kafka import KafkaContainer

    @pytest.fixture(scope="session")
    def bootstrap() -> Iterator[str]:
        with KafkaContainer() as kafka:
            yield kafka.get_bootstrap_server()

and a Docker daemon, an image to pull and a JVM to wait for. The first two tests are as they were. The others
could not be written before: a container has no clock to move, and no faults to order.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import pytest

import klamm
from klamm.testing import Broker

# --- the code under test, with any client of Kafka ------------------------------------------------------


def place_orders(bootstrap: str, topic: str, count: int) -> None:
    with klamm.Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, json.dumps({"number": number}))


def numbers_of_orders(bootstrap: str, topic: str, group: str, count: int) -> list[int]:
    """Read `count` orders in a group, and commit them."""
    settings: dict[str, Any] = {"group.id": group, "auto.offset.reset": "earliest"}
    numbers: list[int] = []
    with klamm.Consumer(topic, settings, bootstrap_servers=bootstrap) as consumer:
        while len(numbers) < count:
            numbers += [json.loads(record.value)["number"] for record in consumer.poll(1.0)]
    return numbers


# --- the fixture, which is all that changes -------------------------------------------------------------


@pytest.fixture(scope="session")
def bootstrap(klamm_session_broker: Broker) -> str:
    """One broker for all tests of a run, in this process; they use topics and groups of their own."""
    return klamm_session_broker.bootstrap


# --- tests as they were ---------------------------------------------------------------------------------


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4()}"


def test_orders_are_read_in_their_order(bootstrap: str, topic: str) -> None:
    place_orders(bootstrap, topic, 3)
    assert numbers_of_orders(bootstrap, topic, topic, 3) == [0, 1, 2]


def test_a_group_goes_on_where_it_has_committed(bootstrap: str, topic: str) -> None:
    place_orders(bootstrap, topic, 5)
    assert numbers_of_orders(bootstrap, topic, topic, 5) == [0, 1, 2, 3, 4]
    place_orders(bootstrap, topic, 1)
    assert numbers_of_orders(bootstrap, topic, topic, 1) == [0]


# --- tests that were not possible -----------------------------------------------------------------------


def test_nothing_is_left_to_read(klamm_broker: Broker, topic: str) -> None:
    place_orders(klamm_broker.bootstrap, topic, 5)
    numbers_of_orders(klamm_broker.bootstrap, topic, topic, 5)
    assert klamm_broker.group(topic).total_lag == 0


def test_a_lost_acknowledgement_does_not_double_an_order(klamm_broker: Broker, topic: str) -> None:
    with klamm_broker.faults.drop("Produce", when="after", times=1):
        place_orders(klamm_broker.bootstrap, topic, 1)
    assert len(klamm_broker.records(topic)) == 1


@pytest.mark.klamm(log_retention_ms=-1)  # the records stay
def test_a_week_later_the_group_has_no_offsets_any_more(klamm_broker: Broker, topic: str) -> None:
    place_orders(klamm_broker.bootstrap, topic, 2)
    numbers_of_orders(klamm_broker.bootstrap, topic, topic, 2)
    klamm_broker.clock.advance("8d")  # offsets.retention.minutes is a week
    assert numbers_of_orders(klamm_broker.bootstrap, topic, topic, 2) == [0, 1]


if __name__ == "__main__":
    # pytest would like to import klamm, whose plugin it found, by itself.
    is_known = ["-W", "ignore:Module already imported"]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *is_known, __file__]))
