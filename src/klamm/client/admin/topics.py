"""Topics, partitions and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from klamm.client.admin.model import (
    BrokerDescription,
    ClusterDescription,
    CreatedTopic,
    LogDirDescription,
    PartitionDescription,
    ProducerDescription,
    TopicDescription,
)
from klamm.client.admin.results import Results
from klamm.client.calls import Calls, Deadline, by_topic
from klamm.errors import KlammError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from klamm.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from klamm.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from klamm.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from klamm.protocol.types import TopicPartition


async def create_topics(
    calls: Calls, topics: Sequence[CreatableTopic], *, validate_only: bool, timeout_ms: int | None
) -> Results[str, CreatedTopic]:
    deadline = calls.deadline("creating topics", timeout_ms)
    request = CreateTopicsRequest(
        topics=topics,
        timeout_ms=deadline.remaining_ms(),
        validate_only=validate_only,
    )
    response: CreateTopicsResponse = await calls.to_controller(
        ApiKey.CREATE_TOPICS, request, deadline, lambda answer: [item.error_code for item in answer.topics]
    )
    results: dict[str, CreatedTopic | KlammError] = {}
    for item in response.topics:
        if item.error_code:
            results[item.name] = broker_error(item.error_code, f"topic {item.name}", item.error_message)
        else:
            results[item.name] = CreatedTopic(
                item.name, item.topic_id, item.num_partitions, item.replication_factor
            )
    return Results(results)


async def delete_topics(calls: Calls, names: Sequence[str], *, timeout_ms: int | None) -> Results[str, None]:
    deadline = calls.deadline("deleting topics", timeout_ms)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=deadline.remaining_ms(),
    )
    response: DeleteTopicsResponse = await calls.to_controller(
        ApiKey.DELETE_TOPICS,
        request,
        deadline,
        lambda answer: [item.error_code for item in answer.responses],
    )
    return Results(
        {
            item.name or "": broker_error(item.error_code, f"topic {item.name}", item.error_message)
            if item.error_code
            else None
            for item in response.responses
        }
    )


async def create_partitions(
    calls: Calls,
    totals: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]],
    validate_only: bool,
    timeout_ms: int | None,
) -> Results[str, None]:
    deadline = calls.deadline("creating partitions", timeout_ms)
    topics = [
        CreatePartitionsTopic(
            name,
            total,
            [CreatePartitionsAssignment(list(brokers)) for brokers in assignments[name]]
            if name in assignments
            else None,
        )
        for name, total in totals.items()
    ]
    request = CreatePartitionsRequest(topics, deadline.remaining_ms(), validate_only)
    response: CreatePartitionsResponse = await calls.to_controller(
        ApiKey.CREATE_PARTITIONS,
        request,
        deadline,
        lambda answer: [item.error_code for item in answer.results],
    )
    return Results(
        {
            item.name: broker_error(item.error_code, f"topic {item.name}", item.error_message)
            if item.error_code
            else None
            for item in response.results
        }
    )


async def describe_topics(
    calls: Calls, names: Sequence[str] | None, *, timeout_ms: int | None
) -> Results[str, TopicDescription]:
    """Describe these topics, or all; never creates a topic."""
    deadline = calls.deadline("describing topics", timeout_ms)
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response: MetadataResponse = await calls.to_any(ApiKey.METADATA, request, deadline)
    results: dict[str, TopicDescription | KlammError] = {}
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code:
            results[name] = broker_error(topic.error_code, f"topic {name}")
        else:
            results[name] = _description(topic)
    return Results(results)


async def list_topics(calls: Calls, *, internal: bool, timeout_ms: int | None) -> list[str]:
    """The names of all topics."""
    deadline = calls.deadline("listing topics", timeout_ms)
    response: MetadataResponse = await calls.to_any(
        ApiKey.METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False), deadline
    )
    return sorted(topic.name or "" for topic in response.topics if internal or not topic.is_internal)


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = (
        PartitionDescription(
            item.partition_index,
            item.leader_id,
            item.leader_epoch,
            tuple(item.replica_nodes),
            tuple(item.isr_nodes),
        )
        for item in sorted(topic.partitions, key=lambda item: item.partition_index)
    )
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, tuple(partitions))


async def wait_for_topics(calls: Calls, names: Sequence[str], *, timeout_ms: int | None) -> None:
    """Return when each topic is there and every partition has a leader."""
    deadline = calls.deadline(f"waiting for {', '.join(names)}", timeout_ms)
    while True:
        found = await describe_topics(calls, names, timeout_ms=deadline.remaining_ms())
        missing: KlammError | None = None
        for name in names:
            topic = found.successes.get(name)
            if name in found.errors:
                missing = found.errors[name]
            elif topic is None or any(item.leader_id < 0 for item in topic.partitions):
                missing = broker_error(ErrorCode.leader_not_available, f"topic {name}")
        if missing is None:
            return
        await deadline.pause(missing)


async def delete_records(
    calls: Calls, before: Mapping[TopicPartition, int], *, timeout_ms: int | None
) -> Results[TopicPartition, int]:
    """Delete the records before an offset (-1: the end of the log); returns the new log start offsets."""
    deadline = calls.deadline("deleting records", timeout_ms)
    led, failed = await calls.leaders_of(list(before), deadline)
    results: dict[TopicPartition, int | KlammError] = {**failed}
    for broker_id, partitions in led.items():
        topics = [
            DeleteRecordsTopic(
                name,
                [DeleteRecordsPartition(number, before[TopicPartition(name, number)]) for number in numbers],
            )
            for name, numbers in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics, deadline.remaining_ms())
        response: DeleteRecordsResponse = await calls.to_broker(
            broker_id, ApiKey.DELETE_RECORDS, request, deadline
        )
        for topic in response.topics:
            for item in topic.partitions:
                key = TopicPartition(topic.name, item.partition_index)
                results[key] = (
                    broker_error(item.error_code, str(key)) if item.error_code else item.low_watermark
                )
    return Results(results)


async def describe_cluster(
    calls: Calls, *, include_fenced_brokers: bool = False, timeout_ms: int | None
) -> ClusterDescription:
    deadline = calls.deadline("describing the cluster", timeout_ms)
    if include_fenced_brokers:
        return await _with_fenced_brokers(calls, deadline)
    # Every broker supports Metadata, which has all of it; DescribeCluster exists since Kafka 2.8.
    response: MetadataResponse = await calls.to_any(ApiKey.METADATA, MetadataRequest(topics=()), deadline)
    brokers = tuple(
        BrokerDescription(item.node_id, item.host, item.port, item.rack)
        for item in sorted(response.brokers, key=lambda item: item.node_id)
    )
    return ClusterDescription(response.cluster_id or "", response.controller_id, brokers)


async def _with_fenced_brokers(calls: Calls, deadline: Deadline) -> ClusterDescription:
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response: DescribeClusterResponse = await calls.to_any(ApiKey.DESCRIBE_CLUSTER, request, deadline)
    if response.error_code:
        raise broker_error(response.error_code, "describing the cluster", response.error_message)
    brokers = tuple(
        BrokerDescription(item.broker_id, item.host, item.port, item.rack, item.is_fenced)
        for item in sorted(response.brokers, key=lambda item: item.broker_id)
    )
    return ClusterDescription(response.cluster_id, response.controller_id, brokers)


async def describe_log_dirs(
    calls: Calls, partitions: Iterable[TopicPartition] | None, *, timeout_ms: int | None
) -> list[LogDirDescription]:
    """Every log directory of every broker; of all partitions, or of these."""
    deadline = calls.deadline("describing log directories", timeout_ms)
    await calls.cluster_known(deadline)
    topics = None
    if partitions is not None:
        topics = [DescribableLogDirTopic(name, numbers) for name, numbers in by_topic(partitions).items()]
    found = []
    for broker_id in sorted(calls.core.metadata.cluster.brokers):
        response: DescribeLogDirsResponse = await calls.to_broker(
            broker_id, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics), deadline
        )
        if response.error_code:
            raise broker_error(response.error_code, f"log directories of broker {broker_id}")
        for item in response.results:
            sizes = {
                TopicPartition(topic.name, partition.partition_index): partition.partition_size
                for topic in item.topics
                for partition in topic.partitions
            }
            error = broker_error(item.error_code, item.log_dir) if item.error_code else None
            found.append(
                LogDirDescription(broker_id, item.log_dir, error, item.total_bytes, item.usable_bytes, sizes)
            )
    return found


async def describe_producers(
    calls: Calls, partitions: Sequence[TopicPartition], *, timeout_ms: int | None
) -> Results[TopicPartition, list[ProducerDescription]]:
    """The active producers of each partition."""
    deadline = calls.deadline("describing producers", timeout_ms)
    led, failed = await calls.leaders_of(partitions, deadline)
    results: dict[TopicPartition, list[ProducerDescription] | KlammError] = {**failed}
    for broker_id, owned in led.items():
        request = DescribeProducersRequest(
            [TopicRequest(name, numbers) for name, numbers in by_topic(owned).items()]
        )
        response: DescribeProducersResponse = await calls.to_broker(
            broker_id, ApiKey.DESCRIBE_PRODUCERS, request, deadline
        )
        for topic in response.topics:
            for item in topic.partitions:
                key = TopicPartition(topic.name, item.partition_index)
                if item.error_code:
                    results[key] = broker_error(item.error_code, str(key), item.error_message)
                    continue
                results[key] = [
                    ProducerDescription(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.current_txn_start_offset,
                        producer.coordinator_epoch,
                    )
                    for producer in item.active_producers
                ]
    return Results(results)
