"""Requests about topics, their configurations, and the cluster."""

from __future__ import annotations

from random import Random

from interop.differential.data_steps import any_version, grouped, targets
from interop.differential.world import BAD_NAMES, NAMES, Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from klamm.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# Settings with values that both brokers take, and values that both refuse.
TOPIC_SETTINGS = {
    "cleanup.policy": (
        "delete",
        "compact",
        "compact,delete",
        "",
        "DELETE",
        "soon",
        "delete,",
        ",",
        "delete,delete",
    ),
    "compression.type": ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "none", "GZIP", ""),
    "compression.gzip.level": ("1", "9", "-1", "0", "10", "x"),
    "compression.lz4.level": ("1", "17", "0", "18"),
    "compression.zstd.level": ("-131072", "22", "23", "0"),
    "retention.ms": (
        "-1",
        "0",
        "1000000",
        "-2",
        "x",
        "",
        " 5 ",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
    ),
    "retention.bytes": ("-1", "-2", "0", "100000", "9223372036854775807"),
    "segment.bytes": ("1048576", "1073741824", "2147483647", "2147483648", "-1", "0"),
    "segment.ms": ("1", "0", "-1", "10000", "9223372036854775807"),
    "segment.jitter.ms": ("0", "-1", "7", "9223372036854775807"),
    "segment.index.bytes": ("1200", "3", "100000"),  # with 4, Kafka cannot create the log
    "max.message.bytes": ("0", "200", "1000", "1048588", "-1", "2147483647"),
    "min.insync.replicas": ("1", "2", "0"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", ""),
    "message.timestamp.before.max.ms": ("9223372036854775807", "7200000", "-1", "0"),
    "message.timestamp.after.max.ms": ("3600000", "9223372036854775807", "-1"),
    "min.compaction.lag.ms": ("0", "5", "-1", "9223372036854775807"),
    "max.compaction.lag.ms": ("9223372036854775807", "1", "0", "4"),
    "delete.retention.ms": ("0", "-1", "86400000", "9223372036854775807"),
    "file.delete.delay.ms": ("0", "-1", "60000", "9223372036854775807"),
    "flush.messages": ("1", "0", "9223372036854775807"),
    "flush.ms": ("0", "-1", "9223372036854775807"),
    "index.interval.bytes": ("0", "-1", "4096", "2147483647"),
    "min.cleanable.dirty.ratio": ("0", "1", "0.5", "1.1", "-0.1", "x", "1e-1", ".5"),
    "preallocate": ("true", "false", "TRUE", "yes", ""),
    "unclean.leader.election.enable": ("true", "false", "1"),
    "leader.replication.throttled.replicas": ("", "*", "0:1", "x"),
    "follower.replication.throttled.replicas": ("", "*", "0:1,1:1", "1"),
    "local.retention.ms": ("-2", "-1", "5", "-3"),
    "local.retention.bytes": ("-2", "-1", "5", "-3"),
    "remote.storage.enable": ("false",),
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "no.such.setting": ("1",),
    "": ("1",),
}


def any_setting(world: World) -> tuple[str, str | None]:
    name = world.random.choice(sorted(TOPIC_SETTINGS))
    if world.random.random() < 0.02:
        return name, None
    return name, world.random.choice(TOPIC_SETTINGS[name])


def note_rewriting(world: World, topic: str, name: str, value: str | None) -> None:
    """Remember topics whose batches may not stay as they came."""
    stays_so = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}
    if stays_so.get(name, value) != value:
        world.rewriting |= {topic}


