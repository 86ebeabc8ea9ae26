"""Those who may not be brokers: how long and how much a connection takes from them."""

from __future__ import annotations

import struct
from typing import Any

from klamm.errors import KlammError, KlammTimeoutError, ProtocolError
from klamm.net.network import Network, Node
from klamm.net.wire import NEGOTIATION_BYTES, Call
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from unit.client.fakes import FakeTransport, a_network

NODE = Node("bootstrap", 0)


def asked(network: Network, timeout_ms: int = 60_000) -> list[KlammError | None]:
    """Ask for metadata; the list gets the outcome."""
    outcomes: list[KlammError | None] = []

    def done(_response: Any, error: KlammError | None) -> None:
        outcomes.append(error)

    network.call(NODE, Call(ApiKey.METADATA, MetadataRequest(), done, timeout_ms))
    return outcomes


def test_a_connection_that_does_not_come_about_is_given_up_and_tried_again() -> None:
    transport = FakeTransport()
    network = a_network(transport, request_timeout_ms=1_000)
    outcomes = asked(network)
    assert network.tick() == 1_000
    network.now_ms = 1_000
    network.tick()
    assert str(outcomes[0]) == "127.0.0.1:9092: no connection within 1000 ms"
    assert transport.links[0].is_closed
    # It backs off, and then another attempt is made.
    asked(network)
    network.now_ms = 3_000
    network.tick()
    assert len(transport.links) == 2


def test_an_address_that_accepts_connections_and_does_not_respond_is_named() -> None:
    transport = FakeTransport(negotiates=False)
    network = a_network(transport, request_timeout_ms=1_000)
    outcomes = asked(network)
    transport.open_all()
    network.now_ms = 1_000
    network.tick()
    (error,) = outcomes
    assert isinstance(error, KlammTimeoutError)
    assert "127.0.0.1:9092: connected, but got no response to API_VERSIONS" in str(error)


def test_large_answers_are_taken_only_from_those_who_told_their_versions() -> None:
    transport = FakeTransport(negotiates=False)
    network = a_network(transport)
    outcomes = asked(network)
    transport.open_all()
    transport.links[0].events.received(struct.pack(">i", NEGOTIATION_BYTES + 1))
    (error,) = outcomes
    assert isinstance(error, ProtocolError)
    assert "127.0.0.1:9092: malformed response: a frame of 1048577 bytes" in str(error)

    honest = FakeTransport()
    network = a_network(honest)
    outcomes = asked(network)
    honest.open_all()
    honest.links[0].events.received(struct.pack(">i", NEGOTIATION_BYTES + 1))
    assert outcomes == []
