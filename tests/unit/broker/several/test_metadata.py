"""Brokers, placement and administration as the clients of a cluster see them; numbers are the scenarios'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from internals.shared_jar import JarNode, SharedJar
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.testing.requests import a_fetch, a_produce


def metadata(node: JarNode, *topics: str) -> Any:
    asked = [MetadataRequestTopic(name=name) for name in topics]
    return node.ask(ApiKey.METADATA, 12, MetadataRequest(asked, allow_auto_topic_creation=False))


def create(node: JarNode, name: str, partitions: int = 1, factor: int = 1) -> int:
    wanted = CreatableTopic(name, partitions, factor)
    answer = node.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([wanted]))
    code: int = answer.topics[0].error_code
    return code


def leaders(jar: SharedJar, topic: str) -> list[int]:
    return [state.leader_id for state in jar.cluster.topics()[topic].partitions]


# scenario 01
def test_every_broker_shows_the_same_brokers_leaders_and_epochs(cluster: SharedJar) -> None:
    shown = {node_id: metadata(node, "t") for node_id, node in cluster.nodes.items()}
    for node_id, answer in shown.items():
        assert answer.controller_id == node_id
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
            (1, "node1", 9091),
            (2, "node2", 9092),
            (3, "node3", 9093),
        ]
        assert [
            (each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes, each.offline_replicas)
            for each in answer.topics[0].partitions
        ] == [
            (1, 0, [1, 2, 3], [1, 2, 3], []),
            (2, 0, [2, 1, 3], [2, 1, 3], []),
            (3, 0, [3, 1, 2], [3, 1, 2], []),
        ]


# scenario 02
def test_leaders_of_a_topic_are_spread_evenly(cluster: SharedJar) -> None:
    for partitions, counts in ((6, [2, 2, 2]), (7, [2, 2, 3])):
        assert create(cluster[2], f"p{partitions}", partitions) == 0
        assert sorted(Counter(leaders(cluster, f"p{partitions}")).values()) == counts


# scenario 03
def test_replicas_of_a_partition_are_in_different_racks(
    make_cluster: Callable[..., SharedJar],
) -> None:
    jar = make_cluster(racks=("r1", "r1", "r2"))
    assert create(jar[1], "p", 6, 2) == 0
    assert all(3 in each.replicas for each in jar.cluster.topics()["p"].partitions)
    assert [each.rack for each in metadata(jar[3]).brokers] == ["r1", "r1", "r2"]


# scenario 04
def test_a_dead_broker_counts_for_the_replication_factor_and_never_leads(cluster: SharedJar) -> None:
    assert create(cluster[1], "four", 1, 4) == 38
    cluster.kill(3)
    assert create(cluster[1], "three", 4, 3) == 0
    (topic,) = metadata(cluster[1], "three").topics
    for each in topic.partitions:
        assert sorted(each.replica_nodes) == [1, 2, 3]
        assert sorted(each.isr_nodes) == [1, 2]
        assert each.offline_replicas == [3]
        assert each.leader_id in (1, 2)


# scenario 05
def test_a_topic_made_at_one_broker_is_served_by_the_others(cluster: SharedJar) -> None:
    assert create(cluster[1], "new", 3) == 0
    cluster.spread()
    for partition, leader in enumerate(leaders(cluster, "new")):
        for node_id, node in cluster.nodes.items():
            request = a_produce(node, topic="new", partition=partition)
            answer = node.ask(ApiKey.PRODUCE, 9, request)
            expected = 0 if node_id == leader else 6
            assert answer.responses[0].partition_responses[0].error_code == expected


# scenario 06
def test_of_two_topics_with_one_name_one_is_created(cluster: SharedJar) -> None:
    clients = [node.connect() for node in cluster.nodes.values()]
    for number in range(100):
        names = [f"topic-{number}"]
        places = [number % 3] if number >= 10 else [number % 3, (number + 1) % 3]
        for place in places:
            clients[place].send(
                ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names])
            )
    cluster.pass_ms(100)
    answers = [topic for client in clients for each in client.new_answers() for topic in each.topics]
    by_name = Counter((topic.name, topic.error_code) for topic in answers)
    assert len(answers) == 110
    for number in range(100):
        assert by_name[f"topic-{number}", 0] == 1
        assert by_name[f"topic-{number}", 36] == (1 if number < 10 else 0)
    cluster.spread()
    assert {name for name in cluster[3].services.image.topics if name != "t"} == {
        f"topic-{number}" for number in range(100)
    }


def test_a_broker_looks_into_the_store_before_it_refuses_what_others_made_possible(
    cluster: SharedJar,
) -> None:
    def ask(at: int, api_key: ApiKey, version: int, request: Any) -> Any:
        """Other brokers do not close what was deleted: a new topic waits for that, for a while."""
        client = cluster[at].connect()
        client.send(api_key, version, request)
        cluster.pass_ms(5_000)
        (answer,) = client.new_answers()
        return answer

    def create(at: int) -> int:
        request = CreateTopicsRequest([CreatableTopic("new", 2, 1)])
        code: int = ask(at, ApiKey.CREATE_TOPICS, 7, request).topics[0].error_code
        return code

    def delete(at: int) -> int:
        request = DeleteTopicsRequest([DeleteTopicState("new")], timeout_ms=30_000)
        code: int = ask(at, ApiKey.DELETE_TOPICS, 6, request).responses[0].error_code
        return code

    def grow(at: int) -> int:
        request = CreatePartitionsRequest([CreatePartitionsTopic("new", 4, None)], timeout_ms=30_000)
        code: int = ask(at, ApiKey.CREATE_PARTITIONS, 3, request).results[0].error_code
        return code

    def configure(at: int) -> int:
        wish = AlterConfigsResource(2, "new", [AlterableConfig("retention.ms", 0, "1")])
        request = IncrementalAlterConfigsRequest([wish])
        code: int = ask(at, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code
        return code

    def describe(at: int) -> int:
        request = DescribeConfigsRequest([DescribeConfigsResource(2, "new", None)])
        code: int = ask(at, ApiKey.DESCRIBE_CONFIGS, 4, request).results[0].error_code
        return code

    # Nobody learns of a change but who makes it
    assert describe(2) == 3
    assert create(1) == 0
    assert describe(2) == 0
    assert create(2) == 36
    assert grow(3) == 0
    assert delete(1) == 0
    assert configure(2) == 3
    assert create(2) == 0
    assert configure(3) == 0
    assert delete(3) == 0
    assert (delete(1), delete(2)) == (3, 3)
    assert create(1) == 0
    assert delete(2) == 0
    assert create(3) == 0


# scenario 07
def test_a_configuration_changed_at_one_broker_applies_to_the_others(cluster: SharedJar) -> None:
    change = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "1234")])
    answer = cluster[1].ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([change]))
    assert answer.responses[0].error_code == 0
    cluster.spread()
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", ["retention.ms"])])
    described = cluster[3].ask(ApiKey.DESCRIBE_CONFIGS, 4, asked)
    assert [each.value for each in described.results[0].configs] == ["1234"]
    served = cluster[3].services.partitions.get("t", 2)
    assert served is not None
    assert served.log.config.retention_ms == 1234


# scenario 08
def test_a_fetch_parked_at_the_leader_ends_when_it_learns_that_the_topic_is_deleted(
    cluster: SharedJar,
) -> None:
    topic = cluster[1].services.image.topic("t")
    assert topic is not None
    client = cluster[1].connect()
    fetch = a_fetch(cluster[1], topic_id=topic.topic_id, max_wait_ms=60_000)
    client.send(ApiKey.FETCH, 12, fetch)
    cluster.pass_ms(10)
    assert client.new_answers() == []
    deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000)
    assert cluster[3].ask(ApiKey.DELETE_TOPICS, 5, deletion).responses[0].error_code == 0
    cluster.spread()
    (answer,) = client.new_answers()
    assert answer.responses[0].partitions[0].error_code == 3
    client.send(ApiKey.FETCH, 13, fetch)
    cluster.pass_ms(60_000)
    (answer,) = client.new_answers()
    assert answer.responses[0].partitions[0].error_code == 100
    directories = [entry.name for entry in cluster.files.scan("/logs") if entry.is_directory]
    assert [name for name in directories if not name.endswith("-delete")] == []


# scenario 09
def test_a_dead_broker_is_listed_only_on_request(cluster: SharedJar) -> None:
    cluster.kill(2)
    cluster_of = cluster[1].ask(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
    assert [(each.broker_id, each.is_fenced) for each in cluster_of.brokers] == [(1, False), (3, False)]
    with_fenced = DescribeClusterRequest(include_fenced_brokers=True)
    cluster_of = cluster[1].ask(ApiKey.DESCRIBE_CLUSTER, 2, with_fenced)
    assert [(each.broker_id, each.is_fenced) for each in cluster_of.brokers] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    assert [each.node_id for each in metadata(cluster[3]).brokers] == [1, 3]


def test_a_leader_that_is_not_preferred_is_shown_in_the_place_of_a_dead_broker(cluster: SharedJar) -> None:
    assert create(cluster[1], "one", 1, 1) == 0
    cluster.spread()
    (home,) = leaders(cluster, "one")
    cluster.kill(home)
    survivor = next(iter(cluster.nodes.values()))
    (topic,) = metadata(survivor, "one").topics
    (shown,) = topic.partitions
    assert shown.leader_id != home
    assert shown.error_code == 0
    assert (shown.replica_nodes, shown.isr_nodes, shown.offline_replicas) == (
        [shown.leader_id],
        [shown.leader_id],
        [],
    )
    described = survivor.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([TopicRequest("one")])
    )
    assert described.topics[0].partitions[0].replica_nodes == [shown.leader_id]
