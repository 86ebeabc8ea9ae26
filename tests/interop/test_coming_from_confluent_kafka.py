"""Programs written for confluent-kafka: the same with it and with `klamm.compat.confluent_kafka`."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest

import klamm.compat.confluent_kafka

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture(params=[confluent_kafka, klamm.compat.confluent_kafka], ids=["theirs", "ours"])
def lib(request: pytest.FixtureRequest) -> Any:
    return request.param


def poll_until_message(consumer: Any) -> Any:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        msg = consumer.poll(1.0)
        if msg is None:
            continue
        if msg.error():
            raise AssertionError(f"Consumer error: {msg.error()}")
        return msg
    raise AssertionError("no message")


def test_produce_with_a_delivery_report_and_poll(lib: Any, bootstrap: str, topic: str) -> None:
    reports: list[Any] = []

    def delivery_report(err: Any, msg: Any) -> None:
        if err is not None:
            reports.append(f"Message delivery failed: {err}")
        else:
            reports.append((msg.topic(), msg.partition(), msg.offset(), msg.key(), msg.value()))

    p = lib.Producer({"bootstrap.servers": bootstrap})
    for data in ("one", "two"):
        p.poll(0)
        p.produce(topic, data.encode("utf-8"), callback=delivery_report)
    p.produce(topic, key="k", value="three", on_delivery=delivery_report, headers={"h": b"v"}, partition=0)
    assert p.flush(30) == 0
    assert len(p) == 0
    assert sorted(reports) == [
        (topic, 0, 0, None, b"one"),
        (topic, 0, 1, None, b"two"),
        (topic, 0, 2, b"k", b"three"),
    ]
    assert topic in p.list_topics(timeout=10).topics

    c = lib.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "smallest"}
    )
    assigned: list[Any] = []

    def print_assignment(consumer: Any, partitions: Any) -> None:
        assert consumer is c
        assigned.extend(partitions)

    c.subscribe([topic], on_assign=print_assignment)
    msg = poll_until_message(c)
    assert msg.value().decode("utf-8") == "one"
    assert (msg.topic(), msg.partition(), msg.offset(), msg.key()) == (topic, 0, 0, None)
    assert msg.timestamp()[0] == lib.TIMESTAMP_CREATE_TIME
    rest = c.consume(num_messages=2, timeout=30)
    assert [item.value() for item in rest] == [b"two", b"three"]
    assert rest[1].headers() == [("h", b"v")]
    assert c.poll(0.1) is None
    assert [(item.topic, item.partition) for item in assigned] == [(topic, 0)]
    (position,) = c.position(c.assignment())
    assert position.offset == 3
    c.commit(message=msg, asynchronous=False)
    (committed,) = c.committed([lib.TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 1
    assert c.get_watermark_offsets(lib.TopicPartition(topic, 0)) == (0, 3)
    c.seek(lib.TopicPartition(topic, 0, 1))
    assert poll_until_message(c).offset() == 1
    c.close()
    with pytest.raises(RuntimeError):
        c.poll(0)


def test_stored_offsets_and_a_regular_expression(lib: Any, bootstrap: str, topic: str) -> None:
    p = lib.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    for number in range(3):
        p.produce(f"{topic}-x", str(number))
    p.flush()
    c = lib.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"g-{topic}",
            "session.timeout.ms": 6000,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
        }
    )
    c.subscribe([f"^{topic}"])
    for _ in range(2):
        msg = poll_until_message(c)
    c.store_offsets(msg)
    poll_until_message(c)
    c.close()  # commits what was stored
    again = lib.Consumer({"bootstrap.servers": bootstrap, "group.id": f"g-{topic}"})
    (committed,) = again.committed([lib.TopicPartition(f"{topic}-x", 0)], timeout=10)
    assert committed.offset == 2
    again.close()


def test_assign_with_an_offset_and_errors(lib: Any, bootstrap: str, topic: str) -> None:
    p = lib.Producer({"bootstrap.servers": bootstrap})
    for number in range(3):
        p.produce(topic, str(number), partition=0)
    p.flush()
    c = lib.Consumer({"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", "enable.auto.commit": False})
    c.assign([lib.TopicPartition(topic, 0, 2)])
    assert poll_until_message(c).value() == b"2"
    c.assign([lib.TopicPartition(topic, 0, lib.OFFSET_BEGINNING)])
    assert poll_until_message(c).value() == b"0"
    c.incremental_unassign([lib.TopicPartition(topic, 0)])
    assert c.assignment() == []
    c.close()


def test_a_transaction_from_read_to_write(lib: Any, bootstrap: str, topic: str) -> None:
    source = lib.Producer({"bootstrap.servers": bootstrap})
    source.produce(topic, "in")
    source.flush()
    consumer = lib.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    producer = lib.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}"})
    producer.init_transactions()
    msg = poll_until_message(consumer)
    producer.begin_transaction()
    producer.produce(f"{topic}-out", msg.value())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
    )
    producer.commit_transaction()
    (committed,) = consumer.committed([lib.TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 1
    with pytest.raises(lib.KafkaException) as raised:
        producer.commit_transaction()
    assert raised.value.args[0].code() == lib.KafkaError._STATE
    consumer.close()


def test_a_partition_that_does_not_exist_has_no_watermarks(lib: Any, bootstrap: str, topic: str) -> None:
    producer = lib.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0
    consumer = lib.Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{topic}"})
    assert consumer.get_watermark_offsets(lib.TopicPartition(topic, 0), timeout=20) == (0, 1)
    for missing in (lib.TopicPartition(f"{topic}-missing", 0), lib.TopicPartition(topic, 99)):
        with pytest.raises(lib.KafkaException) as raised:
            consumer.get_watermark_offsets(missing, timeout=20)
        assert raised.value.args[0].name() == "_UNKNOWN_PARTITION"
        assert consumer.get_watermark_offsets(missing, cached=True) == (-1001, -1001)
    assert f"{topic}-missing" not in consumer.list_topics(timeout=20).topics
    consumer.close()
