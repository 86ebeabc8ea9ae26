"""Reading for Fetch: what each partition has, whether that is enough, and waiting until it is."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.net.backlog import READ_AT_ONCE_BYTES
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.fetch_sessions import FetchTarget
from klamm.broker.partitions.partition_wait import FutureWait
from klamm.broker.partitions.registry import Partition, PartitionRegistry
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, FetchResponse, PartitionData
from klamm.protocol.types import Buffer
from klamm.records.batch import iter_headers
from klamm.storage.log import EpochEnd, LogError, LogSlice, MustLoadError, PartitionLog, Work

ISOLATION_LEVELS: Final = (0, 1)  # read_uncommitted, read_committed
_MANY_ABORTED: Final = 16
_MUCH_BYTES: Final = 1024 * 1024
ReadResult = list[tuple[FetchTarget, PartitionData]]


@dataclass(slots=True)
class Limits:
    """How much is read, and up to which offset. Not frozen: that doubles what making one costs."""

    max_bytes: int  # below 0: an error of the first partition that has something to read
    min_bytes: int
    read_committed: bool

    def upper_offset(self, log: PartitionLog) -> int:
        """Where reading ends."""
        return log.last_stable_offset if self.read_committed else log.high_watermark


@dataclass(slots=True)
class FetchSource:
    """A target and its partition, or the error when there is none."""

    target: FetchTarget
    partition: Partition | None
    error_code: ErrorCode = ErrorCode.none
    ends_wait: bool = False  # the error comes from reading, not from finding the topic
    is_for_replica: bool = False  # the request says that it comes from a broker

    @property
    def is_read(self) -> bool:
        """Whether the topic and the partition exist."""
        return self.partition is not None or self.ends_wait


def find_source(
    image: ClusterImage, partitions: PartitionRegistry, target: FetchTarget, uses_topic_ids: bool
) -> FetchSource:
    """Find the partition of a target."""
    name = target.topic
    if uses_topic_ids:
        state = image.topic_by_id(target.topic_id)
        if state is not None:
            target.found_as = state.name
        elif not target.found_as:
            return FetchSource(target, None, ErrorCode.unknown_topic_id)
        name = target.found_as
    partition = partitions.get(name, target.partition)
    if partition is not None:
        if uses_topic_ids and partition.topic_id != target.topic_id:
            return FetchSource(target, None, ErrorCode.inconsistent_topic_id, ends_wait=True)
        return FetchSource(target, partition)
    if image.partition(name, target.partition) is None:
        return FetchSource(target, None, ErrorCode.unknown_topic_or_partition)
    return FetchSource(target, None, ErrorCode.not_leader_or_follower, ends_wait=True)


def in_response_order(sources: list[FetchSource]) -> list[FetchSource]:
    """The sources in Kafka's order: those that are read, then unknown topic ids, then other unknown ones.

    For a broker, Kafka looks for both kinds of unknown ones at once.
    """
    for source in sources:
        if source.partition is None and not source.ends_wait:
            return sorted(sources, key=_response_order)
    return sources


def _response_order(source: FetchSource) -> int:
    if source.is_read:
        return 0
    return 1 if source.is_for_replica or source.error_code is ErrorCode.unknown_topic_id else 2


def reading_error(source: FetchSource) -> ErrorCode:
    """Why a partition cannot be read at the target's leader epoch."""
    partition, asked_epoch = source.partition, source.target.current_leader_epoch
    if partition is None:
        return source.error_code
    if partition.error_code is not NO_ERROR:
        # The leadership moved while the request waited: an epoch that was right is now an older one.
        was_right = partition.error_code is ErrorCode.not_leader_or_follower and asked_epoch >= 0
        return ErrorCode.fenced_leader_epoch if was_right else partition.error_code
    # In a Fetch any negative epoch means none; in offset lookups only -1 does.
    error_code = epoch_error(partition, max(-1, asked_epoch))
    if source.is_for_replica and error_code is NO_ERROR:
        # Brokers do not replicate from each other: Kafka's errors for a broker that has no replica.
        return ErrorCode.unknown_leader_epoch if asked_epoch >= 0 else ErrorCode.not_leader_or_follower
    return error_code


def epoch_error(partition: Partition, asked_epoch: int) -> ErrorCode:
    """The error for a client whose leader epoch is older or newer than ours; -1 is not checked."""
    if asked_epoch in (-1, partition.leader_epoch):
        return NO_ERROR
    is_old = asked_epoch < partition.leader_epoch
    return ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch


