"""A broker that cannot be reached: one warning per outage, and a record of it for health()."""

from __future__ import annotations

import logging

import pytest

from klamm.net.network import Network, Node
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.list_groups import ListGroupsRequest
from unit.client.fakes import FakeTransport, a_network

ADDRESS = ("127.0.0.1", 9092)
REFUSED = OSError(111, "Connection refused")


def call(network: Network) -> None:
    network.call(Node("bootstrap", 0), Call(ApiKey.LIST_GROUPS, ListGroupsRequest(), lambda *_: None, 1000))


def fail_to_connect(transport: FakeTransport, network: Network) -> None:
    call(network)
    transport.links[-1].events.lost(REFUSED)
    network.now_ms += 10_000


def test_an_outage_is_one_warning_however_often_it_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    transport = FakeTransport()
    network = a_network(transport)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            fail_to_connect(transport, network)
        assert list(network.unreachable) == [ADDRESS]
        call(network)
        transport.open_all()
        assert network.unreachable == {}
        assert network.failures == {}
        transport.links[-1].events.lost(None)  # an established connection ends: brokers restart
        assert network.unreachable == {}
        network.now_ms += 10_000
        fail_to_connect(transport, network)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "client test: no connection to 127.0.0.1:9092: [Errno 111] Connection refused; retrying"),
        ("INFO", "client test: connected to 127.0.0.1:9092 again"),
        ("WARNING", "client test: no connection to 127.0.0.1:9092: [Errno 111] Connection refused; retrying"),
    ]


def test_closing_a_client_that_is_still_connecting_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    transport = FakeTransport()
    network = a_network(transport)
    call(network)
    network.close()
    assert caplog.records == []
