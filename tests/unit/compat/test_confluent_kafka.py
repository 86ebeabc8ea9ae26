"""confluent-kafka's behaviour that its programs rely on: queues, callbacks, events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm.clock import ManualClock
from klamm.compat.confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    KafkaException,
    Producer,
    TopicPartition,
)
from klamm.compat.confluent_kafka.admin import AdminClient, ConfigResource
from klamm.compat.confluent_kafka.events import Events

NOBODY = "127.0.0.1:1"


@pytest.fixture
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as running:
        yield running


def names(errors: list[Any]) -> list[str]:
    return [error.name() for error in errors]


def test_produce_queues_while_no_broker_is_there_and_reports_by_callback() -> None:
    reports: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": NOBODY, "message.timeout.ms": 1, "queue.buffering.max.messages": 2}
    )
    for number in range(2):
        producer.produce(
            "t", str(number), on_delivery=lambda error, message: reports.append((error, message))
        )
    with pytest.raises(BufferError):
        producer.produce("t", "one too many")
    assert (len(producer), reports) == (2, [])  # callbacks wait for poll and flush
    assert producer.flush(10) == 0
    assert names([error for error, _ in reports]) == ["_MSG_TIMED_OUT"] * 2
    assert [(message.topic(), message.value()) for _, message in reports] == [("t", b"0"), ("t", b"1")]


@pytest.mark.parametrize("repetition", range(8))
def test_callbacks_have_run_when_flush_returns(broker: klamm.Broker, repetition: int) -> None:
    seen: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000})
    for number in range(5):
        producer.produce(f"t{number % 2}", str(number), callback=lambda _error, message: seen.append(message))
    assert producer.flush(10) == 0
    assert len(seen) == 5
    assert all(message.latency() >= 0 for message in seen)


def test_a_callback_that_raises_raises_in_poll(broker: klamm.Broker) -> None:
    def fail(_error: Any, _message: Any) -> None:
        raise ZeroDivisionError

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x", callback=fail)
    with pytest.raises(ZeroDivisionError):
        producer.flush(10)
    assert producer.flush(10) == 0


def test_partitions_and_topics_that_do_not_exist_are_reported() -> None:
    reports: list[Any] = []
    with klamm.Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["t"])
        producer = Producer({"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 0})
        producer.produce("t", b"x", partition=3, callback=lambda error, _message: reports.append(error))
        producer.produce("none", b"x", callback=lambda error, _message: reports.append(error))
        assert producer.flush(10) == 0
    assert sorted(names(reports)) == ["_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"]


def test_a_name_that_no_topic_can_have_is_reported_and_keeps_no_other_from_being_sent(
    broker: klamm.Broker,
) -> None:
    reports: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic in ("\ud800", "a b", "t"):
        producer.produce(topic, b"x", callback=lambda error, _message: reports.append(error))
    assert producer.flush(10) == 0
    assert sorted(names([error for error in reports if error])) == ["TOPIC_EXCEPTION"] * 2
    assert reports.count(None) == 1


def test_a_partition_that_a_known_topic_does_not_have_is_refused_at_once(broker: klamm.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x")
    producer.flush(10)
    with pytest.raises(KafkaException) as raised:
        producer.produce("t", b"x", partition=99)
    assert (names(list(raised.value.args)), len(producer)) == (["_UNKNOWN_PARTITION"], 0)


def test_a_group_that_does_not_exist_is_dead(broker: klamm.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.describe_consumer_groups(["nobody"])["nobody"].result(10)
    assert (found.state, found.members) == (ConsumerGroupState.DEAD, [])


def test_a_resource_is_shown_with_the_name_of_its_type() -> None:
    assert str(ConfigResource("topic", "orders")) == "ConfigResource(ResourceType.TOPIC,orders)"


def test_epochs_of_leaders_come_with_offsets(broker: klamm.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x", partition=0)
    producer.flush(10)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    while consumer.poll(1) is None:
        pass
    committed = consumer.commit(asynchronous=False)
    (found,) = consumer.offsets_for_times([TopicPartition("t", 0, 0)], timeout=10)
    (position,) = consumer.position([TopicPartition("t", 0)])
    consumer.close()
    assert committed is not None
    assert [each.leader_epoch for each in (*committed, found, position)] == [0, 0, 0]


def test_error_cb_is_told_that_the_brokers_are_away() -> None:
    heard: list[Any] = []
    producer = Producer({"bootstrap.servers": NOBODY, "error_cb": heard.append})
    while len(heard) < 2:
        assert producer.poll(10) > 0
    assert names(heard) == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    heard.clear()
    consumer = Consumer({"bootstrap.servers": NOBODY, "group.id": "g", "error_cb": heard.append})
    while len(heard) < 2:
        consumer.poll(0.1)
    assert names(heard) == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    consumer.close()


def test_a_consumer_is_told_the_end_of_a_partition_once(broker: klamm.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"0")
    producer.flush(10)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0)])
    assert consumer.position(consumer.assignment())[0].offset == OFFSET_INVALID
    message, end = consumer.consume(2, 10)
    assert message.value() == b"0"
    assert (end.error().name(), end.topic(), end.partition(), end.offset()) == ("_PARTITION_EOF", "t", 0, 1)
    assert consumer.poll(0.2) is None
    producer.produce("t", b"1")
    producer.flush(10)
    assert [item.value() for item in consumer.consume(2, 10)] == [b"1", None]
    consumer.close()


def test_statistics_are_json_in_librdkafkas_form(broker: klamm.Broker) -> None:
    heard: list[dict[str, Any]] = []
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "statistics.interval.ms": 10,
        "stats_cb": lambda text: heard.append(json.loads(text)),
    }
    producer = Producer(settings)
    producer.produce("t", b"x")
    producer.flush(10)
    producer.poll(10)
    assert heard[-1]["type"] == "producer"
    assert heard[-1]["msg_cnt"] == 0
    assert {item["state"] for item in heard[-1]["brokers"].values()} == {"UP"}
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(10)
    assert message is not None
    heard.clear()
    while not heard:
        consumer.poll(0.1)
    partition = heard[-1]["topics"]["t"]["partitions"]["0"]
    assert (partition["app_offset"], partition["hi_offset"], partition["consumer_lag_stored"]) == (1, 1, 0)
    consumer.close()


def test_a_wrong_setting_is_an_exception_of_theirs() -> None:
    with pytest.raises(KafkaException) as raised:
        Producer({"bootstrap.servers": NOBODY, "nope": 1})
    assert raised.value.args[0].name() == "_INVALID_ARG"
    with pytest.raises(TypeError, match="error_cb"):
        Producer({"bootstrap.servers": NOBODY, "error_cb": 1})


def test_events_run_in_order_and_the_rest_stays_when_one_raises() -> None:
    events = Events(ManualClock())
    ran: list[int] = []
    events.add(lambda: ran.append(1))
    events.add(lambda: 1 / 0)
    events.add(lambda: ran.append(2))
    with pytest.raises(ZeroDivisionError):
        events.serve(0)
    assert (ran, len(events)) == ([1], 1)
    assert events.serve(0) == 1
    assert ran == [1, 2]