def divergence(partition: Partition, target: FetchTarget) -> EpochEnd | None:
    """Where the client's log diverged from this one, if it did. Raises LogError if that is unknown."""
    if target.last_fetched_epoch < 0:
        return None
    end = partition.lookups.end_of_epoch(target.last_fetched_epoch)
    if end.end_offset < 0 or end.leader_epoch < 0:
        raise LogError(ErrorCode.offset_out_of_range, "the last fetched epoch is unknown to this log")
    if end.leader_epoch < target.last_fetched_epoch or end.end_offset < target.fetch_offset:
        return end
    return None


def has_enough(sources: Sequence[FetchSource], limits: Limits, *, is_new: bool) -> bool:
    """Whether to respond now: there are enough bytes, or an error, or waiting would not change anything.

    The first batch is sent whole, also if its partition's limit is below its size. It counts so only for a
    new request: one that comes while the request waits counts up to the limit, as in Kafka.
    """
    available_bytes = 0
    is_first = is_new
    min_bytes = limits.min_bytes
    for source in sources:
        partition, target = source.partition, source.target
        if partition is None:
            if source.ends_wait:
                return True
            continue
        if reading_error(source) is not NO_ERROR:
            return True
        log = partition.log
        offset, upper_offset = target.fetch_offset, limits.upper_offset(log)
        if offset == upper_offset and target.last_fetched_epoch < 0:
            continue
        if offset < log.log_start_offset or offset > log.log_end_offset:
            return True
        try:
            if divergence(partition, target) is not None:
                return True
        except LogError:
            return True
        if offset >= upper_offset:
            continue
        wanted_bytes = target.max_bytes
        if (
            wanted_bytes < 0  # an error
            or available_bytes + (wanted_bytes > 0) >= min_bytes
            or not log.in_active_segment(offset)
        ):
            return True
        limit_bytes = max(wanted_bytes, min_bytes) if is_first else wanted_bytes
        readable_bytes = log.readable_bytes(offset, upper_offset, limit_bytes)
        if is_first and readable_bytes > wanted_bytes:
            try:
                readable_bytes = wanted_bytes = _whole_bytes(log, offset, upper_offset, wanted_bytes)
            except (LogError, MustLoadError):
                return True  # the read that follows answers with the error, or loads it
        if readable_bytes:
            is_first = False
        available_bytes += min(readable_bytes, wanted_bytes)
        if available_bytes >= min_bytes:
            return True
    return False


def _whole_bytes(log: PartitionLog, offset: int, upper_offset: int, max_bytes: int) -> int:
    """The size of the whole batches that are read up to a limit: at least of one. Reads none of them."""
    found = log.slice(offset, until_offset=upper_offset, max_bytes=max_bytes, at_least_one=True)
    if not isinstance(found, bytes):
        found.close()
    return len(found)


def read_all(sources: Sequence[FetchSource], limits: Limits) -> ReadResult:
    """Read the sources in order, within the limits. Raises MustLoadError for all that have to load."""
    left_bytes = limits.max_bytes
    read_at_once_bytes = READ_AT_ONCE_BYTES
    at_least_one = True
    result: ReadResult = []
    missing: list[Work] = []
    for source in sources:
        partition = source.partition
        try:
            data = _read(source, limits, left_bytes, at_least_one, read_at_once_bytes)
        except MustLoadError as error:
            missing.append(error.load)
            continue
        except Exception:
            if partition is not None:
                partition.counters.failed_fetch_requests += 1
            raise
        records = data.records
        size_bytes = len(records) if records is not None else 0
        if partition is not None:
            counters = partition.counters
            counters.total_fetch_requests += 1
            counters.bytes_out += size_bytes
        if partition is not None:
            left_bytes = max(0, left_bytes - _used_bytes(source, limits, left_bytes, size_bytes))
        if size_bytes:
            at_least_one = False
            if type(records) is bytes:
                read_at_once_bytes -= size_bytes
        result.append((source.target, data))
    if missing:
        raise MustLoadError(lambda: _run_all(missing))
    return result