def create_topics(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.CREATE_TOPICS)
    topics = [_creatable(world, version) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    # Names that collide within one request klamm refuses, Kafka does not: then there would be two.
    topics = list({topic.name.replace(".", "_"): topic for topic in topics}.values())
    if random.random() < 0.03:
        topics.append(topics[0])
    request = CreateTopicsRequest(topics, _any_timeout_ms(random), random.random() < 0.2)
    says = ", ".join(topic.name[:20] for topic in topics)
    return Step(ApiKey.CREATE_TOPICS, version, request, says, changes_cluster=True)


def _creatable(world: World, version: int) -> CreatableTopic:
    random = world.random
    name = random.choice(BAD_NAMES) if random.random() < 0.08 else random.choice(NAMES)
    topic = CreatableTopic(name, random.choice((1, 1, 2, 3)), 1)
    chance = random.random()
    if chance < 0.1:
        topic.num_partitions = random.choice((0, -1, -2, -(2**31)))
    elif chance < 0.2:
        topic.replication_factor = random.choice((0, -1, -2, 2, 2**15 - 1))
    elif chance < 0.25:
        topic.num_partitions = topic.replication_factor = -1
    elif chance < 0.4:
        if random.random() < 0.8:
            topic.num_partitions = topic.replication_factor = -1
        topic.assignments = [
            CreatableReplicaAssignment(index, random.choice(([1], [1], [1], [], [2], [1, 1], [1, 2], [-1])))
            for index in random.choice(([0], [0, 1], [1, 0], [1], [0, 0], [0, 2], [-1]))
        ]
    if random.random() < 0.4:
        topic.configs = [
            CreatableTopicConfig(*any_setting(world)) for _ in range(random.choice((1, 1, 2, 3)))
        ]
        for config in topic.configs:
            note_rewriting(world, name, config.name, config.value)
    return topic


def plain_topic(world: World) -> Step:
    """A topic that can be used."""
    random = world.random
    name = random.choice(NAMES)
    configs = []
    if random.random() < 0.5:
        configs = random.choice(
            (
                [CreatableTopicConfig("cleanup.policy", "compact")],
                [CreatableTopicConfig("segment.bytes", "1048576")],
                [CreatableTopicConfig("message.timestamp.type", "LogAppendTime")],
                [CreatableTopicConfig("max.message.bytes", "300")],
                [CreatableTopicConfig("message.timestamp.before.max.ms", "86400000")],
            )
        )
        for config in configs:
            note_rewriting(world, name, config.name, config.value)
    topic = CreatableTopic(name, random.choice((1, 2, 3)), 1, configs=configs)
    return Step(
        ApiKey.CREATE_TOPICS,
        any_version(world, ApiKey.CREATE_TOPICS),
        CreateTopicsRequest([topic], 30_000),
        name[:20],
        changes_cluster=True,
    )


def _any_timeout_ms(random: Random) -> int:
    """How long the client waits; without a wait nothing is done."""
    return random.choice((0, -1)) if random.random() < 0.05 else 30_000


def delete_topics(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.DELETE_TOPICS)
    names = [world.any_name() for _ in range(random.choice((1, 1, 1, 2)))]
    if random.random() < 0.1:
        names += names[:1]
    request = DeleteTopicsRequest(timeout_ms=_any_timeout_ms(random), topic_names=names)
    if version >= 6:
        request.topics = [_deletable(world, name) for name in names]
        if random.random() < 0.1:
            request.topics = [*request.topics, DeleteTopicState(names[0], bytes(16))]
    return Step(
        ApiKey.DELETE_TOPICS, version, request, str([name[:20] for name in names]), changes_cluster=True
    )


def _deletable(world: World, name: str) -> DeleteTopicState:
    chance = world.random.random()
    if chance < 0.45:
        return DeleteTopicState(name, bytes(16))
    if chance < 0.9:
        return DeleteTopicState(None, world.any_id(name))
    return DeleteTopicState(world.random.choice((None, name)), world.any_id(name))


def create_partitions(world: World) -> Step:
    random = world.random
    topics = []
    for _ in range(random.choice((1, 1, 2))):
        name = world.any_name()
        present = world.topics.get(name, 1)
        topic = CreatePartitionsTopic(name, present + random.choice((1, 1, 2, 0, -1)), None)
        if random.random() < 0.1:
            topic.count = random.choice((0, -1, -(2**31)))
        if random.random() < 0.25:
            topic.assignments = [
                CreatePartitionsAssignment(random.choice(([1], [1], [], [2], [1, 1], [-1])))
                for _ in range(random.choice((0, 1, 1, 2)))
            ]
        topics.append(topic)
    request = CreatePartitionsRequest(topics, _any_timeout_ms(random), random.random() < 0.3)
    version = any_version(world, ApiKey.CREATE_PARTITIONS)
    return Step(ApiKey.CREATE_PARTITIONS, version, request, changes_cluster=True)


def metadata(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.METADATA)
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(bytes(16), world.any_name()) for _ in range(random.choice((0, 1, 1, 2, 3)))
        ],
        allow_auto_topic_creation=random.random() < 0.1,
        include_cluster_authorized_operations=random.random() < 0.2,
        include_topic_authorized_operations=random.random() < 0.2,
    )
    if version >= 1 and random.random() < 0.1:
        request.topics = None
    assert request.topics is not None or version >= 1
    if request.topics:
        # Of names that collide Kafka creates the one that it comes to first.
        chosen = {(topic.name or "").replace(".", "_"): topic for topic in request.topics}
        request.topics = list(chosen.values())
    if version >= 10 and request.topics and random.random() < 0.5:
        request.topics = [_by_id(world, topic, version) for topic in request.topics]
    named = {topic.name for topic in request.topics or ()}
    creates = request.allow_auto_topic_creation or version < 4
    # Kafka creates what is missing behind its answer: both are asked again when it is there.
    is_new = creates and not named <= set(world.topics)
    return Step(ApiKey.METADATA, version, request, changes_cluster=is_new, asks_again=is_new)


