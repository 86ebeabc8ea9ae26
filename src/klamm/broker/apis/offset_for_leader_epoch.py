"""OffsetForLeaderEpoch: the end offset of a leader epoch, with which clients detect truncation."""

from __future__ import annotations

from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.partitions.fetch_read import epoch_error
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from klamm.storage.log import LogError


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> HandlerResult[OffsetForLeaderEpochResponse]:
    """One lookup per partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_look_up(services, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _look_up(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if services.image.partition(topic, asked.partition) is None:
        return _refused(asked, ErrorCode.unknown_topic_or_partition)
    partition = services.partitions.get(topic, asked.partition)
    if partition is None:
        return _refused(asked, ErrorCode.not_leader_or_follower)
    try:
        lookups = partition.lookups
        error_code = epoch_error(partition, asked.current_leader_epoch)
        if error_code is not ErrorCode.none:
            return _refused(asked, error_code)
        end = lookups.end_of_epoch(asked.leader_epoch)
    except LogError as error:
        return _refused(asked, error.error_code)
    return EpochEndOffset(0, asked.partition, end.leader_epoch, end.end_offset)


def _refused(asked: OffsetForLeaderPartition, error_code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(int(error_code), asked.partition)
