"""Requests that no client library would send."""

from __future__ import annotations

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.produce import ProduceResponse
from klamm.testing import Broker, WireClient
from klamm.testing.requests import a_batch, a_fetch, a_produce


def test_a_request_is_sent_in_the_version_that_the_test_names() -> None:
    with Broker() as broker, WireClient(broker.bootstrap) as client:
        broker.create_topic("orders", 1)
        produced: ProduceResponse = client.ask("Produce", 3, a_produce(broker, topic="orders"))
        assert produced.responses[0].partition_responses[0].base_offset == 0
        fetched = client.ask(ApiKey.FETCH, 4, a_fetch(broker, topic="orders"))
        assert fetched.responses[0].partitions[0].high_watermark == 1


def test_a_damaged_batch_is_refused_as_kafka_refuses_it() -> None:
    with Broker() as broker, WireClient(broker.bootstrap) as client:
        broker.create_topic("orders", 1)
        damaged = bytearray(a_batch(broker))
        damaged[-1] ^= 1
        produced = client.ask("Produce", 7, a_produce(broker, bytes(damaged), topic="orders"))
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.corrupt_message
        assert broker.records("orders") == []


def test_bytes_that_are_no_request_end_the_connection() -> None:
    with Broker() as broker, WireClient(broker.bootstrap) as client:
        client.socket.sendall((4).to_bytes(4, "big") + b"none")
        assert client.is_closed()


def test_a_name_that_is_no_api_is_refused() -> None:
    with (
        Broker() as broker,
        WireClient(broker.bootstrap) as client,
        pytest.raises(ValueError, match="did you mean ListGroups"),
    ):
        client.ask("ListGroup", 4, ListGroupsRequest())
