"""ListOffsets: the offset of a timestamp, or of a special one such as latest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Final

from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.net.failures import failure_of
from klamm.broker.partitions.fetch_read import ISOLATION_LEVELS, epoch_error
from klamm.broker.partitions.flush_wait import FLUSH_TIMEOUT_MS, FlushWait, PendingFlush, pending_flushes
from klamm.broker.partitions.loading import now_or_loaded, when_loaded
from klamm.broker.partitions.registry import Partition
from klamm.broker.services import Services
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.storage.log import LogError, LogLookups, TimestampedOffset

CONSUMER: Final = -1  # its replica id
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6  # to tiered storage
# No flush moves these.
_STARTS: Final = frozenset({EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> HandlerResult[ListOffsetsResponse]:
    """One lookup per partition."""
    if request.isolation_level not in ISOLATION_LEVELS:
        failed: ListOffsetsResponse = failure_of(ApiKey.LIST_OFFSETS)(request, ErrorCode.unknown_server_error)
        return failed
    pending = pending_flushes(
        services.partitions.get(topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
        if asked.timestamp not in _STARTS
    )
    if pending:
        return _after_flush(services, request, pending)
    return now_or_loaded(services.run_blocking, lambda: _answer(services, request))


async def _after_flush(
    services: Services, request: ListOffsetsRequest, pending: Sequence[PendingFlush]
) -> ListOffsetsResponse:
    """The response includes what was acknowledged before the request."""
    await FlushWait(services.loop, services.deadlines, pending, FLUSH_TIMEOUT_MS).future
    return await when_loaded(services.run_blocking, lambda: _answer(services, request))


def _answer(services: Services, request: ListOffsetsRequest) -> ListOffsetsResponse:
    times_named = Counter(
        (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
    )
    known = _special_timestamps(request)
    # Kafka heeds the isolation level of consumers only: a debugging client (-2) sees open transactions.
    read_committed = request.isolation_level == 1 and request.replica_id == CONSUMER
    found: dict[str, list[ListOffsetsPartitionResponse]] = {}  # also of a topic that is named twice
    for topic in request.topics:
        for asked in topic.partitions:
            times = times_named[topic.name, asked.partition_index]
            if times == 0:
                continue  # named twice: its error is in the response already
            if times > 1:
                times_named[topic.name, asked.partition_index] = 0
                offset = _refused(asked, ErrorCode.invalid_request)
            elif asked.timestamp < 0 and asked.timestamp not in known:
                offset = _refused(asked, ErrorCode.unsupported_version)
            else:
                offset = _look_up(services, topic.name, asked, read_committed)
            found.setdefault(topic.name, []).append(offset)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name, partitions) for name, partitions in found.items()]
    )


def _special_timestamps(request: ListOffsetsRequest) -> Set[int]:
    """The negative timestamps that this client may use."""
    known = {LATEST, EARLIEST}
    if request.knows_max_timestamp:
        known.add(MAX_TIMESTAMP)
    if request.knows_local_log_start:
        known.add(EARLIEST_LOCAL)
    if request.knows_tiered_offset:
        known.add(LATEST_TIERED)
    if request.knows_pending_upload:
        known.add(EARLIEST_PENDING_UPLOAD)
    return known


def _look_up(
    services: Services, topic: str, asked: ListOffsetsPartition, read_committed: bool
) -> ListOffsetsPartitionResponse:
    if services.image.partition(topic, asked.partition_index) is None:
        return _refused(asked, ErrorCode.unknown_topic_or_partition)
    partition = services.partitions.get(topic, asked.partition_index)
    if partition is None:
        return _refused(asked, ErrorCode.not_leader_or_follower)
    try:
        lookups = partition.lookups
        error_code = epoch_error(partition, asked.current_leader_epoch)
        if error_code is not ErrorCode.none:
            return _refused(asked, error_code)
        found = _offset(partition, lookups, asked.timestamp, read_committed)
    except LogError as error:
        partition.note(error)
        return _refused(asked, error.error_code)
    return ListOffsetsPartitionResponse(
        asked.partition_index, 0, found.timestamp_ms, found.offset, found.leader_epoch
    )


def _offset(
    partition: Partition, lookups: LogLookups, timestamp: int, read_committed: bool
) -> TimestampedOffset:
    log = partition.log
    upper_offset = log.last_stable_offset if read_committed else log.high_watermark
    match timestamp:
        case -1:
            return TimestampedOffset(upper_offset, -1, partition.leader_epoch)
        case -2 | -4:
            return lookups.earliest()
        case -3:
            found = lookups.offset_for_max_timestamp()
        case -5 | -6:  # nothing is, or waits to be, in tiered storage
            return TimestampedOffset()
        case _:
            found = lookups.offset_for_timestamp(timestamp, upper_offset)
    return found if found.offset < upper_offset else TimestampedOffset()


def _refused(asked: ListOffsetsPartition, error_code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(asked.partition_index, int(error_code))
