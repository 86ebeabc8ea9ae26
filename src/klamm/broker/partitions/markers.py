"""Transaction markers: control batches that end a producer's transaction in the partitions led here.

The transaction coordinator of this broker calls `MarkerWriter` directly, those of other brokers and
administrators send WriteTxnMarkers. The `MarkerTarget` depends on the leader: `MarkerWriter`
for partitions led here, a connection for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.flusher import Flusher
from klamm.broker.partitions.registry import Partition, PartitionRegistry
from klamm.clock import Clock
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.batch import set_append_time
from klamm.records.markers import ControlType, encode_marker
from klamm.storage.log import AppendOrigin, LogError

# An enum's member is looked up slowly.
_ABORT: Final = ControlType.ABORT
_COMMIT: Final = ControlType.COMMIT
_OF_COORDINATOR: Final = AppendOrigin.COORDINATOR

NO_PRODUCER: Final = -1  # as id and as epoch
MarkerResults: TypeAlias = Mapping[TopicPartition, ErrorCode]


class TransactionMarker:
    """How one producer's transaction ended, according to a coordinator at an epoch."""

    __slots__ = (
        "bumps_epoch", "coordinator_epoch", "is_commit", "is_of_unknown_version", "producer_epoch",
        "producer_id",
    )  # fmt: skip

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        bumps_epoch: bool = False,  # transaction.version 2: the epoch is higher than that of the records
        is_of_unknown_version: bool = False,  # whether the epoch is higher is unknown
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.is_commit = is_commit
        self.coordinator_epoch = coordinator_epoch
        self.bumps_epoch = bumps_epoch
        self.is_of_unknown_version = is_of_unknown_version

    @property
    def is_of_no_producer(self) -> bool:
        """No control batch can be made of it."""
        return NO_PRODUCER in (self.producer_id, self.producer_epoch)


# Called with each marker as soon as it is in the log, before it is durable.
MarkerListener: TypeAlias = Callable[[Partition, TransactionMarker, int], None]


class MarkerTarget(Protocol):
    """Where markers go: partitions led by this broker, or a connection to another one."""

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> HeldResponse[MarkerResults]: ...


class MarkerWrite(HeldResponse[MarkerResults]):
    """The result of one marker in several partitions; kept when every marker is durable or refused."""

    __slots__ = ("_error_codes", "_pending")

    def __init__(self) -> None:
        super().__init__()
        self._error_codes: dict[TopicPartition, ErrorCode] = {}
        self._pending = 1  # the write itself, until all partitions are appended to

    def hold(self, partition: Partition, last_offset: int) -> None:
        self._pending += 1
        partition.held.append(_HeldMarker(self, partition, last_offset))

    def settle(self, name: TopicPartition, error_code: ErrorCode) -> None:
        self._error_codes[name] = error_code

    def finish_one(self) -> None:
        self._pending -= 1
        if not self._pending:
            self.keep(self._error_codes)


class _HeldMarker:
    """A marker that waits for the high watermark to pass it."""

    __slots__ = ("_name", "_write", "flush_failures", "last_offset")

    def __init__(self, write: MarkerWrite, partition: Partition, last_offset: int) -> None:
        self._write = write
        self._name = partition.name
        self.last_offset = last_offset
        self.flush_failures = partition.flush_failures

    def release(self, error_code: ErrorCode) -> None:
        self._write.settle(self._name, error_code)
        self._write.finish_one()


class MarkerWriter:
    """Writes markers to partitions that this broker leads."""

    def __init__(
        self, image: ClusterImage, partitions: PartitionRegistry, flusher: Flusher, clock: Clock
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self.listeners: dict[str, MarkerListener] = {}  # by topic

    def write(
        self,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        after: Partition | None = None,
    ) -> HeldResponse[MarkerResults]:
        """Append a marker to each partition; the result is an error code for each, once it is durable.

        None of them is durable before everything that the partition `after` has now.
        """
        write = MarkerWrite()
        now_ms, timestamp_ms = self._clock.now_ms(), self._clock.timestamp_ms()
        batch = encode_marker(
            _COMMIT if marker.is_commit else _ABORT,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            timestamp_ms,
        )
        is_refused = marker.is_of_no_producer or marker.is_of_unknown_version
        for name in dict.fromkeys(partitions):
            partition = self._partitions.get(name.topic, name.partition)
            if partition is None:
                write.settle(name, self._absence(name))
                continue
            try:
                if is_refused:
                    write.settle(name, _refusal(partition, marker))
                    continue
                if after is not None:
                    self._flusher.put_after(partition, after)
                last_offset = self._append(partition, marker, batch, now_ms, timestamp_ms)
                is_durable = partition.log.high_watermark > last_offset
            except LogError as error:
                partition.note(error)
                write.settle(name, error.error_code)
                continue
            if is_durable:
                write.settle(name, NO_ERROR)
            else:
                write.hold(partition, last_offset)
        write.finish_one()
        return write

    def _absence(self, name: TopicPartition) -> ErrorCode:
        if self._image.partition(*name) is None:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.not_leader_or_follower

    def _append(
        self, partition: Partition, marker: TransactionMarker, batch: bytes, now_ms: int, timestamp_ms: int
    ) -> int:
        log = partition.log
        stamped: bytes | bytearray = batch
        if log.config.stamps_append_time:
            stamped = bytearray(batch)
            set_append_time(stamped, timestamp_ms)
        # By position: now_ms, timestamp_ms, origin, marker_bumps_epoch, guard, header, write_later, which it
        # may be, as the result waits for the flush.
        last_offset = log.append(
            stamped, now_ms, timestamp_ms, _OF_COORDINATOR, marker.bumps_epoch, None, None, True
        ).last_offset
        if log.sync_is_due(now_ms):
            self._flusher.mark(partition)
        listener = self.listeners.get(partition.topic)
        if listener is not None:
            listener(partition, marker, last_offset)
        return last_offset


def _refusal(partition: Partition, marker: TransactionMarker) -> ErrorCode:
    """What Kafka answers to a marker that it cannot write. Raises LogError."""
    if not marker.is_of_no_producer:
        for known in partition.transactions.producers():
            if known.producer_id == marker.producer_id and marker.producer_epoch < known.producer_epoch:
                return ErrorCode.invalid_producer_epoch
    return ErrorCode.unknown_server_error
