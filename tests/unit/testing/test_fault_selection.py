"""Every fault, for exactly the requests that it was ordered for: in Python and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.testing import Broker, WireClient
from klamm.testing.control_faults import FaultOrders

# A request that can be selected by everything.
SELECTED: dict[str, Any] = {
    "api": "TxnOffsetCommit",
    "version": 3,
    "topic": "orders",
    "partition": 1,
    "client_id": "web",
    "group": "billing",
    "transactional_id": "tx",
}
OTHERS: dict[str, Any] = {
    "version": 2,
    "topic": "payments",
    "partition": 0,
    "client_id": "mobile",
    "group": "shipping",
    "transactional_id": "other",
}
FAULTS: dict[str, dict[str, Any]] = {
    "answered with COORDINATOR_LOAD_IN_PROGRESS": {"fault": "fail", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    "delayed by 10 s": {"fault": "delay", "by": "10s"},
    "connection dropped before the work": {"fault": "drop"},
    "connection dropped after the work": {"fault": "drop", "when": "after"},
    "response not sent": {"fault": "lose"},
    "response cut short": {"fault": "cut"},
    "not read any further": {"fault": "hang"},
}

Order = Callable[[Broker, dict[str, Any]], Callable[[], int]]


def by_python(broker: Broker, order: dict[str, Any]) -> Callable[[], int]:
    given = dict(order)
    fault = getattr(broker.faults, given.pop("fault"))(given.pop("api"), **given)
    return lambda: int(fault.count)


def by_json(broker: Broker, order: dict[str, Any]) -> Callable[[], int]:
    orders = FaultOrders(broker.faults)
    number = orders.add(order)["id"]
    return lambda: int(orders.described(number)["count"])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker, broker.clock.frozen():
        broker.create_topic("orders", 2)
        yield broker


def connected(broker: Broker, asked: dict[str, Any]) -> WireClient:
    return WireClient(broker.bootstrap, client_id=asked["client_id"])


def send(client: WireClient, asked: dict[str, Any]) -> None:
    topics = [
        TxnOffsetCommitRequestTopic(asked["topic"], [TxnOffsetCommitRequestPartition(asked["partition"], 5)])
    ]
    request = TxnOffsetCommitRequest(asked["transactional_id"], asked["group"], topics=topics)
    client.send("TxnOffsetCommit", asked["version"], request)


def error_of(client: WireClient, version: int = 3) -> int:
    _, answer = client.receive("TxnOffsetCommit", version)
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("order", [by_python, by_json])
@pytest.mark.parametrize("outcome", FAULTS)
def test_a_fault_happens_to_the_requests_that_it_selects_and_to_no_others(
    broker: Broker, outcome: str, order: Order
) -> None:
    count = order(broker, {**FAULTS[outcome], **SELECTED, "times": 1})
    for name, value in OTHERS.items():
        asked = {**SELECTED, name: value}
        with connected(broker, asked) as client:
            send(client, asked)
            assert error_of(client, asked["version"]) != ErrorCode.coordinator_load_in_progress
        assert count() == 0, name
    with connected(broker, SELECTED) as client:
        client.ask("ListGroups", 4, ListGroupsRequest())  # another API
        assert count() == 0
        send(client, SELECTED)
        CHECKS[FAULTS[outcome]["fault"]](broker, client)
    assert count() == 1
    assert broker.story("billing").splitlines() == [
        f"injected fault: TxnOffsetCommit v3 for billing from web: {outcome}"
    ]
    with connected(broker, SELECTED) as client:  # it is over
        send(client, SELECTED)
        error_of(client)
    assert count() == 1


def fails(_: Broker, client: WireClient) -> None:
    assert error_of(client) == ErrorCode.coordinator_load_in_progress


def is_late(broker: Broker, client: WireClient) -> None:
    broker.wait_until(lambda: broker.faults.injected, real_time=True)
    client.socket.settimeout(0.01)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(10)
    broker.clock.advance("10s")
    error_of(client)


def is_dropped(_: Broker, client: WireClient) -> None:
    assert client.is_closed()


def is_lost(broker: Broker, client: WireClient) -> None:
    client.send("ListGroups", 4, ListGroupsRequest())
    broker.topics()  # the broker has answered what came later, on another connection
    client.socket.settimeout(0.01)
    with pytest.raises(TimeoutError):  # no answer can overtake the one that is lost
        client.socket.recv(1)


def is_cut(_: Broker, client: WireClient) -> None:
    with pytest.raises(ConnectionError):
        client.receive_frame()


def hangs(broker: Broker, client: WireClient) -> None:
    client.send("ListGroups", 4, ListGroupsRequest())
    broker.wait_until(lambda: broker.faults.injected, real_time=True)
    client.socket.settimeout(0.01)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(10)
    broker.faults.lift()
    error_of(client)
    client.receive("ListGroups", 4)


CHECKS = {"fail": fails, "delay": is_late, "drop": is_dropped, "lose": is_lost, "cut": is_cut, "hang": hangs}
