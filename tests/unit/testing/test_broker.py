"""The addresses of a broker for tests."""

from __future__ import annotations

import pytest

import klamm
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing import Broker, WireClient


@pytest.mark.parametrize("kind", [klamm.Broker, Broker])
def test_a_broker_is_shown_with_its_address(kind: type[klamm.Broker]) -> None:
    broker = kind()
    assert repr(broker) == "<Broker not started>"
    with broker:
        assert repr(broker) == f"<Broker running at {broker.bootstrap}>"
    assert repr(broker) == f"<Broker stopped at {broker.bootstrap}>"


def advertised(bootstrap: str) -> str:
    """The address that clients are sent to when they ask there."""
    with WireClient(bootstrap) as client:
        (broker,) = client.ask("Metadata", 9, MetadataRequest([])).brokers
    return f"{broker.host}:{broker.port}"


@pytest.mark.parametrize(("containers", "name"), [(True, "host.docker.internal"), ("gateway", "gateway")])
def test_containers_are_sent_to_a_name_of_this_machine(containers: bool | str, name: str) -> None:
    with Broker(containers=containers) as broker:
        host, _, port = broker.container_bootstrap.rpartition(":")
        assert host == name
        assert advertised(f"127.0.0.1:{port}") == broker.container_bootstrap
        assert advertised(broker.bootstrap) == broker.bootstrap
        before = broker.container_bootstrap, broker.bootstrap
        broker.restart()
        assert (broker.container_bootstrap, broker.bootstrap) == before


def test_a_broker_without_a_listener_for_containers_says_how_to_get_one() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match=r"use Broker\(containers=True\)"):
        broker.container_bootstrap  # noqa: B018 - it raises
