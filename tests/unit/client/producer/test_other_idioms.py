"""Calls that programs for other clients make of a producer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm.client.message import Message
from klamm.client.producer.delivery import RecordMetadata
from klamm.client.producer.delivery_callbacks import of_delivery
from klamm.errors import KlammError, PurgedError
from klamm.protocol.errors import ErrorCode
from unit.client.producer.world import World


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


@pytest.fixture
def producer(broker: klamm.Broker) -> Iterator[klamm.Producer]:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        yield producer


def read(broker: klamm.Broker, topic: str, count: int) -> list[klamm.ConsumerRecord]:
    with klamm.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return consumer.consume(count, 10)


def test_a_delivery_report_of_error_and_message(broker: klamm.Broker, producer: klamm.Producer) -> None:
    reports: list[tuple[Any, Message]] = []

    def report(error: Any, message: Message) -> None:
        reports.append((error, message))

    producer.produce("reports", "v", "k", -1, report, 1234, {"h": "text"})
    producer.produce("reports", b"w", callback=report)
    assert producer.poll(0) == 0
    producer.flush(10)
    assert len(producer) == 0
    (error, message), (_, second) = reports
    assert error is None
    assert (message.topic(), message.partition(), message.offset()) == ("reports", 0, 0)
    assert (message.key(), message.value(), message.timestamp()) == (b"k", b"v", (1, 1234))
    assert second.offset() == 1
    first, _ = read(broker, "reports", 2)
    assert first.headers == (("h", b"text"),)
    assert first.timestamp_ms == 1234


def test_a_report_of_a_failure_has_the_error() -> None:
    world = World()
    reports: list[tuple[Any, Message]] = []
    delivery = world.send("a")

    def report(error: Any, message: Message) -> None:
        reports.append((error, message))

    delivery.add_done_callback(of_delivery(report, None, b"a", None))
    world.answer(world.requests[0], ErrorCode.invalid_record)
    ((error, message),) = reports
    assert isinstance(error, KlammError)
    assert (message.topic(), message.partition(), message.offset(), message.error()) == ("t", 0, None, error)


@pytest.mark.parametrize("callback", [3, lambda: None, lambda a, b, c: None])
def test_a_delivery_callback_of_the_wrong_shape_is_refused(producer: klamm.Producer, callback: Any) -> None:
    with pytest.raises(TypeError, match="on_delivery"):
        producer.send("reports", b"x", on_delivery=callback)


def test_futures_have_the_names_of_kafka_python(producer: klamm.Producer) -> None:
    heard: list[Any] = []
    future = producer.send("futures", b"x")
    same = future.add_callback(heard.append).add_errback(heard.append)
    assert same is future
    place = future.get(timeout=10)
    assert place == RecordMetadata("futures", 0, 0, place.timestamp_ms)
    assert heard == [place]
    assert future.succeeded()
    assert not future.failed()
    assert repr(future) == f"<Delivery: {place}>"


def test_errbacks_hear_of_failures_alone() -> None:
    world = World()
    heard: list[Any] = []
    delivery = world.send("a")
    assert repr(delivery) == "<Delivery to t-0: pending>"
    assert not delivery.succeeded()
    assert not delivery.failed()
    delivery.add_callback(heard.append).add_errback(heard.append)
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert heard == [delivery.exception()]
    assert delivery.failed()
    assert "INVALID_RECORD" in repr(delivery)


def test_none_is_sent_as_null_and_not_serialized(broker: klamm.Broker) -> None:
    with klamm.Producer(
        bootstrap_servers=broker.bootstrap, key_serializer=str.encode, value_serializer="json"
    ) as producer:
        producer.send("nulls", {"a": "ö"}, key="k").result(10)
        producer.send("nulls", None, key="k").result(10)
        producer.send("nulls", 1).result(10)
    assert [(record.key, record.value) for record in read(broker, "nulls", 3)] == [
        (b"k", '{"a":"ö"}'.encode()),
        (b"k", None),
        (None, b"1"),
    ]


def test_what_waits_can_be_purged(broker: klamm.Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
        producer.partitions_for("purged")
        sent = [producer.send("purged", b"x", partition=0) for _ in range(3)]
        assert len(producer) == 3
        assert producer.purge() == 3
        assert [type(delivery.exception(1)) for delivery in sent] == [PurgedError] * 3
        assert len(producer) == 0


def test_a_producer_lists_topics_partitions_and_counts(producer: klamm.Producer) -> None:
    producer.send("listed", b"x").result(10)
    assert producer.partitions_for("listed") == [klamm.TopicPartition("listed", 0)]
    assert "listed" in producer.list_topics()
    assert producer.list_topics("listed").keys() == {"listed"}
    counts = producer.metrics()
    assert counts["records_delivered"] == 1
    assert counts["batches_sent"] == counts["requests"] == 1
    assert counts["bytes_sent"] > 0
    assert counts["records_failed"] == counts["buffered_records"] == counts["buffered_bytes"] == 0