def _by_id(world: World, topic: MetadataRequestTopic, version: int) -> MetadataRequestTopic:
    name = world.random.choice((None, None, None, topic.name))
    topic_id = world.any_id(topic.name or "")
    if name is None and version >= 12 and not any(topic_id):
        name = topic.name  # neither name nor id breaks Kafka: it answers -1
    return MetadataRequestTopic(topic_id, name)


def describe_cluster(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.DESCRIBE_CLUSTER)
    request = DescribeClusterRequest(
        random.random() < 0.3,
        random.choice((1, 1, 1, 2, 0, 3, -1)) if version >= 1 else 1,
        version >= 2 and random.random() < 0.5,
    )
    return Step(ApiKey.DESCRIBE_CLUSTER, version, request)


def describe_topic_partitions(world: World) -> Step:
    random = world.random
    # An empty name breaks Kafka: it answers -1 for all.
    names = [world.any_name() or "a b" for _ in range(random.choice((0, 1, 1, 2, 3)))]
    cursor = None
    if random.random() < 0.4:
        name = world.any_name()
        cursor = Cursor(name, min(1000, world.any_partition(name)))  # Kafka's sums go wrong near 2^31
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], random.choice((2000, 1, 2, 3, 0, -1)), cursor
    )
    return Step(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request, str([name[:20] for name in names]))


def describe_log_dirs(world: World) -> Step:
    topics = [DescribableLogDirTopic(*item) for item in grouped(world, targets(world)).items()]
    if world.random.random() < 0.1:
        topics = []
    request = DescribeLogDirsRequest(None if world.random.random() < 0.05 else topics)
    return Step(ApiKey.DESCRIBE_LOG_DIRS, any_version(world, ApiKey.DESCRIBE_LOG_DIRS), request)


def list_partition_reassignments(world: World) -> Step:
    topics = [ListPartitionReassignmentsTopics(*item) for item in grouped(world, targets(world)).items()]
    if topics and world.random.random() < 0.1:
        topics.append(topics[0])
    request = ListPartitionReassignmentsRequest(5000, world.random.choice((None, [], topics, topics)))
    return Step(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
