"""Leaving a producer: what was not delivered is raised, once, and nothing else is hidden by it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Final

import pytest

import klamm
from klamm import aio
from klamm.client.producer import accumulator
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.failures import attach, delivery_error
from klamm.clock import SystemClock, clients_on
from klamm.errors import DeliveryError, KlammTimeoutError, TransactionAbortedError
from klamm.protocol.errors import ErrorCode
from unit.client.producer.world import T0, T1, World

DELIVERY_TIMEOUT_MS: Final = 120_000


class JumpingClock(SystemClock):
    """Time goes on by itself, and may skip what a test need not live through."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.skipped_ms


@pytest.fixture
def clock() -> Iterator[JumpingClock]:
    clock = JumpingClock()
    with clients_on(clock):
        yield clock


@pytest.fixture
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def test_leaving_the_block_raises_what_was_not_delivered(broker: klamm.Broker, clock: JumpingClock) -> None:
    producer = klamm.Producer(bootstrap_servers=broker.bootstrap)

    def use() -> None:
        with producer:
            producer.send("orders", b"0").result(10)
            broker.stop()
            producer.send("orders", b"1")
            producer.send("orders", b"2")
            while producer.health().is_healthy:
                threading.Event().wait(0.01)
            clock.skipped_ms = DELIVERY_TIMEOUT_MS

    with pytest.raises(DeliveryError) as raised:
        use()
    assert raised.value.topics == {"orders": 2}
    assert str(raised.value).startswith("2 records not delivered (2 of orders); last error: ")
    assert "refused" in str(raised.value) or "closed" in str(raised.value)
    producer.close()  # closed all the same


def test_leaving_the_async_block_raises_what_was_not_delivered(
    broker: klamm.Broker, clock: JumpingClock
) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait("orders", b"0")
            await asyncio.to_thread(broker.stop)
            await producer.send("orders", b"1")
            clock.skipped_ms = DELIVERY_TIMEOUT_MS

    with pytest.raises(DeliveryError, match="1 record not delivered"):
        asyncio.run(main())


def test_an_exception_under_way_is_not_replaced(broker: klamm.Broker, clock: JumpingClock) -> None:
    def use() -> None:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"0").result(10)
            broker.stop()
            producer.send("orders", b"1")
            clock.skipped_ms = DELIVERY_TIMEOUT_MS
            raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        use()
    assert isinstance(raised.value.__context__, DeliveryError)
    assert "1 record not delivered" in raised.value.__notes__[0]


def test_an_exception_under_way_is_not_replaced_by_the_async_block(
    broker: klamm.Broker, clock: JumpingClock
) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait("orders", b"0")
            await asyncio.to_thread(broker.stop)
            await producer.send("orders", b"1")
            clock.skipped_ms = DELIVERY_TIMEOUT_MS
            raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        asyncio.run(main())
    assert isinstance(raised.value.__context__, DeliveryError)


def test_what_a_future_or_a_callback_has_reported_is_not_raised_again(
    broker: klamm.Broker, clock: JumpingClock
) -> None:
    heard: list[Delivery] = []
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"0").result(10)
        broker.stop()
        looked_at = producer.send("orders", b"1")
        producer.send("orders", b"2", on_delivery=heard.append)
        clock.skipped_ms = DELIVERY_TIMEOUT_MS
        assert looked_at.exception(10) is not None
    assert len(heard) == 1


def test_closing_in_a_callback_logs_what_it_cannot_raise(
    broker: klamm.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=100)
    producer.send("slow", b"0").result(10)
    closed = threading.Event()

    def close(_delivery: Delivery) -> None:
        producer.send("slow", b"2")
        producer.close()
        closed.set()

    with caplog.at_level(logging.ERROR):
        producer.send("slow", b"1", on_delivery=close)
        assert closed.wait(10)
    assert "1 record not delivered (1 of slow)" in caplog.text


def test_giving_up_names_the_last_error_of_each_batch() -> None:
    world = World(retry_backoff_ms=1_000)
    delivery = world.send("a")
    world.answer(world.requests[0], ErrorCode.not_enough_replicas)
    other = world.send("b", T1)
    world.sender.abandon_all("the producer was closed with timeout=1")
    assert "timeout=1; last error: " in str(delivery.exception(0))
    assert "NOT_ENOUGH_REPLICAS" in str(delivery.exception(0))
    assert isinstance(other.exception(0), KlammTimeoutError)


def test_records_of_an_aborted_transaction_are_no_failure() -> None:
    world = World()
    world.send("a", run=False)
    world.sender.die(TransactionAbortedError("aborted"))
    batches = world.accumulator.begin_flush()
    assert delivery_error(batches, world.accumulator.take_dropped_failures()) is None


def test_more_failures_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator, "KEPT_FAILURES", 2)
    world = World()
    for number in range(5):
        world.send(str(number), T0)
        world.answer(world.requests[0], ErrorCode.invalid_record)
    failed = delivery_error(world.accumulator.begin_flush(), world.accumulator.take_dropped_failures())
    assert failed is not None
    assert failed.topics == {"t": 5}
    assert len(failed.failures) == 2


def test_failures_are_attached_behind_the_context_that_is_there() -> None:
    failed = DeliveryError([KlammTimeoutError("late")], {"t": 1})
    inner, outer = ValueError("inner"), KeyError("outer")
    outer.__context__ = inner
    attach(outer, failed)
    attach(outer, failed)
    assert outer.__context__ is inner
    assert inner.__context__ is failed
    assert failed.__context__ is None
