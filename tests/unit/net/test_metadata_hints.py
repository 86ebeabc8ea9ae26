"""What answers of other APIs say about leaders and brokers, and when metadata is asked for."""

from __future__ import annotations

from random import Random

from klamm.client.runtime import Core
from klamm.net.cluster import BrokerInfo, Cluster, PartitionInfo, TopicInfo
from klamm.net.metadata import MetadataConfig
from klamm.net.network import NetworkConfig, Node
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from klamm.protocol.types import ZERO_ID, TopicPartition
from unit.client.fakes import FakeTransport

T0 = TopicPartition("t", 0)


def a_cluster() -> Cluster:
    info = PartitionInfo(0, leader_id=1, leader_epoch=4, replicas=(1,), in_sync=(1,))
    return Cluster(
        brokers={1: BrokerInfo(1, "h", 1)}, topics={"t": TopicInfo("t", ZERO_ID, False, {0: info})}
    )


def test_a_newer_leader_is_taken_and_an_older_one_is_not() -> None:
    cluster = a_cluster()
    assert cluster.with_leader(T0, 2, 4) is cluster
    assert cluster.with_leader(TopicPartition("u", 0), 2, 9) is cluster
    changed = cluster.with_leader(T0, 2, 5).partition(T0)
    assert changed is not None
    assert (changed.leader_id, changed.leader_epoch) == (2, 5)


def test_brokers_that_an_answer_names_can_be_reached() -> None:
    core = a_core(FakeTransport())
    core.metadata.learn_brokers({7: ("elsewhere", 7000, "rack")})
    assert core.network.address_of(Node("broker", 7)) == ("elsewhere", 7000)
    assert core.metadata.cluster.brokers[7].rack == "rack"


class AsksOnce:
    """A component that wants metadata in the middle of a round."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.is_wanting = False

    def tick(self, now_ms: int) -> int | None:
        if self.is_wanting:
            self.is_wanting = False
            self._core.metadata.request_update()
        return None


def a_core(transport: FakeTransport) -> Core:
    config = NetworkConfig(bootstrap=(("127.0.0.1", 9092),), client_id="test")
    return Core(config, MetadataConfig(), transport=transport, random=Random(7), now_ms=0)


def test_metadata_that_a_component_asks_for_in_a_round_is_sent_in_that_round() -> None:
    transport = FakeTransport()
    core = a_core(transport)
    component = AsksOnce(core)
    core.components.append(component)
    core.tick(0)
    transport.open_all()
    transport.take(ApiKey.METADATA).answer(
        MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)])
    )
    component.is_wanting = True
    core.tick(1)
    transport.open_all()
    assert transport.take(ApiKey.METADATA)


def test_metadata_wanted_while_a_request_that_fails_is_in_flight_is_there_with_the_next_response() -> None:
    transport = FakeTransport()
    core = a_core(transport)
    core.tick(0)
    wanted = core.metadata.request_update()
    transport.links[-1].events.lost(OSError(111, "Connection refused"))
    core.tick(10_000)
    transport.open_all()
    transport.take(ApiKey.METADATA).answer(
        MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)])
    )
    assert core.metadata.version >= wanted


def test_metadata_wanted_while_a_request_is_in_flight_is_that_of_the_next_request() -> None:
    transport = FakeTransport()
    core = a_core(transport)
    core.tick(0)
    wanted = core.metadata.request_update()
    transport.open_all()
    brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)]
    transport.take(ApiKey.METADATA).answer(MetadataResponse(brokers=brokers))
    assert core.metadata.version < wanted
    core.tick(1)
    transport.open_all()
    transport.take(ApiKey.METADATA).answer(MetadataResponse(brokers=brokers))
    assert core.metadata.version >= wanted
