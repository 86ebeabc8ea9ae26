"""Asking the leaders where things are: offsets by time, and where an epoch ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.client.calls import Calls, Deadline, by_topic
from klamm.client.runtime import Core
from klamm.errors import KlammError, UnsupportedVersionError, broker_error
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


class EpochEnd(NamedTuple):
    """Where a leader's epoch ended, as the present leader remembers. -1: it does not."""

    leader_epoch: int
    end_offset: int


NOT_FOUND = FoundOffset(-1, -1, -1)


def by_leader(
    core: Core, partitions: Mapping[TopicPartition, int]
) -> tuple[dict[int, dict[TopicPartition, int]], list[TopicPartition]]:
    """What to ask whom, and the partitions that have no leader now.

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
    """Ask one leader once."""
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
    missing = broker_error(ErrorCode.unknown_server_error, "an answer without the partition asked for")
    return {partition: results.get(partition, missing) for partition in timestamps}


def _epoch(core: Core, partition: TopicPartition) -> int:
    info = core.metadata.cluster.partition(partition)
    return info.leader_epoch if info else -1


def epoch_ends(
    core: Core, node_id: int, epochs: Mapping[TopicPartition, int]
) -> Promise[dict[TopicPartition, EpochEnd | KlammError]]:
    """Ask one leader where these epochs ended in its logs."""
    return core.tasks.spawn(_epoch_ends(core, node_id, epochs))


async def _epoch_ends(
    core: Core, node_id: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd | KlammError]:
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
        # A broker that old cannot tell; believing the position is what it always did.
        return {partition: EpochEnd(epoch, 2**63 - 1) for partition, epoch in epochs.items()}
    except KlammError as error:
        return dict.fromkeys(epochs, error)
    results: dict[TopicPartition, EpochEnd | KlammError] = {}
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.topic, item.partition)
            if item.error_code:
                results[partition] = broker_error(item.error_code, f"validating the position in {partition}")
            else:
                results[partition] = EpochEnd(item.leader_epoch, item.end_offset)
    missing = broker_error(ErrorCode.unknown_server_error, "an answer without the partition asked for")
    return {partition: results.get(partition, missing) for partition in epochs}


async def find_offsets(
    calls: Calls, timestamps: Mapping[TopicPartition, int], deadline: Deadline, *, is_read_committed: bool
) -> dict[TopicPartition, FoundOffset]:
    """Ask until every partition has its answer; what cannot be answered raises."""
    core = calls.core
    core.metadata.want({partition.topic for partition in timestamps})
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


async def partition_numbers(calls: Calls, topic: str, deadline: Deadline) -> list[int]:
    """The partitions of a topic, freshly asked; none when it does not exist."""
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
