"""DeleteRecords: raise the log start offset, durably; it is never lowered.

Segments that have no other records are deleted before the answer, not by the next run of retention: the disk
may be full.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from klamm.broker.cluster.topic_names import is_internal
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.partitions.flush_wait import FlushWait, PendingFlush, pending_flushes
from klamm.broker.partitions.loading import when_loaded
from klamm.broker.partitions.registry import Partition
from klamm.broker.services import Services
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from klamm.storage.log import LogError

TO_HIGH_WATERMARK: Final = -1

_log = logging.getLogger(__name__)


def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> HandlerResult[DeleteRecordsResponse]:
    """Decide for each partition, then write the log starts of all of them."""
    pending = pending_flushes(
        services.partitions.get(topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    if pending and request.timeout_ms > 0:
        return _after_flush(services, request, pending)
    return _saved(services, _decide(services, request))


async def _after_flush(
    services: Services, request: DeleteRecordsRequest, pending: Sequence[PendingFlush]
) -> DeleteRecordsResponse:
    """Records that were acknowledged before the request can be deleted, also if they are not durable yet."""
    await FlushWait(services.loop, services.deadlines, pending, request.timeout_ms).future
    return await _saved(services, _decide(services, request))


def _decide(services: Services, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    # A partition that is named twice is answered once; the last offset counts.
    named: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            named.setdefault(topic.name, {})[asked.partition_index] = asked
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name, [_delete(services, name, asked) for asked in partitions.values()])
            for name, partitions in named.items()
        ]
    )


async def _saved(services: Services, response: DeleteRecordsResponse) -> DeleteRecordsResponse:
    # Also where no start was raised: an earlier request may have raised it and failed to write it.
    done = [
        (each, services.partitions.get(topic.name, each.partition_index))
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    ]
    if done:
        try:
            await services.run_blocking(services.logs.start_saving_log_starts())
        except LogError as error:
            _log.error("writing the log start offset checkpoint failed: %s", error)
            for each, _ in done:
                each.error_code, each.low_watermark = int(error.error_code), -1
            return response
        for each, partition in done:
            error_code = ErrorCode.not_leader_or_follower if partition is None else partition.error_code
            if partition is not None and error_code is NO_ERROR:
                await _free(services, partition)
            else:  # of a log that was let go meanwhile nothing is written
                each.error_code, each.low_watermark = int(error_code), -1
    return response


async def _free(services: Services, partition: Partition) -> None:
    """Delete the segments below the log start. If that fails, retention tries again."""
    clock = services.clock
    try:
        delete = partition.retention.delete_old_segments
        work = partial(delete, clock.now_ms(), clock.timestamp_ms(), only_below_start=True)
        await when_loaded(services.run_blocking, work)
    except (LogError, OSError) as error:
        _log.warning("%s: deleting segments below the log start failed: %s", partition.name, error)


def _delete(services: Services, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    if services.image.partition(topic, asked.partition_index) is None:
        return _refused(asked, ErrorCode.unknown_topic_or_partition)
    if is_internal(topic):
        return _refused(asked, ErrorCode.invalid_topic_exception)
    partition = services.partitions.get(topic, asked.partition_index)
    if partition is None:
        return _refused(asked, ErrorCode.not_leader_or_follower)
    try:
        log = partition.log
        # A topic without any cleanup policy keeps its records, but they may be deleted explicitly.
        if log.config.cleanup_policy and not log.config.deletes_old_segments:
            return _refused(asked, ErrorCode.policy_violation)
        wanted = log.high_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
        if not 0 <= wanted <= log.high_watermark:
            return _refused(asked, ErrorCode.offset_out_of_range)
        start = partition.retention.delete_records(wanted)
    except LogError as error:
        return _refused(asked, error.error_code)
    return DeleteRecordsPartitionResult(asked.partition_index, start, 0)


def _refused(asked: DeleteRecordsPartition, error_code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(asked.partition_index, -1, int(error_code))
