"""Connections: opened when needed, backed off, timed out, and never believed further than their bytes."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from klamm.errors import (
    DisconnectedError,
    KlammError,
    KlammTimeoutError,
    NoBrokersError,
    ProtocolError,
    UnsupportedVersionError,
)
from klamm.net.metadata import Metadata, MetadataConfig
from klamm.net.network import Network, Node, Transport, backoff_ms
from klamm.net.security.security import Security
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from klamm.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from unit.client.fakes import FakeTransport, a_network

SEED = Node("bootstrap", 0)


class Outcome:
    """Where a call's end is kept; fails when there are two."""

    def __init__(self) -> None:
        self.endings: list[tuple[Any, KlammError | None]] = []

    def __call__(self, response: Any, error: KlammError | None) -> None:
        self.endings.append((response, error))

    @property
    def error(self) -> KlammError | None:
        assert len(self.endings) == 1
        return self.endings[0][1]


def list_groups(outcome: Outcome, timeout_ms: int = 1000) -> Call:
    return Call(ApiKey.LIST_GROUPS, ListGroupsRequest(), outcome, timeout_ms)


def asked(transport: FakeTransport, network: Network, outcome: Outcome) -> None:
    network.call(SEED, list_groups(outcome))
    transport.open_all()


def test_a_call_waits_for_the_connection_and_gets_its_answer() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    network.call(SEED, list_groups(outcome))
    assert transport.asked == []

    transport.open_all()
    transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse(error_code=15))

    assert outcome.error is None
    assert outcome.endings[0][0].error_code == 15


def test_connections_that_are_open_stay_when_certificates_are_renewed_and_new_ones_use_them() -> None:
    transport, renewed, outcomes = FakeTransport(), FakeTransport(), [Outcome(), Outcome()]
    network = a_network(transport)

    class Renewed(Security):
        def over(self, transport: Transport) -> Transport:
            return renewed

    asked(transport, network, outcomes[0])
    network.renew(Renewed())
    transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    assert outcomes[0].error is None
    network.set_brokers({1: ("h", 9092)})
    network.call(Node("broker", 1), list_groups(outcomes[1]))
    renewed.open_all()
    renewed.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    assert outcomes[1].error is None


@pytest.mark.parametrize("piece_bytes", [7_001, 65_536, 600_000, 10_000_000])
def test_large_fetches_and_what_follows_them_come_whole_however_they_are_cut(piece_bytes: int) -> None:
    transport, outcomes = FakeTransport(), [Outcome() for _ in range(4)]
    network = a_network(transport)
    for outcome in outcomes[:3]:
        network.call(SEED, Call(ApiKey.FETCH, FetchRequest(), outcome, 1000))
    network.call(SEED, list_groups(outcomes[3]))
    transport.open_all()
    records = [Random(number).randbytes(size) for number, size in enumerate((700_000, 3_000_000, 2_000))]
    stream = b""
    for data in records:
        answer = PartitionData(records=data)
        fetched = FetchResponse(responses=[FetchableTopicResponse(partitions=[answer])])
        stream += transport.take(ApiKey.FETCH).answer_bytes(fetched)
    groups = transport.take(ApiKey.LIST_GROUPS)
    groups.link.arrives(stream + groups.answer_bytes(ListGroupsResponse(error_code=15)), piece_bytes)

    fetches = [outcome.endings[0][0] for outcome in outcomes[:3]]
    assert [bytes(fetch.responses[0].partitions[0].records) for fetch in fetches] == records
    assert outcomes[3].endings[0][0].error_code == 15


def test_answers_go_to_their_questions_in_order() -> None:
    transport, first, second = FakeTransport(), Outcome(), Outcome()
    network = a_network(transport)
    asked(transport, network, first)
    network.call(SEED, list_groups(second))
    for code in (1, 2):
        transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse(error_code=code))
    assert [item.endings[0][0].error_code for item in (first, second)] == [1, 2]


def test_an_old_broker_is_asked_again_in_a_version_it_knows() -> None:
    transport, outcome = FakeTransport(negotiates=False), Outcome()
    asked(transport, a_network(transport), outcome)
    first = transport.take(ApiKey.API_VERSIONS)
    # Unsupported versions are answered in the oldest layout.
    refusal = struct.pack(">ihihhh", first.correlation_id, 35, 1, 18, 0, 2)
    first.link.events.received(struct.pack(">i", len(refusal)) + refusal)

    second = transport.take(ApiKey.API_VERSIONS)
    assert (first.version, second.version) == (4, 2)
    second.answer(ApiVersionsResponse(api_keys=[ApiVersion(16, 0, 3)]))
    assert transport.take(ApiKey.LIST_GROUPS).version == 3


