"""Delivery callbacks run on the client's thread: a call that would wait for it is refused, the rest works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import klamm
from klamm.errors import IllegalStateError

Call = Callable[[klamm.Producer[Any, Any]], Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def outcome_in_a_callback(broker: klamm.Broker, call: Call) -> Any:
    """What a call returned or raised in a callback; the producer works afterwards."""
    outcomes: list[Any] = []
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:

        def report(_delivery: klamm.Delivery) -> None:
            try:
                outcomes.append(call(producer))
            except klamm.KlammError as error:
                outcomes.append(error)

        producer.send("t", b"1", on_delivery=report)
        producer.flush(20)
        assert producer.send("t", b"2").result(20).topic == "t"
    (outcome,) = outcomes
    return outcome


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.flush(),
        lambda producer: producer.list_topics(),
        lambda producer: producer.partitions_for("t"),
        lambda producer: producer.send("t", b"3").result(),
        lambda producer: producer.send("new", b"3").exception(),
    ],
)
def test_a_call_that_would_wait_for_the_callback_is_refused(broker: klamm.Broker, call: Call) -> None:
    outcome = outcome_in_a_callback(broker, call)
    assert isinstance(outcome, IllegalStateError)
    assert "in a callback would wait" in str(outcome)


def test_a_record_for_a_topic_that_is_not_known_yet_can_be_sent_in_a_callback(broker: klamm.Broker) -> None:
    """As dead letters are."""
    delivery = outcome_in_a_callback(broker, lambda producer: producer.send("dead-letters", b"3"))
    assert delivery.result(20).topic == "dead-letters"


def test_records_that_wait_can_be_given_up_in_a_callback(broker: klamm.Broker) -> None:
    assert outcome_in_a_callback(broker, lambda producer: producer.purge()) == 0


@pytest.mark.parametrize("repetition", range(3))
def test_what_waits_for_its_topic_is_delivered_by_close(broker: klamm.Broker, repetition: int) -> None:
    producer = klamm.Producer[Any, Any](bootstrap_servers=broker.bootstrap)
    delivery = producer.send(f"late-{repetition}", b"1", block=False)
    producer.close()
    assert delivery.result(0).topic == f"late-{repetition}"
