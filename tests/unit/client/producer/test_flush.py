"""When flush() returns, whatever is called when a record is done has been called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import klamm
from klamm import aio
from klamm.client.producer.delivery import Delivery
from klamm.compat.confluent_kafka import Producer as ConfluentProducer
from klamm.errors import IllegalStateError, KlammTimeoutError

RECORDS: Final = 5
PATIENCE_S: Final = 10


class Slow(klamm.ProducerInterceptor):
    """Appends late: whoever does not wait for it has gone on by then."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def of_delivery(self, delivery: Any) -> None:
        threading.Event().wait(0.01)
        self.calls.append(delivery)

    def of_message(self, _error: Any, message: Any) -> None:
        self.of_delivery(message)

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        self.of_delivery(metadata)


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def by_argument(producer: klamm.Producer, heard: Slow) -> None:
    producer.send("t", b"x", on_delivery=heard.of_delivery)


def by_error_and_message(producer: klamm.Producer, heard: Slow) -> None:
    producer.produce("t", b"x", on_delivery=heard.of_message)


def by_future(producer: klamm.Producer, heard: Slow) -> None:
    producer.send("t", b"x").add_done_callback(heard.of_delivery)


def by_kafka_pythons_future(producer: klamm.Producer, heard: Slow) -> None:
    producer.send("t", b"x").add_callback(heard.of_delivery)


@pytest.mark.parametrize("send", [by_argument, by_error_and_message, by_future, by_kafka_pythons_future])
def test_every_kind_of_callback_has_run(
    broker: klamm.Broker, send: Callable[[klamm.Producer, Slow], None]
) -> None:
    heard = Slow()
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(RECORDS):
            send(producer, heard)
        producer.flush()
        assert len(heard.calls) == RECORDS
        assert len(producer) == 0


def test_interceptors_have_run_and_the_metrics_count_the_records(broker: klamm.Broker) -> None:
    heard = Slow()
    with klamm.Producer(bootstrap_servers=broker.bootstrap, interceptors=[heard]) as producer:
        for _ in range(RECORDS):
            producer.send("t", b"x")
        producer.flush()
        assert len(heard.calls) == RECORDS
        assert producer.metrics()["records_delivered"] == RECORDS


def test_the_metrics_count_a_record_whose_future_has_its_result(broker: klamm.Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for count in range(1, 50):
            producer.send("t", b"x").result(PATIENCE_S)
            assert producer.metrics()["records_delivered"] == count


def test_a_flush_that_begins_while_a_callback_runs_waits_for_it(broker: klamm.Broker) -> None:
    inside, may_end = threading.Event(), threading.Event()

    def report(_delivery: Delivery) -> None:
        inside.set()
        may_end.wait(PATIENCE_S)

    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"x", on_delivery=report)
        assert inside.wait(PATIENCE_S)
        with pytest.raises(KlammTimeoutError):
            producer.flush(0.01)
        may_end.set()
        producer.flush(PATIENCE_S)


def test_a_callback_that_raises_or_exits_is_logged_by_name_and_flush_returns(
    broker: klamm.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def careless(_delivery: Delivery) -> None:
        raise SystemExit(3)

    heard = Slow()
    with klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
        producer.send("t", b"x", on_delivery=careless)
        producer.send("t", b"x", on_delivery=heard.of_delivery)
        producer.flush(PATIENCE_S)
        assert len(heard.calls) == 1
        assert producer.send("t", b"y").result(PATIENCE_S).offset > 0
    assert [record.getMessage() for record in caplog.records if "careless" in record.getMessage()]


def test_a_callback_that_raises_at_once_does_not_raise_in_the_caller(
    broker: klamm.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def careless(_delivery: Delivery) -> None:
        raise RuntimeError("on purpose")

    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        delivery = producer.send("t", b"x")
        delivery.result(PATIENCE_S)
        delivery.add_done_callback(careless)
    assert "careless raised" in caplog.text


def test_an_async_function_is_refused_as_a_callback(broker: klamm.Broker) -> None:
    async def report(_delivery: Delivery) -> None: ...

    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        with pytest.raises(TypeError, match="not an async one"):
            producer.send("t", b"x", on_delivery=report)
        assert len(producer) == 0


def test_flush_inside_a_callback_says_that_it_would_wait_for_itself(broker: klamm.Broker) -> None:
    caught: list[BaseException] = []

    def report(_delivery: Delivery) -> None:
        try:
            producer.flush()
        except IllegalStateError as error:
            caught.append(error)

    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"x", on_delivery=report)
        producer.flush(PATIENCE_S)
        assert "callback" in str(caught[0])


def test_the_asyncio_face_waits_for_callbacks_and_for_its_own_futures(broker: klamm.Broker) -> None:
    async def main() -> None:
        heard = Slow()
        done: list[object] = []
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(RECORDS):
                await producer.send("t", b"x", on_delivery=heard.of_delivery)
                asyncio.ensure_future(producer.send_and_wait("t", b"y")).add_done_callback(done.append)
            await producer.flush()
            assert (len(heard.calls), len(done)) == (RECORDS, RECORDS)

    asyncio.run(main())


def test_the_asyncio_flush_covers_records_that_wait_for_metadata(broker: klamm.Broker) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            first = asyncio.ensure_future(producer.send_and_wait("never-used-before", b"x"))
            await producer.flush()
            assert first.done()

    asyncio.run(main())


def test_confluents_callbacks_have_run(broker: klamm.Broker) -> None:
    heard = Slow()
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap})
    for _ in range(RECORDS):
        producer.produce("t", b"x", callback=heard.of_message)
    assert producer.flush(PATIENCE_S) == 0
    assert len(heard.calls) == RECORDS
