"""Requests that tests of several brokers make, with everything that does not matter filled in."""

from __future__ import annotations

from typing import Any, Final

from internals.shared_jar import JarNode, SharedJar
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.placement import partition_for
from klamm.testing.requests import a_fetch, a_produce

SHARDS: Final = 6  # partitions of each internal topic
GROUP, TRANSACTION = 0, 1


def find(node: JarNode, key: str, kind: int = GROUP) -> Any:
    answer = node.ask(
        ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    )
    return answer.coordinators[0]


def make_internal_topics(jar: SharedJar) -> None:
    """The internal topics are there, and their shards are loaded."""
    for kind in (GROUP, TRANSACTION):
        find(jar[1], "x", kind)
    jar.pass_ms(50)
    jar.spread()
    jar.pass_ms(50)


def shard_of(key: str) -> int:
    return partition_for(key, SHARDS)


def coordinator_id(jar: SharedJar, key: str, kind: int = GROUP) -> int:
    topic = OFFSETS_TOPIC if kind == GROUP else TRANSACTIONS_TOPIC
    return jar.state(topic, shard_of(key)).leader_id


def key_of(jar: SharedJar, node_id: int, kind: int = GROUP, number: int = 0) -> str:
    """A group or transactional id whose coordinator is this broker."""
    keys = (f"key-{each}" for each in range(1000))
    return [key for key in keys if coordinator_id(jar, key, kind) == node_id][number]


def produce(node: JarNode, partition: int = 0, *, version: int = 9, topic: str = "t", **options: Any) -> Any:
    answer = node.ask(ApiKey.PRODUCE, version, a_produce(node, topic=topic, partition=partition, **options))
    return answer.responses[0].partition_responses[0]


def fetch(node: JarNode, partition: int = 0, *, version: int = 12, **options: Any) -> Any:
    return node.ask(ApiKey.FETCH, version, a_fetch(node, partition=partition, **options))


def a_join(group: str, member_id: str = "", *, protocol: bytes = b"") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", protocol)]
    return JoinGroupRequest(group, 30_000, 60_000, member_id, None, "consumer", protocols)


def a_sync(group: str, member_id: str, generation: int, *members: str) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(each, each.encode()) for each in members]
    return SyncGroupRequest(group, generation, member_id, None, "consumer", "range", assignments)


def heartbeat(node: JarNode, group: str, member_id: str, generation: int) -> int:
    code: int = node.ask(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, member_id)).error_code
    return code


def a_commit(
    group: str, offset: int, *, topic: str = "t", member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group, generation, member_id, topics=topics)


def commit(node: JarNode, group: str, offset: int, *, topic: str = "t") -> int:
    answer = node.ask(ApiKey.OFFSET_COMMIT, 8, a_commit(group, offset, topic=topic))
    code: int = answer.topics[0].partitions[0].error_code
    return code


def an_offset_fetch(*groups: str) -> OffsetFetchRequest:
    asked = [
        OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
        for group in groups
    ]
    return OffsetFetchRequest(asked)


def fetch_offsets(node: JarNode, *groups: str) -> Any:
    return node.ask(ApiKey.OFFSET_FETCH, 8, an_offset_fetch(*groups)).groups


def fetch_offset_before_v8(node: JarNode, version: int, group: str) -> Any:
    topics = [OffsetFetchRequestTopic("t", [0])]
    return node.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(group_id=group, topics=topics))


def committed(node: JarNode, group: str) -> tuple[int, int]:
    """(error code, offset) of t-0."""
    (answer,) = fetch_offsets(node, group)
    if answer.error_code:
        return answer.error_code, -1
    return 0, answer.topics[0].partitions[0].committed_offset


def init_producer(node: JarNode, transactional_id: str | None = None) -> Any:
    request = InitProducerIdRequest(transactional_id, 60_000)
    return node.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
