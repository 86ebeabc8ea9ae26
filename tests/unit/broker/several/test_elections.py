"""Elections and reassignments that clients ask for, among brokers that carry them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from internals.shared_jar import SharedJar
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.storage.cluster import BrokerState, LeaderChange
from klamm.testing.requests import a_produce
from unit.broker.several.asking import commit, coordinator_id, find, key_of, make_internal_topics, produce

QUIET = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture
def jar(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    jar = make_cluster(settings=QUIET, members=True)
    jar.create_topic()
    return jar


def elect(jar: SharedJar, kind: int = 0, *partitions: int, topic: str = "t", at: int = 2) -> Any:
    """(error code, message) by partition; without partitions: of all."""
    asked = [TopicPartitions(topic, partitions)] if partitions else None
    client = jar[at].connect()
    client.send(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(kind, asked, 5_000))
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    assert answer.error_code == 0
    return {
        (each.topic, result.partition_id): result.error_code
        for each in answer.replica_election_results
        for result in each.partition_result
    }


def send_away(jar: SharedJar, partition: int, to: int) -> None:
    state = jar.state("t", partition)
    change = LeaderChange("t", partition, state.leader_id, state.leader_epoch, to)
    assert jar[to].cluster.start_moves([change])
    jar.pass_ms(100)
    assert jar.state("t", partition).leader_id == to


def test_a_preferred_election_moves_partitions_home_before_it_is_answered(jar: SharedJar) -> None:
    send_away(jar, 0, 3)
    assert produce(jar[3]).base_offset == 0
    assert elect(jar, 0, 0, 1) == {("t", 0): 0, ("t", 1): 84}
    assert (jar.state("t", 0).leader_id, jar.state("t", 0).leader_epoch) == (1, 2)
    assert produce(jar[1]).base_offset == 1
    assert elect(jar, 0, 0) == {("t", 0): 84}


def test_an_election_of_everything_lists_what_was_elected(jar: SharedJar) -> None:
    send_away(jar, 0, 3)
    assert elect(jar, 0) == {("t", 0): 0}
    assert elect(jar, 0) == {}


def test_an_unclean_election_is_never_needed(jar: SharedJar) -> None:
    send_away(jar, 0, 3)
    assert elect(jar, 1, 0, 9) == {("t", 0): 84, ("t", 9): 3}
    assert elect(jar, 0, 0, topic="unknown") == {("unknown", 0): 3}


def test_a_preferred_leader_that_does_not_run_is_not_elected(jar: SharedJar) -> None:
    jar.stop(1)
    assert jar.state("t", 0).leader_id in (2, 3)
    assert elect(jar, 0, 0) == {("t", 0): 80}


def test_a_move_that_its_leader_does_not_carry_out_is_answered_in_time(cluster: SharedJar) -> None:
    cluster.move("t", 0, 3)
    client = cluster[2].connect()
    request = ElectLeadersRequest(0, [TopicPartitions("t", [0])], 1_000)
    client.send(ApiKey.ELECT_LEADERS, 2, request)
    cluster.pass_ms(1_100)
    (answer,) = client.new_answers()
    (line,) = answer.replica_election_results[0].partition_result
    assert (answer.error_code, line.error_code, line.error_message) == (7, 7, None)


def test_an_election_without_time_is_not_begun(jar: SharedJar) -> None:
    send_away(jar, 0, 3)
    answer = jar[2].ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, [TopicPartitions("t", [0, 1])], 0))
    codes = [each.error_code for each in answer.replica_election_results[0].partition_result]
    assert (answer.error_code, codes) == (7, [7, 7])
    jar.pass_ms(200)
    assert jar.state("t", 0).leader_id == 3


def reassign(
    jar: SharedJar, partition: int, replicas: list[int] | None, **options: Any
) -> tuple[int, str | None]:
    row = ReassignableTopic(options.pop("topic", "t"), [ReassignablePartition(partition, replicas)])
    version = 1 if options else 0
    request = AlterPartitionReassignmentsRequest(topics=[row], **options)
    client = jar[2].connect()
    client.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    assert answer.error_code == 0
    (line,) = answer.responses[0].partitions
    return line.error_code, line.error_message


def test_a_partition_moves_to_its_new_replicas(jar: SharedJar) -> None:
    assert produce(jar[1]).base_offset == 0
    assert reassign(jar, 0, [3, 2]) == (0, None)
    state = jar.state("t", 0)
    assert (state.replicas, state.leader_id, state.leader_epoch) == ((3, 2), 3, 1)
    assert produce(jar[3]).base_offset == 1
    # A leader among the new replicas stays
    assert reassign(jar, 0, [2, 3]) == (0, None)
    assert (jar.state("t", 0).replicas, jar.state("t", 0).leader_id) == ((2, 3), 3)
    answer = jar[1].ask(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=None)
    )
    assert (answer.error_code, list(answer.topics)) == (0, [])


def test_a_reassignment_that_cannot_be_is_refused_as_by_kafka(jar: SharedJar) -> None:
    assert reassign(jar, 0, [9]) == (
        39,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    )
    assert reassign(jar, 0, []) == (39, "The manual partition assignment includes an empty replica list.")
    assert reassign(jar, 0, [1, 1]) == (
        39,
        "The manual partition assignment includes the broker 1 more than once.",
    )
    assert reassign(jar, 0, None) == (85, None)
    assert reassign(jar, 7, [1]) == (3, "Unable to find partition t:7.")
    assert reassign(jar, 0, [1], topic="nope") == (3, "Unable to find a topic named nope.")
    assert reassign(jar, 0, [1], allow_replication_factor_change=False)[0] == 38
    assert jar.state("t", 0).replicas == (1, 2, 3)


def test_a_reassignment_without_time_is_not_begun(jar: SharedJar) -> None:
    topics = [ReassignableTopic("t", [ReassignablePartition(0, [3])])]
    request = AlterPartitionReassignmentsRequest(0, topics=topics, allow_replication_factor_change=False)
    answer = jar[2].ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    (line,) = answer.responses[0].partitions
    assert (answer.error_code, line.error_code, line.error_message) == (7, 7, None)
    assert answer.allow_replication_factor_change
    assert jar.state("t", 0).replicas == (1, 2, 3)


def test_the_response_to_a_reassignment_repeats_whether_the_factor_may_change(jar: SharedJar) -> None:
    topics = [ReassignableTopic("t", [ReassignablePartition(0, [3])])]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=False)
    answer = jar[2].ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    assert not answer.allow_replication_factor_change


def test_a_reassignment_is_listed_until_the_leader_has_handed_the_partition_over(
    cluster: SharedJar,
) -> None:
    assert reassign(cluster, 0, [3, 2]) == (0, None)
    answer = cluster[2].ask(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=None)
    )
    (line,) = answer.topics[0].partitions
    assert (answer.topics[0].name, line.partition_index) == ("t", 0)
    assert (line.replicas, line.adding_replicas, line.removing_replicas) == ([3, 2, 1], [3, 2], [1])


# scenario 28
def test_a_leader_that_dies_before_it_hands_over_is_succeeded(jar: SharedJar) -> None:
    assert produce(jar[1]).base_offset == 0
    state = jar.state("t", 0)
    jar.vanish(1)
    assert jar[2].cluster.start_moves([LeaderChange("t", 0, 1, state.leader_epoch, 3)])
    jar.pass_ms(500)
    now = jar.state("t", 0)
    assert now.leader_id in (2, 3)
    assert (now.leader_epoch, now.moving_to) == (state.leader_epoch + 1, -1)
    assert produce(jar[now.leader_id]).base_offset == 1


# scenario 28
def test_a_leader_whose_successor_dies_before_it_hands_over_serves_on(jar: SharedJar) -> None:
    assert produce(jar[1]).base_offset == 0
    state = jar.state("t", 0)
    jar[1].disk.delay_ms = 300  # it learns of the move after the death
    jar.vanish(3)
    assert jar[2].cluster.start_moves([LeaderChange("t", 0, 1, state.leader_epoch, 3)])
    jar.pass_ms(290)
    assert [each.broker_id for each in jar[2].services.image.running_brokers()] == [1, 2]
    jar[1].disk.delay_ms = 0
    jar.pass_ms(2_000)
    now = jar.state("t", 0)
    assert (now.leader_id, now.leader_epoch, now.moving_to) == (1, state.leader_epoch, -1)
    assert produce(jar[1]).base_offset == 1


# scenario 29
def test_a_broker_that_stops_hands_over_before_it_closes_connections(jar: SharedJar) -> None:
    client = jar[1].connect()
    jar.stop(1)
    jar.pass_ms(50)
    assert {each.leader_id for each in jar.cluster.topics()["t"].partitions} == {2, 3}
    assert client.is_closed
    assert [each.broker_id for each in jar[2].services.image.running_brokers()] == [2, 3]


# scenario 29
def test_a_broker_that_stops_tells_clients_who_leads_before_it_closes(jar: SharedJar) -> None:
    make_internal_topics(jar)
    group = key_of(jar, 1)
    node, client = jar[1], jar[1].connect()
    stopping = jar.loop.create_task(node.broker.stop())
    jar.pass_ms(500)
    successor = jar.state("t", 0).leader_id
    # Wherever they ask, clients are sent to the brokers that stay, and who comes here learns where to go
    for at in (node, jar[2], jar[3]):
        metadata = at.ask(ApiKey.METADATA, 12, MetadataRequest([]))
        assert [each.node_id for each in metadata.brokers] == [2, 3]
        assert metadata.controller_id == (2 if at is node else at.node_id)
        described = at.ask(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(include_fenced_brokers=True))
        assert [(each.broker_id, each.is_fenced) for each in described.brokers] == [
            (1, True),
            (2, False),
            (3, False),
        ]
    refused = client.ask(ApiKey.PRODUCE, 10, a_produce(node)).responses[0].partition_responses[0]
    assert (refused.error_code, refused.current_leader.leader_id) == (6, successor)
    assert commit(node, group, 1) == ErrorCode.not_coordinator
    found = find(node, group)
    assert (found.error_code, found.node_id) == (0, coordinator_id(jar, group))
    is_closed = [client.is_closed]
    # But not for long
    jar.pass_ms(2_000)
    is_closed.append(client.is_closed)
    assert is_closed == [False, True]
    assert stopping.done()
    del jar.nodes[1]


# scenario 29
def test_a_broker_without_clients_and_the_last_one_close_at_once(jar: SharedJar) -> None:
    jar[1].connect()
    for node_id in (2, 3, 1):
        node = jar.nodes.pop(node_id)
        stopping = jar.loop.create_task(node.broker.stop())
        jar.pass_ms(500)
        assert stopping.done()


# scenario 38
def test_a_broker_that_returns_gets_its_partitions_back_after_a_while(
    make_cluster: Callable[..., SharedJar],
) -> None:
    jar = make_cluster(settings={"leader.imbalance.check.interval.seconds": "2"}, members=True)
    jar.create_topic()
    jar.vanish(1)
    jar.pass_ms(500)
    assert jar.state("t", 0).leader_id != 1
    jar.start(1)
    jar.pass_ms(5_000)
    assert jar.state("t", 0).leader_id != 1, "not at once: it may be about to stop again"
    jar.pass_ms(20_000)
    assert [each.leader_id for each in jar.cluster.topics()["t"].partitions] == [1, 2, 3]


def test_a_broker_that_is_fenced_while_it_stops_does_not_register_again(jar: SharedJar) -> None:
    assert jar.leases is not None
    membership = jar[1].services.membership
    assert membership is not None
    jar.loop.run(membership.drain())
    jar.loop.run(membership.leave())
    # Its logs take long to close, and its lease ends meanwhile
    jar.leases.end(1)
    jar.pass_ms(5_000)
    states = {each.broker_id: each.state for each in jar.cluster.brokers()}
    assert states[1] is BrokerState.GONE


def test_a_reassignment_of_nothing_is_answered_as_kafka_does_whatever_else_it_says(jar: SharedJar) -> None:
    request = AlterPartitionReassignmentsRequest(0, topics=[], allow_replication_factor_change=False)
    client = jar[2].connect()
    client.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    assert (answer.error_code, answer.error_message) == (0, "")
    assert answer.allow_replication_factor_change
