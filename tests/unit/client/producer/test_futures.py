"""Deliveries are futures that other code can wait for."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator

import pytest

import klamm
from klamm.client.producer.delivery import Delivery
from klamm.errors import BrokerError
from klamm.protocol.errors import ErrorCode
from unit.client.producer.world import World


@pytest.fixture(scope="module")
def producer() -> Iterator[klamm.Producer]:
    with (
        klamm.Broker() as broker,
        klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer,
    ):
        yield producer


def test_concurrent_futures_wait_for_deliveries(producer: klamm.Producer) -> None:
    sent = [producer.send("waited", b"%d" % number) for number in range(20)]
    done, left = concurrent.futures.wait(sent, timeout=10)
    assert (done, left) == (set(sent), set())
    assert {delivery.result().offset for delivery in done} == set(range(20))
    again = list(concurrent.futures.as_completed([*sent, producer.send("waited", b"x")], timeout=10))
    assert len(again) == 21


def test_the_first_failure_ends_a_wait() -> None:
    world = World()
    bad = world.send("a")
    waiting = world.send("b", run=False)
    world.answer(world.requests[0], ErrorCode.invalid_record)
    done, left = concurrent.futures.wait([bad, waiting], 10, concurrent.futures.FIRST_EXCEPTION)
    assert done == {bad}
    assert left == {waiting}
    assert isinstance(bad.exception(), BrokerError)


def test_asyncio_wraps_and_gathers_deliveries(producer: klamm.Producer) -> None:
    async def main() -> None:
        sent = [producer.send("wrapped", b"x") for _ in range(5)]
        places = await asyncio.gather(*map(asyncio.wrap_future, sent))
        assert [place.offset for place in places] == list(range(5))

    asyncio.run(main())


def test_a_failure_comes_through_a_wrapped_future() -> None:
    async def main() -> None:
        world = World()
        wrapped = asyncio.wrap_future(world.send("a"))
        world.answer(world.requests[0], ErrorCode.invalid_record)
        with pytest.raises(BrokerError):
            await wrapped

    asyncio.run(main())


def test_a_delivery_is_a_future_without_state_until_somebody_looks_inside() -> None:
    world = World()
    delivery = world.send("a")
    assert isinstance(delivery, concurrent.futures.Future)
    assert delivery.running()
    assert not delivery.cancel()
    assert not delivery.cancelled()
    assert vars(delivery) == {}
    assert delivery._state == "PENDING"
    world.answer(world.requests[0], base_offset=7)
    assert delivery._state == "FINISHED"
    assert concurrent.futures.Future.result(delivery).offset == 7
    assert not delivery.running()
    with pytest.raises(AttributeError, match="'Delivery' object has no attribute 'nonsense'"):
        _ = delivery.nonsense
    assert type(delivery) is Delivery
