"""send(block=False) queues and returns, whatever the cluster does; the future tells the outcome."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

import klamm
from klamm.client.producer.delivery import Delivery
from klamm.errors import (
    BufferExhaustedError,
    DeliveryError,
    KlammTimeoutError,
    PurgedError,
    UnknownTopicOrPartitionError,
)

PATIENCE_S: Final = 20
NOWHERE: Final = "127.0.0.1:1"  # nobody listens there


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@pytest.fixture
def producer(port: int) -> Iterator[klamm.Producer]:
    """One whose broker is not there yet."""
    made = klamm.Producer(bootstrap_servers=f"127.0.0.1:{port}", reconnect_backoff_max_ms=50)
    yield made
    made.purge()
    made.finish(0)


def read(broker: klamm.Broker, count: int) -> list[bytes | None]:
    with klamm.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0)])
        return [record.value for record in consumer.consume(count, PATIENCE_S)]


def fill(producer: klamm.Producer) -> None:
    for _ in range(1000):
        producer.send("t", b"x" * 1000, block=False)


def test_records_of_the_time_without_a_broker_are_delivered_in_order(
    producer: klamm.Producer, port: int
) -> None:
    began = time.monotonic()
    early = [
        producer.send("t", str(number), key="k", headers={"n": b"1"}, block=False) for number in range(300)
    ]
    assert time.monotonic() - began < 5  # `send` waits for max.block.ms, 60 s
    assert len(producer) == 300
    with pytest.raises(KlammTimeoutError):
        producer.flush(0.05)
    with klamm.Broker(port=port) as broker:
        late = [producer.send("t", str(number), key="k") for number in range(300, 400)]
        producer.flush(PATIENCE_S)
        offsets = [delivery.result(PATIENCE_S).offset for delivery in early + late]
        assert offsets == list(range(400))
        assert (early[0].partition, len(producer)) == (("t", 0), 0)
        assert producer.metrics()["records_delivered"] == 400
        assert read(broker, 400) == [str(number).encode() for number in range(400)]


def test_a_full_buffer_is_an_error_at_once() -> None:
    with klamm.Producer(bootstrap_servers=NOWHERE, buffer_memory=100_000) as small:
        with pytest.raises(BufferExhaustedError, match="full"):
            fill(small)
        assert 50 < len(small) < 100
        small.purge()
        small.send("t", b"x" * 1000, block=False)
        small.purge()
        with pytest.raises(DeliveryError):
            small.flush(0)


def test_a_full_buffer_is_an_error_at_once_also_when_the_topic_is_known() -> None:
    with klamm.Broker() as broker:
        producer = klamm.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000, linger_ms=60_000)
        producer.send("t", b"x")
        broker.stop()
        with pytest.raises(BufferExhaustedError):
            fill(producer)
        producer.finish(0)


def test_what_is_not_delivered_in_time_is_told_by_the_callback_with_the_cause() -> None:
    told: list[Any] = []

    def report(error: Any, message: klamm.Message) -> None:
        told.append((error, message.topic(), message.value()))

    with klamm.Producer(
        bootstrap_servers=NOWHERE, delivery_timeout_ms=50, request_timeout_ms=40, linger_ms=0
    ) as producer:
        producer.send("t", b"x", on_delivery=report, block=False)
        producer.flush(PATIENCE_S)
    ((error, topic, value),) = told
    assert isinstance(error, KlammTimeoutError)
    assert "1 record for t not delivered: delivery.timeout.ms=50 has passed" in str(error)
    assert "refused" in str(error)
    assert (topic, value) == ("t", b"x")


def test_a_partition_that_does_not_exist_and_a_partitioner_that_raises_fail_the_record_alone(
    port: int,
) -> None:
    def partitioner(_topic: str, key: bytes | None, _value: bytes | None, _partitions: int) -> int:
        if key == b"bad":
            raise ZeroDivisionError("on purpose")
        return 0

    with klamm.Producer(
        bootstrap_servers=f"127.0.0.1:{port}", reconnect_backoff_max_ms=50, partitioner_class=partitioner
    ) as producer:
        nowhere = producer.send("t", b"x", partition=7, block=False)
        bad = producer.send("t", b"x", key=b"bad", block=False)
        good = producer.send("t", b"x", key=b"good", block=False)
        with klamm.Broker(port=port):
            assert good.result(PATIENCE_S).offset == 0
            with pytest.raises(UnknownTopicOrPartitionError, match=r"t-7: .*partitions 0 to 0"):
                nowhere.result(PATIENCE_S)
            with pytest.raises(ZeroDivisionError):
                bad.result(PATIENCE_S)
            assert producer.metrics()["records_failed"] == 2


def test_a_failure_that_nobody_looked_at_is_told_by_flush_once(producer: klamm.Producer) -> None:
    producer.send("t", b"x", block=False)
    assert producer.purge() == 1
    with pytest.raises(DeliveryError, match="1 record not delivered \\(1 of t\\)"):
        producer.flush()
    producer.flush()


def test_purged_records_say_so(producer: klamm.Producer) -> None:
    delivery = producer.send("t", b"x", block=False)
    producer.purge()
    with pytest.raises(PurgedError):
        delivery.result(PATIENCE_S)


def test_records_of_a_transaction_can_be_queued() -> None:
    with (
        klamm.Broker() as broker,
        klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer,
    ):
        producer.init_transactions()
        with producer.transaction():
            delivery = producer.send("t", b"x", block=False)
        assert delivery.result(0).offset == 0


def test_callbacks_may_send_more_without_waiting(producer: klamm.Producer, port: int) -> None:
    done = threading.Event()

    def again(delivery: Delivery) -> None:
        if delivery.result().offset < 3:
            producer.send("t", b"x", on_delivery=again, block=False)
        else:
            done.set()

    producer.send("t", b"x", on_delivery=again, block=False)
    with klamm.Broker(port=port):
        assert done.wait(PATIENCE_S)
