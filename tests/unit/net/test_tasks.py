"""Coroutines on a moved clock."""

from __future__ import annotations

import pytest

from klamm.errors import KlammTimeoutError
from klamm.net.network import Node
from klamm.net.tasks import Promise, Tasks, gather
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from unit.client.fakes import FakeTransport, a_network


def test_a_coroutine_goes_on_when_what_it_awaits_is_settled() -> None:
    tasks, first = Tasks(a_network(FakeTransport())), Promise[int]()

    async def twice() -> int:
        return 2 * await first

    outcome = tasks.spawn(twice())
    assert not outcome.is_done
    first.resolve(21)
    assert outcome.result() == 42


def test_an_error_comes_out_where_it_is_awaited() -> None:
    tasks, first = Tasks(a_network(FakeTransport())), Promise[int]()

    async def caught() -> str:
        try:
            await first
        except ValueError as error:
            return str(error)
        return "nothing"

    outcome = tasks.spawn(caught())
    first.fail(ValueError("no"))
    assert outcome.result() == "no"


def test_sleeping_takes_as_long_as_the_clock_says() -> None:
    network = a_network(FakeTransport())
    tasks = Tasks(network)
    nap = tasks.sleep(50)
    assert tasks.tick(49) == 50
    assert not nap.is_done
    assert tasks.tick(50) is None
    assert nap.is_done


def test_what_takes_too_long_is_a_timeout_that_says_what() -> None:
    tasks = Tasks(a_network(FakeTransport()))
    bounded = tasks.within(Promise[int](), 10, "describing the group")
    tasks.tick(10)
    with pytest.raises(KlammTimeoutError, match="describing the group"):
        bounded.result()


def test_what_came_in_time_leaves_no_alarm_behind() -> None:
    tasks = Tasks(a_network(FakeTransport()))
    nap = tasks.sleep(5)
    for _ in range(1000):
        promise = Promise[int]()
        bounded = tasks.within(promise, 30_000, "asking")
        promise.resolve(1)
        assert bounded.result() == 1
    assert tasks.alarm_count <= 2
    assert tasks.tick(5) is None
    assert nap.is_done


def test_an_alarm_still_rings_after_others_were_cancelled() -> None:
    tasks = Tasks(a_network(FakeTransport()))
    promises = [Promise[int]() for _ in range(5)]
    bounded = [tasks.within(promise, 10 + place, "asking") for place, promise in enumerate(promises)]
    for promise in promises[:4]:
        promise.resolve(1)
    assert tasks.tick(13) == 14
    tasks.tick(14)
    assert isinstance(bounded[4].error, KlammTimeoutError)


def test_a_request_is_one_await() -> None:
    transport = FakeTransport()
    tasks = Tasks(a_network(transport))
    promise = tasks.request(Node("bootstrap", 0), ApiKey.LIST_GROUPS, ListGroupsRequest())
    transport.open_all()
    transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse(error_code=3))
    assert promise.result().error_code == 3


def test_gathering_keeps_order_and_errors() -> None:
    tasks = Tasks(a_network(FakeTransport()))
    good, bad = Promise[int](), Promise[int]()
    outcome = tasks.spawn(gather([good, bad]))
    error = KlammTimeoutError("late")
    bad.fail(error)
    good.resolve(1)
    assert outcome.result() == [1, error]
