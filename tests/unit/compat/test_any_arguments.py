"""Whatever is passed to a class of another library, an error says why, and the client works afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import klamm
from internals.any_arguments import PLACE, arguments_of, calls_of
from klamm.compat import confluent_kafka, kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"t": 1})
        yield broker


def call_with_anything(client: Any, name: str) -> None:
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(arguments_of(getattr(client, name)))
    def survives(arguments: Mapping[str, Any]) -> None:
        refusals = (klamm.KlammError, confluent_kafka.KafkaException, TypeError, ValueError, OverflowError)
        with suppress(*refusals, BufferError, RuntimeError):
            is_endless = arguments.get("timeout") == -1  # in confluent-kafka
            getattr(client, name)(**{**arguments, **({"timeout": 0.02} if is_endless else {})})

    survives()


@pytest.mark.parametrize("name", calls_of(confluent_kafka.Producer))
def test_confluents_producer_survives_any_argument(broker: klamm.Broker, name: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 300})
    call_with_anything(producer, name)
    while len(producer):
        with suppress(TypeError):  # of callbacks that take other arguments
            producer.flush(10)
    reports: list[Any] = []
    producer.produce("t", b"after", on_delivery=lambda error, _message: reports.append(error))
    assert producer.flush(10) == 0
    assert reports == [None]


@pytest.mark.parametrize("name", calls_of(confluent_kafka.Consumer))
def test_confluents_consumer_survives_any_argument(broker: klamm.Broker, name: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"c-{name}"})
    call_with_anything(consumer, name)
    place = confluent_kafka.TopicPartition(*PLACE, 7)
    consumer.unsubscribe()
    consumer.assign([place])
    assert consumer.commit(offsets=[place], asynchronous=False) == [place]
    assert [each.offset for each in consumer.committed([place])] == [7]
    consumer.close()


@pytest.mark.parametrize("name", calls_of(kafka.KafkaConsumer))
def test_kafka_pythons_consumer_survives_any_argument(broker: klamm.Broker, name: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"k-{name}")
    call_with_anything(consumer, name)
    consumer.unsubscribe()
    consumer.assign([PLACE])
    consumer.commit({PLACE: 7})
    assert consumer.committed(PLACE) == 7
    consumer.close()


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda producer: producer.produce(1.5), TypeError, "topic must be str, not float"),
    (lambda producer: producer.produce("new", partition="x"), TypeError, "partition is a whole number"),
    (lambda producer: producer.produce("new", partition=2**40), OverflowError, "does not fit into 32 bits"),
    (lambda producer: producer.produce("new", timestamp="x"), TypeError, "timestamp is a whole number"),
    (lambda producer: producer.produce("new", headers=["x"]), TypeError, r"list of \(key, value\) tuples"),
    (lambda producer: producer.produce("new", headers=[("a", 1)]), TypeError, "header's value is bytes"),
    (lambda producer: producer.produce("new", callback="x"), TypeError, "callback expects a callable"),
    (lambda producer: producer.poll(float("nan")), TypeError, "timeout is a number of seconds, not nan"),
    (lambda producer: producer.produce_batch("new", [None]), TypeError, "list of dicts"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_a_wrong_argument_raises_where_it_is_given(
    broker: klamm.Broker, call: Callable[[confluent_kafka.Producer], Any], kind: type[Exception], text: str
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(kind, match=text):
        call(producer)
    assert len(producer) == 0
