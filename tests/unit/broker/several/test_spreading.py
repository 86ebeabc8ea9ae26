"""A change of topics or configurations is acknowledged when every broker that answers has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from internals.jar import JarClient
from internals.shared_jar import JarNode, SharedJar
from klamm.broker.cluster.following import ClusterFollower
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.storage.cluster import ClusterChanges
from klamm.testing.requests import a_fetch, a_produce

CREATE = CreateTopicsRequest([CreatableTopic("t", 3, 1)])
DELETE = DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=30_000)


@pytest.fixture
def jar(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    """Brokers that follow the store, every 20 ms; `ask` lets no time pass."""
    return make_cluster(members=True)


def create(node: JarNode) -> bytes:
    (topic,) = node.ask(ApiKey.CREATE_TOPICS, 7, CREATE).topics
    assert topic.error_code == 0
    topic_id: bytes = topic.topic_id
    return topic_id


def delete(node: JarNode) -> None:
    assert node.ask(ApiKey.DELETE_TOPICS, 6, DELETE).responses[0].error_code == 0


def shown(node: JarNode) -> Any:
    request = MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    (topic,) = node.ask(ApiKey.METADATA, 12, request).topics
    return topic


@pytest.fixture
def stand_still(jar: SharedJar) -> Iterator[Callable[[int], None]]:
    """Keep a broker from applying changes, until the end of the test."""
    is_over = asyncio.Event()
    held: list[tuple[ClusterFollower, Callable[[], Coroutine[Any, Any, None]]]] = []

    def hold(node_id: int) -> None:
        follower = jar[node_id].services.follower
        catch_up = follower.catch_up

        async def wait() -> None:
            await is_over.wait()
            await catch_up()

        held.append((follower, catch_up))
        follower.catch_up = wait  # type: ignore[method-assign]  # undone below

    yield hold
    for follower, catch_up in held:
        follower.catch_up = catch_up  # type: ignore[method-assign]  # as above
    is_over.set()
    jar.loop.settle()


def test_a_topic_that_was_created_again_has_its_new_id_at_every_broker(jar: SharedJar) -> None:
    for at in (1, 2, 3, 1):
        topic_id = create(jar[at])
        assert [shown(node).topic_id for node in jar.nodes.values()] == [topic_id] * 3
        for partition in shown(jar[1]).partitions:
            leader = jar[partition.leader_id]
            request = a_produce(leader, topic="t", partition=partition.partition_index)
            answer = leader.ask(ApiKey.PRODUCE, 9, request)
            assert answer.responses[0].partition_responses[0].error_code == 0
        delete(jar[at])
        assert [shown(node).error_code for node in jar.nodes.values()] == [3] * 3


def test_a_topic_that_metadata_creates_is_known_to_every_broker(jar: SharedJar) -> None:
    (made,) = jar[2].ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")])).topics
    assert made.error_code == 0
    assert [shown(node).topic_id for node in jar.nodes.values()] == [made.topic_id] * 3


def test_new_partitions_and_settings_are_known_to_every_broker(jar: SharedJar) -> None:
    create(jar[1])
    growth = CreatePartitionsRequest([CreatePartitionsTopic("t", 5, None)], timeout_ms=30_000)
    assert jar[1].ask(ApiKey.CREATE_PARTITIONS, 3, growth).results[0].error_code == 0
    change = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "1234")])
    answer = jar[1].ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([change]))
    assert answer.responses[0].error_code == 0
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", ["retention.ms"])])
    for node in jar.nodes.values():
        assert len(shown(node).partitions) == 5
        described = node.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked)
        assert [each.value for each in described.results[0].configs] == ["1234"]


def test_a_fetch_parked_at_the_leader_ends_when_the_topic_is_deleted_elsewhere(jar: SharedJar) -> None:
    topic_id = create(jar[1])
    leader = jar[shown(jar[1]).partitions[0].leader_id]
    client = leader.connect()
    fetch = a_fetch(leader, topic_id=topic_id, max_wait_ms=60_000)
    client.send(ApiKey.FETCH, 13, fetch)
    jar.loop.settle()
    assert client.new_answers() == []
    delete(jar[leader.node_id % 3 + 1])
    (answer,) = client.new_answers()
    assert answer.responses[0].partitions[0].error_code == 3


def begin_to_create(jar: SharedJar) -> JarClient:
    client = jar[1].connect()
    client.send(ApiKey.CREATE_TOPICS, 7, CREATE)
    jar.loop.settle()
    return client


def test_a_broker_that_does_not_answer_is_waited_for_a_while(
    jar: SharedJar, stand_still: Callable[[int], None]
) -> None:
    stand_still(2)
    client = begin_to_create(jar)
    jar.pass_ms(1_900)
    assert client.new_answers() == []
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    assert answer.topics[0].error_code == 0
    assert shown(jar[3]).error_code == 0


def test_several_changes_wait_for_a_silent_broker_at_the_same_time(
    jar: SharedJar, stand_still: Callable[[int], None]
) -> None:
    stand_still(2)
    clients = [jar[1].connect() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(f"t{number}", 1, 1)]))
    jar.pass_ms(2_100)
    assert [client.new_answers()[0].topics[0].error_code for client in clients] == [0] * 5


def test_a_broker_that_is_dead_is_not_waited_for(jar: SharedJar) -> None:
    create(jar[1])
    jar.vanish(3)
    client = jar[1].connect()
    client.send(ApiKey.DELETE_TOPICS, 6, DELETE)
    jar.pass_ms(100)  # until it is connected to once more
    (answer,) = client.new_answers()
    assert answer.responses[0].error_code == 0


def test_what_is_refused_is_not_spread(jar: SharedJar, stand_still: Callable[[int], None]) -> None:
    create(jar[1])
    stand_still(2)
    assert jar[1].ask(ApiKey.CREATE_TOPICS, 7, CREATE).topics[0].error_code == 36


def test_the_cluster_is_described_although_changes_are_not_applied(
    jar: SharedJar, stand_still: Callable[[int], None]
) -> None:
    stand_still(2)
    clients = [jar[2].connect() for _ in range(20)]
    for _ in range(3):
        for client in clients:
            client.send(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
        jar.pass_ms(2_100)
        for client in clients:
            (answer,) = client.new_answers()
            assert [each.broker_id for each in answer.brokers] == [1, 2, 3]
    assert len(jar[2].services.topics._running) == 1


def test_requests_that_wait_for_the_store_share_a_read(
    jar: SharedJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = jar[1]
    read = node.cluster.changes
    reads: list[int] = []

    def changes(since_version: int) -> ClusterChanges:
        reads.append(since_version)
        return read(since_version)

    monkeypatch.setattr(node.cluster, "changes", changes)

    async def catch_up_often() -> None:
        await asyncio.gather(*(node.services.follower.catch_up() for _ in range(100)))

    jar.loop.run(catch_up_often())
    assert len(reads) <= 2


def test_a_failed_read_of_the_store_is_not_shared(jar: SharedJar, monkeypatch: pytest.MonkeyPatch) -> None:
    node = jar[1]
    read = node.cluster.changes
    failures = [OSError("first")]

    def changes(since_version: int) -> ClusterChanges:
        if failures:
            raise failures.pop()
        return read(since_version)

    monkeypatch.setattr(node.cluster, "changes", changes)

    async def catch_up_often() -> list[BaseException | None]:
        tries = [node.services.follower.catch_up() for _ in range(3)]
        return await asyncio.gather(*tries, return_exceptions=True)

    first, *others = jar.loop.run(catch_up_often())
    assert isinstance(first, OSError)
    assert others == [None, None]
