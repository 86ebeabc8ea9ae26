"""The interfaces of log storage: a store of partition logs, and one partition's log.

All methods are called from the owner's thread (the event loop), except `SyncTicket.run`, which blocks on the
disk and may run anywhere, as may `Work`. Nothing else blocks: what is neither in memory nor
in the page cache raises MustLoadError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.batch import BatchHeader
from klamm.storage.durability import Background, DurableLog, Report, SyncRounds
from klamm.storage.topic_config import TopicConfig


class LogError(Exception):
    """A log rejected a request; `error_code` goes into the response."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class NotContinuedError(Exception):
    """A batch does not continue the transaction that its producer has open, if there is one."""


class AppendOrigin(Enum):
    """The origin of an append, which decides which checks of the producer state apply."""

    CLIENT = "client"  # sequences and epochs
    COORDINATOR = "coordinator"  # epochs only: offset commits and transaction markers


class AppendResult(NamedTuple):
    """The offsets of an appended batch; for a duplicate, those of its original."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1  # -1 on CreateTime topics, unless a duplicate
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction whose records a read_committed reader must drop."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class ProducerStatus:
    """What DescribeProducers returns for one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_start_offset: int  # -1: none open


@dataclass(frozen=True, slots=True)
class TimestampedOffset:
    """The result of a lookup by timestamp; -1, -1, -1 when nothing matches."""

    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where a leader epoch ended in this log; -1, -1 when unknown."""

    leader_epoch: int = -1
    end_offset: int = -1


# Work for a disk. It blocks, runs on any thread, and raises LogError when the disk fails. Two of them may run
# in any order, or at once: older content never replaces newer content.
Work: TypeAlias = Callable[[], None]


class MustLoadError(Exception):
    """What was asked for is not in memory: run `load` off the event loop, then ask again.

    `load` blocks and does not raise: if it fails, asking again raises LogError. `LogStore.open` and all
    methods of a log that read, look up or delete may raise this; appends and flushes do not.
    """

    def __init__(self, load: Work) -> None:
        super().__init__("not in memory")
        self.load = load


class LogSlice(Protocol):
    """Whole batches of a log that are read part by part, when they are needed.

    It stays readable when the log is cleaned, deleted or closed meanwhile. To be closed after use.
    """

    def __len__(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes from a position in the slice; fewer only at its end. Raises LogError."""
        ...

    def place(self) -> tuple[int, int] | None:
        """The open file that has it, and the position in it; None when that is not the system's file."""
        ...

    def end_offset(self) -> int:
        """An offset above all records in it, at most the one up to which was read. Raises LogError."""
        ...

    def close(self) -> None:
        """Release the file; harmless when it is closed."""
        ...


class PartitionLog(Protocol):
    """One partition's log at one leader epoch: appends, reads, and how far each may go."""

    config: TopicConfig  # replaced when the topic's configuration changes; applies from the next call on
    on_change: Callable[[], None]  # called after the high watermark, stable offset or log start moved

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...

    def append(
        self,
        batch: bytes | bytearray | memoryview,
        now_ms: int,
        timestamp_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        marker_bumps_epoch: bool = False,
        guard: int | None = None,
        header: BatchHeader | None = None,
        write_later: bool = False,
        must_continue: bool = False,
    ) -> AppendResult:
        """Append one validated batch, or find that it is a duplicate. `header` saves parsing it again.

        A batch that is not acknowledged before its flush may be written later, where flushes decide what is
        visible: it is then written together with others, and a write error fails the flush.

        Stamps base offset and leader epoch, rolls the segment when due, checks the producer's epoch and
        sequence, keeps indexes and producer state. Raises LogError; then nothing has changed.

        A control batch is written by a coordinator and ends its producer's transaction. Where each end also
        raises the epoch (transaction.version 2), `marker_bumps_epoch` rejects a delayed one.

        A batch that begins a transaction must have the guard of its verification; None disables the check.
        With `must_continue` only the next batch of an open transaction is appended, which needs no guard; for
        others NotContinuedError is raised, and no record was appended.
        """
        ...

    def append_own(self, batch: bytes, now_ms: int) -> int:
        """Append a batch of this broker without a producer, acknowledged after its flush; its first offset.

        As `append` otherwise.
        """
        ...

    def read(self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool) -> bytes:
        """Whole batches from the one that holds `offset`, below `until_offset`, of one segment.

        At most `max_bytes`, except that `at_least_one` lets the first batch through whatever its size.
        Raises LogError(offset_out_of_range) below the log start or above the log end.
        """
        ...

    def slice(
        self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool, small_bytes: int = 0
    ) -> LogSlice | bytes:
        """What `read` returns, to be read later; at once when it is at most `small_bytes`, or nothing.

        Raises LogError as `read` does.
        """
        ...

    def readable_bytes(self, offset: int, until_offset: int, limit_bytes: int) -> int:
        """How many bytes `read` would return (at most about `limit_bytes`), without reading them."""
        ...

    def in_active_segment(self, offset: int) -> bool: ...

    def truncate(self, to_offset: int) -> None:
        """Cut everything at and above an offset and rebuild producer state."""
        ...

    @property
    def is_written(self) -> bool:
        """Whether what is appended survives the end of this process before it is flushed."""
        ...

    def sync_is_due(self, now_ms: int) -> bool:
        """Whether a flush is due: at once in commit mode, else by flush.messages, flush.ms and rolls."""
        ...