def _used_bytes(source: FetchSource, limits: Limits, left_bytes: int, size_bytes: int) -> int:
    """How much of a request's limit a partition has used: with what is left of it, if that is not much.

    Kafka reads up to the limit, and may cut the last batch. What is left for other partitions then is less
    than the whole batches that are sent here would leave.
    """
    max_bytes = min(source.target.max_bytes, left_bytes)
    if not size_bytes or size_bytes >= max_bytes or left_bytes - max_bytes >= _MUCH_BYTES:
        return size_bytes
    assert source.partition is not None
    try:
        log = source.partition.log
        return max(
            size_bytes,
            log.readable_bytes(source.target.fetch_offset, limits.upper_offset(log), max_bytes),
        )
    except LogError:
        return size_bytes


def _run_all(missing: Sequence[Work]) -> None:
    for load in missing:
        load()


def _read(
    source: FetchSource, limits: Limits, left_bytes: int, at_least_one: bool, read_at_once_bytes: int
) -> PartitionData:
    target = source.target
    error_code = reading_error(source)
    if error_code is not NO_ERROR:
        data = _error(target, error_code)
        if source.partition is None and not source.ends_wait:
            data.aborted_transactions = []  # as in Kafka, where nothing was read
        return data
    assert source.partition is not None
    log = source.partition.log
    upper_offset = limits.upper_offset(log)
    records: Buffer = b""
    aborted: list[AbortedTransaction] | None = []
    diverging: EpochEndOffset | None = None
    try:
        end = divergence(source.partition, target)
        if end is not None:
            diverging = EpochEndOffset(end.leader_epoch, end.end_offset)
        elif not log.log_start_offset <= target.fetch_offset <= log.log_end_offset:
            return _error(target, ErrorCode.offset_out_of_range)
        elif target.fetch_offset < upper_offset:
            max_bytes = min(target.max_bytes, left_bytes)
            if max_bytes < 0:
                return _error(target, ErrorCode.unknown_server_error)
            found = log.slice(
                target.fetch_offset,
                until_offset=upper_offset,
                max_bytes=max_bytes,
                at_least_one=at_least_one,
                small_bytes=read_at_once_bytes,
            )
            if limits.read_committed:
                # As in Kafka, where a batch that did not fit is taken back, with what was found about it.
                is_cut = not found and max_bytes > 0
                aborted = None if is_cut else _aborted(source.partition, target.fetch_offset, found)
            # The encoder needs only the length of a slice; the connection reads it when it sends it.
            records = cast("Buffer", found)
    except LogError as error:
        source.partition.note(error)
        return _error(target, error.error_code)
    return PartitionData(
        target.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        diverging,
        None,  # the current leader, which only errors name
        None,  # a snapshot
        aborted if limits.read_committed and diverging is None else None,
        -1,  # a preferred replica
        records,
    )


def _error(target: FetchTarget, error_code: ErrorCode) -> PartitionData:
    return PartitionData(target.partition, int(error_code), -1, aborted_transactions=None, records=b"")


def _aborted(partition: Partition, fetch_offset: int, records: LogSlice | bytes) -> list[AbortedTransaction]:
    # For a short log Kafka includes those above the last stable offset. Clients ignore what they do not read.
    aborted = partition.transactions.aborted_transactions(fetch_offset, partition.log.log_end_offset)
    if len(aborted) > _MANY_ABORTED:
        # Those above the records of this response are sent with a later one.
        if isinstance(records, bytes):
            end_offset = max(
                (header.next_offset for _, header in iter_headers(records)), default=fetch_offset
            )
        else:
            end_offset = records.end_offset()
        aborted = [each for each in aborted if each.first_offset < end_offset]
    return [AbortedTransaction(each.producer_id, each.first_offset) for each in aborted]


class FetchWait(FutureWait[FetchResponse]):
    """A parked Fetch: answered when there are enough bytes to read, or with what there is when it is late."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        deadlines: Deadlines,
        sources: Sequence[FetchSource],
        limits: Limits,
        max_wait_ms: int,
        answer: Callable[[], FetchResponse | Awaitable[FetchResponse]],
    ) -> None:
        self._sources = sources
        self._limits = limits
        self._answer = answer
        partitions = [source.partition for source in sources if source.partition is not None]
        super().__init__(loop, deadlines, partitions, max_wait_ms)

    def is_over(self) -> bool:
        return has_enough(self._sources, self._limits, is_new=False)

    def result(self) -> FetchResponse | Awaitable[FetchResponse]:
        return self._answer()
