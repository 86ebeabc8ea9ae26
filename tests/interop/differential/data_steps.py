"""Requests of producers and consumers."""

from __future__ import annotations

from interop.differential import batches
from interop.differential.world import Step, World
from klamm.broker.routes import ROUTES
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SERVED = {route.api_key: range(route.min_version, route.max_version + 1) for route in ROUTES}


def any_version(world: World, api_key: ApiKey) -> int:
    return world.random.choice(SERVED[api_key])


def targets(world: World, most: int = 3) -> list[tuple[str, int]]:
    """Partitions, each at most once, those of a topic together."""
    found = []
    for _ in range(world.random.choice((1, 1, 1, 2, most))):
        name = world.any_name()
        found.append((name, world.any_partition(name)))
    return sorted(dict.fromkeys(found), key=lambda target: [name for name, _ in found].index(target[0]))


def grouped(world: World, wanted: list[tuple[str, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, partition in wanted:
        topics.setdefault(name, []).append(partition)
    if world.random.random() < 0.04:
        topics.setdefault(world.any_name(), [])  # a topic, and nothing of it
    return topics


def produce(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.PRODUCE)
    acks = random.choice((-1, -1, -1, -1, 1, 1, 0, 2, -2)) if random.random() < 0.5 else -1
    says = []
    topics: list[TopicProduceData] = []
    wanted = targets(world)
    for name, partitions in grouped(world, wanted).items():
        data = []
        for partition in partitions:
            chance = random.random()
            kind = "good"
            if chance < 0.4:
                batch = batches.good(world, zstd=version >= 7)
            elif chance < 0.75:
                batch, kind = batches.sequenced(world, name, partition, zstd=version >= 7)
            else:
                batch, kind = batches.odd(world, name, zstd=version >= 7)
            says.append(f"{name[:20]}-{partition}: {kind}")
            data.append(PartitionProduceData(partition, batch))
        topic_id = world.any_id(name)
        if topic_id in {topic.topic_id for topic in topics}:
            topic_id = world.topic_id(name)  # a partition twice klamm refuses, Kafka takes the last
        topics.append(TopicProduceData(topic_id, name, data))
    request = ProduceRequest(None, acks, 30_000, topics)
    return Step(
        ApiKey.PRODUCE,
        version,
        request,
        f"acks {acks}; {'; '.join(says)}",
        appends_to=wanted,
        is_answered=acks != 0,
    )


def fetch(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.FETCH)
    session, epoch = 0, -1
    if version >= 7 and random.random() < 0.6:
        known = sorted(world.session_epochs)
        chance = random.random()
        if chance < 0.3 or not known:
            epoch = 0
        else:
            session = random.choice(known[:3])
            epoch = world.session_epochs[session]
            if chance < 0.4:
                epoch = random.choice((0, -1, epoch - 1, epoch + 1, 99, -5))
            elif chance < 0.43:
                session = 77
    wanted = targets(world, most=4)
    topics = []
    for name, partitions in grouped(world, wanted).items():
        asked = [
            FetchPartition(
                partition,
                world.any_epoch(),
                world.any_offset(name, partition),
                # A session must not learn of divergence: older versions cannot tell it, Kafka fails.
                random.choice((-1, -1, -1, 0, 1)) if epoch == -1 and session == 0 else -1,
                -1,
                _partition_limit(world, name),
            )
            for partition in partitions
        ]
        topics.append(FetchTopic(world.any_id(name), name, asked))
    forgotten = []
    if version >= 7 and random.random() < 0.15:
        name = world.any_name()
        forgotten.append(ForgottenTopic(world.any_id(name), name, [world.any_partition(name)]))
    if session and random.random() < 0.5:
        topics = []
    # Batches that are written anew have other sizes; those of a session may be such.
    rewrites = bool(session) or not world.rewriting.isdisjoint(name for name, _ in wanted)
    request = FetchRequest(
        max_wait_ms=random.choice((0, 0, -1)),
        min_bytes=random.choice((0, 1, 1000, -1)),
        max_bytes=1 << 25 if rewrites else random.choice((1, 1 << 25, 1 << 25, 2**31 - 1, 0, 300, 2000, -1)),
        isolation_level=random.choice((2, -1)) if random.random() < 0.03 else random.choice((0, 1)),
        session_id=session,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=random.choice(("", "", "r")),
    )
    if random.random() < 0.1:
        # No broker's own id: followers of Kafka read to the end of the log, and klamm has none.
        replica_id = random.choice((-1, -2, -3, 0, 5))
        if version < 15:
            request.replica_id = replica_id
        else:
            request.replica_state = ReplicaState(replica_id, random.choice((-1, 0, 5)))
    if version >= 12 and random.random() < 0.1:
        request.cluster_id = random.choice(("x", ""))
    if random.random() < 0.05:
        request.max_wait_ms, request.min_bytes = random.choice((1, 5)), random.choice((1, 500, 100_000))
    wait_for_none_without_id(request)
    return Step(ApiKey.FETCH, version, request)


def wait_for_none_without_id(request: FetchRequest) -> None:
    """The zero id is an error of Kafka when it answers at once, and leaves it silent after a wait."""
    if any(not any(topic.topic_id) for topic in request.topics):
        request.max_wait_ms = 0


def _partition_limit(world: World, name: str) -> int:
    if name in world.rewriting:
        return 1 << 25
    return world.random.choice((0, 1, 100, 500, 2000, 1 << 20, 1 << 25, 2**31 - 1))


def list_offsets(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.LIST_OFFSETS)
    topics = []
    wanted = targets(world)
    if random.random() < 0.05:
        wanted += wanted[:1]
    for name, partitions in grouped(world, wanted).items():
        asked = [
            ListOffsetsPartition(partition, world.any_epoch(), _any_timestamp(world, name, partition))
            for partition in partitions
        ]
        topics.append(ListOffsetsTopic(name, asked))
    request = ListOffsetsRequest(
        replica_id=random.choice((-1,) * 8 + (-2, -3, 0, 5)),
        isolation_level=2 if random.random() < 0.03 else random.choice((0, 1)),
        topics=topics,
        timeout_ms=5000,
    )
    return Step(ApiKey.LIST_OFFSETS, version, request)


def _any_timestamp(world: World, name: str, partition: int) -> int:
    random = world.random
    if (name, partition) in world.starts:
        # Kafka forgets that the log starts later when it looks for the latest timestamp, and stops at a
        # segment below the start when it looks for another.
        return random.choice((-1, -2, -4, -5, -6, -7, 2**63 - 1))
    if random.random() < 0.5:
        return random.choice((-1, -2, -3, -4, -5, -6, -7, -100, -(2**63)))
    return random.choice((0, world.start_ms, world.start_ms + random.randint(-1100, 1100), 2**63 - 1))


def offset_for_leader_epoch(world: World) -> Step:
    topics = [
        OffsetForLeaderTopic(
            name,
            [
                OffsetForLeaderPartition(
                    partition, world.any_epoch(), world.random.choice((0, 0, 1, -1, -2, 9))
                )
                for partition in partitions
            ],
        )
        for name, partitions in grouped(world, targets(world)).items()
    ]
    request = OffsetForLeaderEpochRequest(world.random.choice((-1, -2, -3, 0, 5)), topics)
    return Step(ApiKey.OFFSET_FOR_LEADER_EPOCH, any_version(world, ApiKey.OFFSET_FOR_LEADER_EPOCH), request)


def delete_records(world: World) -> Step:
    topics = [
        DeleteRecordsTopic(
            name,
            [
                DeleteRecordsPartition(partition, _deleted_to(world, name, partition))
                for partition in partitions
            ],
        )
        for name, partitions in grouped(world, targets(world)).items()
    ]
    request = DeleteRecordsRequest(topics, 10_000)
    return Step(ApiKey.DELETE_RECORDS, any_version(world, ApiKey.DELETE_RECORDS), request)


def _deleted_to(world: World, name: str, partition: int) -> int:
    if world.random.random() < 0.5:
        return world.random.randrange(world.end(name, partition) // 2 + 1)
    return world.any_offset(name, partition)


def init_producer_id(world: World) -> Step:
    random = world.random
    request = InitProducerIdRequest(None, random.choice((0, 1000, -1, 2**31 - 1)))
    if random.random() < 0.3:
        request.producer_id = random.choice((-1, 0, 5, -2))
        request.producer_epoch = random.choice((-1, 0, 5, -2))
    if random.random() < 0.1:
        request.transactional_id = ""
    return Step(ApiKey.INIT_PRODUCER_ID, any_version(world, ApiKey.INIT_PRODUCER_ID), request)


def describe_producers(world: World) -> Step:
    topics = [TopicRequest(name, partitions) for name, partitions in grouped(world, targets(world)).items()]
    return Step(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics))