class LogTransactions(Protocol):
    """The producers of a log and their transactions."""

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool: ...
    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, begins_at_zero: bool
    ) -> int:
        """A batch would begin a transaction here: the guard to append it with, once that is confirmed.

        The caller returns the guard with `end_verification`. A marker invalidates it. Raises
        LogError(invalid_producer_epoch) if the log has records of a later epoch.
        """
        ...

    def is_verified(self, producer_id: int, guard: int) -> bool: ...
    def end_verification(self, producer_id: int, guard: int) -> None: ...
    def aborted_transactions(self, from_offset: int, until_offset: int) -> Sequence[AbortedTransaction]: ...

    def producers(self) -> Sequence[ProducerStatus]: ...
    def expire_producers(self, timestamp_ms: int, expiration_ms: int) -> int: ...


class LogLookups(Protocol):
    """Offsets of a log by time and by leader epoch."""

    def offset_for_timestamp(self, timestamp_ms: int, until_offset: int) -> TimestampedOffset: ...
    def offset_for_max_timestamp(self) -> TimestampedOffset:
        """The first record with the largest timestamp; -1, of records without one, is the smallest."""
        ...

    def earliest(self) -> TimestampedOffset:
        """The log start with the leader epoch that covers it."""
        ...

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd: ...


class LogRetention(Protocol):
    """How much a log keeps."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def segment_count(self) -> int: ...
    def delete_records(self, before_offset: int) -> int:
        """Raise the log start (never lowers it); the resulting log start.

        A crash reverts it until the store has saved its log starts.
        """
        ...

    def delete_old_segments(self, now_ms: int, timestamp_ms: int, *, only_below_start: bool = False) -> int:
        """Apply retention by time, size and log start, or only the last; how many segments were deleted."""
        ...


class EngineLog(PartitionLog, DurableLog, LogTransactions, LogLookups, LogRetention, Protocol):
    """What an engine implements; a user of a log sees the part that it needs."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LogDirStatus:
    """One log directory as DescribeLogDirs shows it."""

    path: str
    total_bytes: int
    usable_bytes: int
    is_offline: bool
    holds: Callable[[str, int], bool] = lambda _topic, _partition: True  # whether a partition's log is there


class LogStore(Protocol):
    """Opens and stores partition logs."""

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> EngineLog:
        """Load or create a log and lead it at an epoch, which is recorded before the log is used.

        Raises LogError(kafka_storage_error) when this log cannot be read; others are unaffected.
        """
        ...

    def rounds(self, broker: Background, report: Report) -> SyncRounds:
        """What makes the logs that one broker leads durable; outcomes go to `report`."""
        ...

    def abandon(self, topic: str, partition: int) -> None:
        """Close a log and write nothing: another broker leads it. What was not durable may be lost."""
        ...

    def close_log(self, topic: str, partition: int) -> None:
        """Flush and close a log that another broker is about to lead, which then opens it without recovery.

        Raises LogError: the log is closed, and will be recovered.
        """
        ...

    def leaders_changed(self) -> None:
        """Brokers have stopped or died: logs that are opened next must hold what those had written."""
        ...

    def topic_id_at(self, topic: str, partition: int) -> bytes | None:
        """The topic id of the log that has the place of a partition, and that another broker may use."""
        ...

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        """(topic, partition, topic id) of every log found."""
        ...

    def delete(self, topic: str, partition: int) -> None:
        """Remove a log at once; its files are deleted after `file.delete.delay.ms`."""
        ...

    def set_aside(self, topic: str, partition: int) -> str:
        """Rename a log that belongs to no topic, so that it is kept but never opened; its new path.

        Raises LogError(kafka_storage_error) when it cannot be moved.
        """
        ...

    def status(self) -> Sequence[LogDirStatus]: ...
    def why_full(self) -> str:
        """Why no log can take more records; empty if that is not so."""
        ...

    def start_checkpoint(self, places: Iterable[TopicPartition] | None = None) -> Work:
        """Work that writes the current recovery points, log starts and high watermarks.

        Of all logs, or of these: requests wait while it is prepared.
        """
        ...

    def start_saving_log_starts(self) -> Work:
        """Work that makes the current log starts durable."""
        ...

    def start_housekeeping(self, now_ms: int) -> Work | None:
        """Work that removes files whose delete delay has passed; None when there are none."""
        ...

    def close(self) -> None:
        """Flush and close every open log, write snapshots, checkpoints and the clean-shutdown marker."""
        ...
