"""Lookups on the leaders: offsets by time, and the end offset of a leader epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from klamm.client.calls import Calls, Deadline, by_topic
from klamm.client.runtime import Core
from klamm.errors import KlammError, UnsupportedVersionError, broker_error
from klamm.net.cluster import Cluster, TopicInfo
from klamm.net.network import Node
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.types import TopicPartition


class FoundOffset(NamedTuple):
    """An offset found by time. -1: no record is that young."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class FoundEpochEnd(NamedTuple):
    """The end offset of a leader epoch in the present leader's log; -1: unknown."""

    leader_epoch: int
    end_offset: int


NOT_FOUND = FoundOffset(-1, -1, -1)


def by_leader(
    core: Core, partitions: Mapping[TopicPartition, int]
) -> tuple[dict[int, dict[TopicPartition, int]], list[TopicPartition]]:
    """The partitions by leader, and those without a leader.

    Those of a topic that is not known yet are in neither: its metadata is on the way.
    """
    led: dict[int, dict[TopicPartition, int]] = {}
    lost: list[TopicPartition] = []
    cluster = core.metadata.cluster
    for partition, value in partitions.items():
        info = cluster.partition(partition)
        if info is None or info.leader_id not in cluster.brokers:
            if partition.topic in cluster.topics:
                lost.append(partition)
        else:
            led.setdefault(info.leader_id, {})[partition] = value
    if lost:
        core.metadata.request_update()
    return led, lost


def list_offsets(
    core: Core, node_id: int, timestamps: Mapping[TopicPartition, int], *, is_read_committed: bool
) -> Promise[dict[TopicPartition, FoundOffset | KlammError]]:
    """Send one request to one leader."""
    return core.tasks.spawn(_list_offsets(core, node_id, timestamps, is_read_committed))


async def _list_offsets(
    core: Core, node_id: int, timestamps: Mapping[TopicPartition, int], is_read_committed: bool
) -> dict[TopicPartition, FoundOffset | KlammError]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(is_read_committed),
        topics=[
            ListOffsetsTopic(
                topic,
                [
                    ListOffsetsPartition(
                        number,
                        _epoch(core, TopicPartition(topic, number)),
                        timestamps[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(timestamps).items()
        ],
        timeout_ms=core.network.config.request_timeout_ms,
    )
    results: dict[TopicPartition, FoundOffset | KlammError] = {}
    try:
        response: ListOffsetsResponse = await core.tasks.request(
            Node("broker", node_id), ApiKey.LIST_OFFSETS, request
        )
    except KlammError as error:
        return dict.fromkeys(timestamps, error)
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.name, item.partition_index)
            if item.error_code == ErrorCode.none:
                results[partition] = FoundOffset(item.offset, item.timestamp, item.leader_epoch)
            elif item.error_code == ErrorCode.unsupported_for_message_format:
                results[partition] = NOT_FOUND
            else:
                results[partition] = broker_error(item.error_code, f"looking up offsets of {partition}")
    missing = broker_error(ErrorCode.unknown_server_error, "the response lacks a requested partition")
    return {partition: results.get(partition, missing) for partition in timestamps}


def _epoch(core: Core, partition: TopicPartition) -> int:
    info = core.metadata.cluster.partition(partition)
    return info.leader_epoch if info else -1


def epoch_ends(
    core: Core, node_id: int, epochs: Mapping[TopicPartition, int]
) -> Promise[dict[TopicPartition, FoundEpochEnd | KlammError]]:
    """Fetch the end offsets of leader epochs from one leader."""
    return core.tasks.spawn(_epoch_ends(core, node_id, epochs))


async def _epoch_ends(
    core: Core, node_id: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FoundEpochEnd | KlammError]:
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic,
                [
                    OffsetForLeaderPartition(
                        number,
                        _epoch(core, TopicPartition(topic, number)),
                        epochs[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(epochs).items()
        ],
    )
    try:
        response: OffsetForLeaderEpochResponse = await core.tasks.request(
            Node("broker", node_id), ApiKey.OFFSET_FOR_LEADER_EPOCH, request
        )
    except UnsupportedVersionError:
        # The broker is too old to report it: keep the position, as clients of its time did.
        return {partition: FoundEpochEnd(epoch, 2**63 - 1) for partition, epoch in epochs.items()}
    except KlammError as error:
        return dict.fromkeys(epochs, error)
    results: dict[TopicPartition, FoundEpochEnd | KlammError] = {}
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.topic, item.partition)
            if item.error_code:
                results[partition] = broker_error(item.error_code, f"validating the position in {partition}")
            else:
                results[partition] = FoundEpochEnd(item.leader_epoch, item.end_offset)
    missing = broker_error(ErrorCode.unknown_server_error, "the response lacks a requested partition")
    return {partition: results.get(partition, missing) for partition in epochs}


async def find_offsets(
    calls: Calls, timestamps: Mapping[TopicPartition, int], deadline: Deadline, *, is_read_committed: bool
) -> dict[TopicPartition, FoundOffset]:
    """Retry until every partition has a result; raises errors that are not retriable."""
    core = calls.core
    topics = {partition.topic for partition in timestamps}
    core.metadata.want(topics)
    if topics - core.metadata.cluster.topics.keys():
        await calls.refresh(deadline)  # not a failure that is worth a pause
    found: dict[TopicPartition, FoundOffset] = {}
    left = dict(timestamps)
    while left:
        led, _ = by_leader(core, left)
        failure: KlammError | None = None
        lost = sorted(left.keys() - {partition for asked in led.values() for partition in asked})
        if lost:
            failure = broker_error(ErrorCode.leader_not_available, ", ".join(map(str, lost)))
        asked = [list_offsets(core, *item, is_read_committed=is_read_committed) for item in led.items()]
        for promise in asked:
            for partition, result in (await promise).items():
                if isinstance(result, KlammError):
                    failure = result
                    if not result.retriable:
                        raise result
                else:
                    found[partition] = result
                    del left[partition]
        if failure is not None:
            core.metadata.request_update()
            await deadline.pause(failure)
    return found


async def all_topics(calls: Calls, names: Sequence[str] | None, deadline: Deadline) -> dict[str, TopicInfo]:
    """Topics as any broker lists them now, all of them or some; none is created."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response: MetadataResponse = await calls.to_any(ApiKey.METADATA, request, deadline)
    return dict(Cluster().updated(response, is_complete=True).topics)


async def partition_numbers(calls: Calls, topic: str, deadline: Deadline) -> list[int]:
    """The partitions of a topic, from fresh metadata; none when it does not exist."""
    metadata = calls.core.metadata
    metadata.want([topic])
    if topic not in metadata.cluster.topics:
        await calls.refresh(deadline)
    await calls.cluster_known(deadline)
    code = metadata.cluster.errors.get(topic, ErrorCode.none)
    if code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available):
        raise broker_error(code, f"topic {topic}")
    found = metadata.cluster.topics.get(topic)
    return sorted(found.partitions) if found else []