def test_no_common_version_is_an_error_that_names_the_api() -> None:
    transport = FakeTransport(versions=lambda: [ApiVersion(16, 90, 99)])
    outcome = Outcome()
    asked(transport, a_network(transport), outcome)
    assert isinstance(outcome.error, UnsupportedVersionError)
    assert "LIST_GROUPS" in str(outcome.error)


def test_a_refused_connection_fails_what_waits_and_backs_off() -> None:
    transport, outcome, later = FakeTransport(), Outcome(), Outcome()
    network = a_network(transport)
    network.call(SEED, list_groups(outcome))
    transport.links[0].events.lost(ConnectionRefusedError(111, "Connection refused"))
    assert isinstance(outcome.error, DisconnectedError)
    assert "127.0.0.1:9092" in str(outcome.error)

    network.call(SEED, list_groups(later))
    assert len(transport.links) == 1
    assert network.least_loaded() is None
    due_ms = network.tick()
    assert due_ms is not None
    network.now_ms = due_ms
    network.tick()
    assert len(transport.links) == 2


def test_a_silent_broker_times_out_and_the_connection_goes() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    asked(transport, network, outcome)
    assert network.tick() == 1000
    network.now_ms = 1000
    network.tick()
    assert isinstance(outcome.error, KlammTimeoutError)
    assert transport.links[0].is_closed


def test_a_connection_that_cannot_be_made_times_out_too() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    network.call(SEED, list_groups(outcome, timeout_ms=200))
    network.now_ms = 200
    network.tick()
    assert isinstance(outcome.error, KlammTimeoutError)


def test_an_idle_connection_is_closed_and_opened_again_when_needed() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport, connections_max_idle_ms=5000)
    asked(transport, network, outcome)
    transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse())
    network.now_ms = 5000
    network.tick()
    assert transport.links[0].is_closed
    network.call(SEED, list_groups(Outcome()))
    assert len(transport.links) == 2


@pytest.mark.parametrize(
    "hostile",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -5),
        struct.pack(">ii", 4, 4711),
        struct.pack(">iii", 8, 2, 0x7FFFFFFF),
    ],
)
def test_a_hostile_answer_ends_the_connection_with_a_clear_error(hostile: bytes) -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    asked(transport, network, outcome)
    transport.links[0].events.received(hostile)
    assert isinstance(outcome.error, ProtocolError)
    assert transport.links[0].is_closed


def test_an_answer_to_nothing_ends_the_connection() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    asked(transport, network, outcome)
    asked_once = transport.take(ApiKey.LIST_GROUPS)
    asked_once.answer(ListGroupsResponse())
    asked_once.answer(ListGroupsResponse())
    assert transport.links[0].is_closed
    assert len(outcome.endings) == 1


def test_a_request_without_answer_is_done_when_it_is_sent() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    call = list_groups(outcome)
    call.has_answer = False
    network.call(SEED, call)
    transport.open_all()
    assert outcome.endings == [(None, None)]
    assert network.in_flight(SEED) == 0


def test_the_least_loaded_node_is_ready_with_fewest_in_flight() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    network.set_brokers({1: ("127.0.0.1", 1), 2: ("127.0.0.1", 2)})
    for number in (1, 2):
        network.call(Node("broker", number), list_groups(Outcome()))
    transport.open_all()
    network.call(Node("broker", 1), list_groups(Outcome()))
    assert network.least_loaded() == Node("broker", 2)


def test_a_coordinator_has_a_connection_of_its_own() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    network.set_brokers({1: ("127.0.0.1", 1)})
    network.call(Node("broker", 1), list_groups(Outcome()))
    network.call(Node("coordinator", 1), list_groups(Outcome()))
    assert len(transport.links) == 2


def test_a_connection_to_a_bootstrap_server_serves_the_broker_that_it_is() -> None:
    transport, at_first, later, of_another = FakeTransport(), Outcome(), Outcome(), Outcome()
    network = a_network(transport)
    asked(transport, network, at_first)
    (seed,) = transport.links
    network.set_brokers({1: seed.address, 2: ("127.0.0.1", 2)})

    network.call(Node("broker", 1), list_groups(later))
    network.call(Node("broker", 2), list_groups(of_another))

    assert [link.address for link in transport.links] == [seed.address, ("127.0.0.1", 2)]
    for code in (1, 2):
        transport.take(ApiKey.LIST_GROUPS).answer(ListGroupsResponse(error_code=code))
    assert [item.endings[0][0].error_code for item in (at_first, later)] == [1, 2]
    seed.events.lost(ConnectionResetError(104, "Connection reset by peer"))
    assert not network.is_ready(Node("broker", 1))


def test_a_connection_that_is_not_ready_is_not_taken_over() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    network.call(SEED, list_groups(Outcome()))
    network.set_brokers({1: transport.links[0].address})
    network.call(Node("broker", 1), list_groups(Outcome()))
    assert len(transport.links) == 2


