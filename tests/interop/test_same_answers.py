"""The same question in every version, to the broker and to Apache Kafka: the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from interop.harness import START_MS
from interop.kafka_tools import ApacheKafka
from interop.questions import Conversation, comparable
from klamm.broker.routes import ROUTES
from klamm.protocol.api import ApiKey
from klamm.protocol.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from klamm.records.compression import Codec
from klamm.records.record import Record, encode_batch
from klamm.testing import wait_until

TOPIC, COMPACTED, UNDATED, MISSING = "same-plain", "same-compacted", "same-undated", "same-missing"
METADATA, CREATE, DELETE_TOPICS = ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS
GROW, DESCRIBE, PARTITIONS = (
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
ALTER, REPLACE, ELECT = ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.ELECT_LEADERS
PRODUCE, FETCH, OFFSETS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS
DELETE_RECORDS, EPOCH, PRODUCER_ID = (
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.INIT_PRODUCER_ID,
)
SERVED = {route.api_key: (route.min_version, route.max_version) for route in ROUTES}


def a_batch(
    count: int = 1, *, key: bytes | None = b"k", codec: int = Codec.NONE, start_ms: int = START_MS
) -> bytes:
    records = [
        Record(offset=n, timestamp_ms=start_ms + n, key=key, value=b"v%d" % n, headers=())
        for n in range(count)
    ]
    return encode_batch(records, codec=codec)


def a_large_batch() -> bytes:
    return encode_batch([Record(0, START_MS, None, bytes(2_000_000), ())])


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(
        tmp_path_factory.mktemp("kafka"), flags=("-Xmx512m", "-XX:TieredStopAtLevel=1")
    ) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def both(lone_bootstrap: str, apache_kafka: ApacheKafka) -> tuple[str, str]:
    """The two brokers, with the same topics and the same three batches in each."""
    for address in (lone_bootstrap, apache_kafka.bootstrap):
        fill(address)
    return lone_bootstrap, apache_kafka.bootstrap


def fill(address: str) -> None:
    """Topics and batches, as soon as the broker takes them."""
    plain = create_topics.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    policy = create_topics.CreatableTopicConfig(name="cleanup.policy", value="compact")
    compacted = create_topics.CreatableTopic(
        name=COMPACTED, num_partitions=1, replication_factor=1, configs=[policy]
    )
    undated = create_topics.CreatableTopic(name=UNDATED, num_partitions=1, replication_factor=1)
    without_time = encode_batch([Record(n, -1, None, b"v", ()) for n in range(2)])
    with Conversation(address) as conversation:
        conversation.ask(CREATE, 7, create_topics.CreateTopicsRequest(topics=[plain, compacted, undated]))
        for batch in (a_batch(3), a_batch(2, codec=Codec.LZ4, start_ms=START_MS + 10), a_batch(1)):
            wait_until(partial(wrote, conversation, batch))
        wait_until(partial(wrote, conversation, without_time, UNDATED))
        wait_until(lambda: conversation.ask(PRODUCER_ID, 0, asking_for_an_id()).error_code, equals=0)
        wait_until(lambda: conversation.ask(METADATA, 9, naming(COMPACTED)).topics[0].error_code, equals=0)


def asking_for_an_id() -> object:
    return init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1000)


def wrote(conversation: Conversation, batch: bytes, topic: str = TOPIC) -> bool:
    answer = conversation.ask(ApiKey.PRODUCE, 9, producing(batch, topic=topic))
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def producing(
    batch: bytes | None, *, topic: str = TOPIC, partition: int = 0, acks: int = -1
) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=partition, records=batch)
    topics = [produce.TopicProduceData(name=topic, partition_data=[data])]
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def creating(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> object:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            create_topics.CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()
        ],
    )
    return create_topics.CreateTopicsRequest(topics=[topic], validate_only=True)


def looking_up(timestamp: int, *, topic: str = TOPIC, partition: int = 0, epoch: int = -1) -> object:
    wanted = list_offsets.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    topics = [list_offsets.ListOffsetsTopic(name=topic, partitions=[wanted])]
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=5000)


def fetching(
    offset: int, *, topic: str = TOPIC, partition: int = 0, epoch: int = -1, max_bytes: int = 1 << 20
) -> object:
    wanted = fetch.FetchPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topics = [fetch.FetchTopic(topic=topic, partitions=[wanted])]
    return fetch.FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=topics)


def naming(*names: str, create: bool = False) -> object:
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def deleting_unknown_id() -> object:
    unknown = delete_topics.DeleteTopicState(topic_id=b"\7" * 16)
    return delete_topics.DeleteTopicsRequest(topics=[unknown], timeout_ms=5000)


def growing(topic: str, count: int) -> object:
    topics = [create_partitions.CreatePartitionsTopic(name=topic, count=count, assignments=None)]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=True)


def deleting_records(offset: int, *, topic: str = TOPIC, partition: int = 0) -> object:
    wanted = delete_records.DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = [delete_records.DeleteRecordsTopic(name=topic, partitions=[wanted])]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=5000)


def describing(topic: str, *names: str) -> object:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=names or None
    )
    return describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def altering(topic: str, *changes: tuple[str, int, str | None]) -> object:
    configs = [
        incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=configs
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def replacing(topic: str, **values: str | None) -> object:
    configs = [alter_configs.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def epoch_ending(epoch: int, *, topic: str = TOPIC, partition: int = 0, current: int = -1) -> object:
    wanted = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def electing(topic: str, partition: int = 0, kind: int = 0) -> object:
    partitions = [elect_leaders.TopicPartitions(topic=topic, partitions=[partition])]
    return elect_leaders.ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=5000)


def describing_partitions(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> object:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else describe_topic_partitions.Cursor(*cursor),
    )


@dataclass(frozen=True, slots=True)
class Question:
    """One request, asked in these versions (all that both brokers serve, unless said)."""

    says: str
    api_key: ApiKey
    request: object
    versions: tuple[int, int] | None = None


def damaged(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


NEVER = 99  # no leader epoch is that far
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
QUESTIONS = [
    Question("metadata of a topic", METADATA, naming(TOPIC)),
    Question("metadata of a missing topic", METADATA, naming(MISSING), (4, 13)),
    Question("metadata of a bad name", METADATA, naming("a b"), (4, 13)),
    Question("metadata of no topic", METADATA, naming(), (1, 13)),
    Question("create: exists", CREATE, creating(TOPIC)),
    Question("create: exists, and bad partitions", CREATE, creating(TOPIC, 0)),
    Question("create: no partitions", CREATE, creating(MISSING, 0)),
    Question("create: negative partitions", CREATE, creating(MISSING, -2)),
    Question("create: no replicas", CREATE, creating(MISSING, 1, 0)),
    Question("create: more replicas than brokers", CREATE, creating(MISSING, 1, 2)),
    Question("create: empty name", CREATE, creating("")),
    Question("create: dots", CREATE, creating("..")),
    Question("create: 249 characters", CREATE, creating("x" * 249), (2, 4)),
    Question("create: 250 characters", CREATE, creating("x" * 250)),
    Question("create: unknown config", CREATE, creating(MISSING, foo="1")),
    Question("create: bad config", CREATE, creating(MISSING, retention_ms="soon")),
    Question("create: null config", CREATE, creating(MISSING, retention_ms=None)),
    Question("create: small segments", CREATE, creating(MISSING, segment_bytes="1")),
    Question("create: good", CREATE, creating(MISSING, 3, retention_ms="5000"), (2, 4)),
    Question("create: defaults", CREATE, creating(MISSING, -1, -1), (4, 4)),
    Question(
        "delete: missing",
        DELETE_TOPICS,
        delete_topics.DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=5000),
        (1, 5),
    ),
    Question(
        "delete: unknown id",
        DELETE_TOPICS,
        delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(topic_id=b"\7" * 16)], timeout_ms=5000
        ),
        (6, 6),
    ),
    Question("grow: fewer", GROW, growing(TOPIC, 1)),
    Question("grow: as many", GROW, growing(TOPIC, 2)),
    Question("grow: more", GROW, growing(TOPIC, 3)),
    Question("grow: missing", GROW, growing(MISSING, 3)),
    Question("configs: two", DESCRIBE, describing(COMPACTED, "cleanup.policy", "segment.bytes")),
    Question("configs: unknown key", DESCRIBE, describing(TOPIC, "foo")),
    Question("configs: missing topic", DESCRIBE, describing(MISSING)),
    Question("alter: set", ALTER, altering(TOPIC, ("retention.ms", SET, "5"))),
    Question("alter: bad value", ALTER, altering(TOPIC, ("retention.ms", SET, "x"))),
    Question("alter: unknown", ALTER, altering(TOPIC, ("foo", SET, "x"))),
    Question("alter: null", ALTER, altering(TOPIC, ("retention.ms", SET, None))),
    Question(
        "alter: append",
        ALTER,
        altering(TOPIC, ("cleanup.policy", APPEND, "compact")),
    ),
    Question(
        "alter: append to no list",
        ALTER,
        altering(TOPIC, ("retention.ms", APPEND, "5")),
    ),
    Question(
        "alter: twice",
        ALTER,
        altering(TOPIC, ("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
    ),
    Question(
        "alter: missing topic",
        ALTER,
        altering(MISSING, ("retention.ms", SET, "5")),
    ),
    Question("replace: good", REPLACE, replacing(TOPIC, retention_ms="5")),
    Question("replace: bad", REPLACE, replacing(TOPIC, retention_ms="x")),
    Question("replace: missing topic", REPLACE, replacing(MISSING, retention_ms="5")),
    Question("offsets: earliest", OFFSETS, looking_up(-2)),
    Question("offsets: latest", OFFSETS, looking_up(-1)),
    Question("offsets: largest timestamp", OFFSETS, looking_up(-3), (7, 10)),
    Question("offsets: largest timestamp of none", OFFSETS, looking_up(-3, topic=UNDATED), (7, 10)),
    Question("offsets: by time, without times", OFFSETS, looking_up(0, topic=UNDATED)),
    Question("offsets: earliest local", OFFSETS, looking_up(-4), (8, 10)),
    Question("offsets: by time", OFFSETS, looking_up(START_MS + 2)),
    Question("offsets: inside a compressed batch", OFFSETS, looking_up(START_MS + 11)),
    Question("offsets: too late", OFFSETS, looking_up(START_MS + 12)),
    Question("offsets: unknown special", OFFSETS, looking_up(-7)),
    Question("offsets: missing topic", OFFSETS, looking_up(-1, topic=MISSING)),
    Question("offsets: missing partition", OFFSETS, looking_up(-1, partition=5)),
    Question("offsets: future epoch", OFFSETS, looking_up(-1, epoch=NEVER), (4, 10)),
    Question("fetch: from the start", FETCH, fetching(0), (4, 12)),
    Question("fetch: inside a batch", FETCH, fetching(1), (4, 12)),
    Question("fetch: one byte", FETCH, fetching(0, max_bytes=1), (4, 12)),
    Question("fetch: at the end", FETCH, fetching(6), (4, 12)),
    Question("fetch: beyond the end", FETCH, fetching(7), (4, 12)),
    Question("fetch: before the start", FETCH, fetching(-5), (4, 12)),
    Question("fetch: missing topic", FETCH, fetching(0, topic=MISSING), (4, 12)),
    Question("fetch: missing partition", FETCH, fetching(0, partition=5), (4, 12)),
    Question("fetch: future epoch", FETCH, fetching(0, epoch=NEVER), (9, 12)),
    Question("produce: missing topic", PRODUCE, producing(a_batch(), topic=MISSING), (3, 12)),
    Question("produce: missing partition", PRODUCE, producing(a_batch(), partition=5), (3, 12)),
    Question("produce: acks 2", PRODUCE, producing(a_batch(), acks=2), (3, 12)),
    Question("produce: bad checksum", PRODUCE, producing(damaged(a_batch(), 65)), (3, 12)),
    Question("produce: bad magic", PRODUCE, producing(damaged(a_batch(), 16)), (3, 12)),
    Question("produce: no bytes", PRODUCE, producing(b""), (3, 12)),
    Question("produce: cut short", PRODUCE, producing(a_batch()[:60]), (3, 12)),
    Question("produce: two batches", PRODUCE, producing(a_batch() * 2), (3, 12)),
    Question(
        "produce: too large",
        PRODUCE,
        producing(a_large_batch()),
        (3, 12),
    ),
    Question(
        "produce: no key, compacted",
        PRODUCE,
        producing(a_batch(key=None), topic=COMPACTED),
        (3, 12),
    ),
    Question("delete records: beyond the end", DELETE_RECORDS, deleting_records(7)),
    Question("delete records: missing topic", DELETE_RECORDS, deleting_records(0, topic=MISSING)),
    Question("delete records: compacted topic", DELETE_RECORDS, deleting_records(0, topic=COMPACTED)),
    Question("delete records: negative", DELETE_RECORDS, deleting_records(-2)),
    Question("delete records: nothing to do", DELETE_RECORDS, deleting_records(0)),
    Question("epoch: current", EPOCH, epoch_ending(0)),
    Question("epoch: future", EPOCH, epoch_ending(NEVER)),
    Question("epoch: missing topic", EPOCH, epoch_ending(0, topic=MISSING)),
    Question("epoch: asked with a future one", EPOCH, epoch_ending(0, current=NEVER)),
    Question("elect: needless", ELECT, electing(TOPIC)),
    Question("elect: missing topic", ELECT, electing(MISSING)),
    Question("elect: missing partition", ELECT, electing(TOPIC, 5)),
    Question("partitions: two topics", PARTITIONS, describing_partitions(TOPIC, COMPACTED)),
    Question(
        "partitions: limited",
        PARTITIONS,
        describing_partitions(TOPIC, COMPACTED, limit=2),
    ),
    Question(
        "partitions: from a cursor",
        PARTITIONS,
        describing_partitions(TOPIC, COMPACTED, cursor=(TOPIC, 1)),
    ),
    Question("partitions: missing topic", PARTITIONS, describing_partitions(MISSING)),
    Question(
        "producer id",
        PRODUCER_ID,
        init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1000),
    ),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.says)
def test_the_answer_is_kafkas(both: tuple[str, str], question: Question) -> None:
    first, last = question.versions or SERVED[question.api_key]
    for version in range(first, last + 1):
        answers = []
        for address in both:
            with Conversation(address) as conversation:
                answers.append(comparable(conversation.ask(question.api_key, version, question.request)))
        ours, kafkas = answers
        assert ours == kafkas, f"version {version}"