def test_a_broker_that_moved_is_reconnected_at_its_new_address() -> None:
    transport, outcome = FakeTransport(), Outcome()
    network = a_network(transport)
    network.set_brokers({1: ("127.0.0.1", 1)})
    network.call(Node("broker", 1), list_groups(outcome))
    transport.open_all()
    network.set_brokers({1: ("127.0.0.1", 2)})
    assert isinstance(outcome.error, DisconnectedError)
    network.now_ms = 10_000
    network.call(Node("broker", 1), list_groups(Outcome()))
    assert transport.links[-1].address == ("127.0.0.1", 2)


def test_backoff_grows_to_its_maximum_with_a_fifth_of_jitter() -> None:
    random = Random(1)
    waits = [[backoff_ms(100, 1000, attempt, random) for _ in range(50)] for attempt in (0, 1, 9)]
    assert all(80 <= wait <= 120 for wait in waits[0])
    assert all(160 <= wait <= 240 for wait in waits[1])
    assert all(800 <= wait <= 1000 for wait in waits[2])


def a_metadata_answer(*, epoch: int = 3, leader: int = 1) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1], isr_nodes=[1]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "127.0.0.1", 9092)],
        cluster_id="c",
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=b"1" * 16, partitions=[partition])],
    )


def test_metadata_is_asked_once_and_kept_until_it_is_old() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    metadata = Metadata(network, MetadataConfig(max_age_ms=60_000))
    metadata.want(["t"])
    metadata.tick(0)
    transport.open_all()
    transport.take(ApiKey.METADATA).answer(a_metadata_answer())
    assert metadata.cluster.topics["t"].partitions[0].leader_id == 1
    assert metadata.tick(0) == 60_000
    metadata.tick(60_000)
    transport.open_all()
    assert [item.api_key for item in transport.asked] == [ApiKey.METADATA]


def test_an_older_leader_epoch_does_not_overwrite_a_newer_one() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    metadata = Metadata(network, MetadataConfig())
    for epoch, leader in ((5, 1), (4, -1)):
        metadata.request_update()
        metadata.tick(network.now_ms)
        transport.open_all()
        transport.take(ApiKey.METADATA).answer(a_metadata_answer(epoch=epoch, leader=leader))
    assert metadata.cluster.topics["t"].partitions[0].leader_epoch == 5


def test_unreachable_bootstrap_servers_are_listed_each_with_its_cause() -> None:
    transport = FakeTransport()
    network = a_network(transport, bootstrap=(("127.0.0.1", 1), ("127.0.0.1", 2)))
    metadata = Metadata(network, MetadataConfig())
    for port in (1, 2):
        network.now_ms = port * 200
        metadata.tick(network.now_ms)
        transport.links[-1].events.lost(OSError(111, f"refused {port}"))
    assert isinstance(metadata.error, NoBrokersError)
    assert "refused 1" in str(metadata.error)
    assert "refused 2" in str(metadata.error)


def test_a_topic_without_a_leader_is_asked_for_again_after_a_backoff() -> None:
    transport = FakeTransport()
    network = a_network(transport)
    metadata = Metadata(network, MetadataConfig(retry_backoff_ms=100))
    metadata.tick(0)
    transport.open_all()
    transport.take(ApiKey.METADATA).answer(a_metadata_answer(leader=-1))
    due_ms = metadata.tick(0)
    assert due_ms is not None
    assert 80 <= due_ms <= 120


def test_a_cluster_that_has_moved_is_found_through_the_bootstrap_servers() -> None:
    transport = FakeTransport()
    network = a_network(transport, bootstrap=(("10.0.0.1", 9092), ("10.0.0.2", 9092)))
    network.set_brokers({1: ("10.0.0.1", 9092), 2: ("10.0.0.3", 9092)})
    for number in (1, 2):
        network.call(Node("broker", number), list_groups(Outcome()))
        transport.links[-1].events.lost(OSError(111, "Connection refused"))
    # Both back off. The other address of the cluster may lead to it; the first is that of broker 1.
    assert network.least_loaded() == Node("bootstrap", 1)
    network.call(Node("bootstrap", 1), list_groups(Outcome()))
    transport.links[-1].events.lost(OSError(111, "Connection refused"))
    assert network.least_loaded() is None
    network.now_ms += 10_000
    found = network.least_loaded()
    assert found is not None
    assert found.kind == "broker"


def test_a_request_that_times_out_before_its_connection_is_there_is_an_event() -> None:
    # Components go on after events only: one that fails in silence would be the last.
    transport = FakeTransport()
    network = a_network(transport)
    outcome = Outcome()
    network.call(SEED, list_groups(outcome, timeout_ms=100))
    network.tick()
    before = network.event_count
    network.now_ms += 100
    network.tick()
    assert isinstance(outcome.error, KlammTimeoutError)
    assert network.event_count > before
