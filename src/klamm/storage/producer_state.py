"""The producer state of a partition: epochs, sequences, open transactions.

It is rebuilt by replay: `check` decides, `update` changes, loading only updates. Times are record timestamps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from klamm.records.markers import EndMarker
from klamm.storage.log import AppendOrigin, LogError, ProducerStatus

WINDOW_BATCHES: Final = 5
MAX_SEQUENCE: Final = (1 << 31) - 1
NONE: Final = -1
NO_GUARD: Final = 0
KIND_BITS: Final = CONTROL_BIT | TRANSACTIONAL_BIT
MAX_UNCONFIRMED: Final = 1_000  # any client may send batches of producers that do not exist
_OF_CLIENT: Final = AppendOrigin.CLIENT  # an enum's member is looked up slowly
MAX_AWAITED: Final = 10_000  # a broken disk and many producers must not cost the memory too


class BatchSummary(NamedTuple):
    """A batch of a producer, to detect duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer."""

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "kind_bits", "last_timestamp_ms", "next_sequence",
        "producer_id", "txn_first_offset",
    )  # fmt: skip

    def __init__(
        self,
        producer_id: int,
        epoch: int,
        batches: Iterable[tuple[int, int, int, int]] = (),
        last_timestamp_ms: int = NONE,
        coordinator_epoch: int = NONE,
        txn_first_offset: int = NONE,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        # As many as a producer may have in flight, the newest last. The fields of a BatchSummary each: plain
        # tuples are made in a fifth of the time.
        self.batches: deque[tuple[int, int, int, int]] = deque(batches, maxlen=WINDOW_BATCHES)
        self.last_timestamp_ms = last_timestamp_ms
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = NONE  # -1: no transaction is open
        # What the next batch has, as a rule: with these the log needs neither `check` nor `update`.
        self.kind_bits = 0
        self.next_sequence = NONE
        if self.batches:
            self.next_sequence = (self.last_sequence + 1) & MAX_SEQUENCE
        self.begin_transaction(txn_first_offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerEntry) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        return f"ProducerEntry{self._fields()}"

    def _fields(self) -> tuple[object, ...]:
        return (
            self.producer_id,
            self.epoch,
            self.summaries(),
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][0] if self.batches else NONE

    def begin_transaction(self, first_offset: int) -> None:
        """From here on its batches are part of a transaction; -1 ends it."""
        self.txn_first_offset = first_offset
        self.kind_bits = TRANSACTIONAL_BIT if first_offset >= 0 else 0

    def begin_epoch(self, epoch: int) -> None:
        """Sequences of another epoch follow."""
        self.epoch = epoch
        self.batches.clear()
        self.next_sequence = NONE

    def add(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp_ms: int) -> None:
        """A batch of its epoch was appended."""
        self.batches.append((last_sequence, last_offset, offset_delta, timestamp_ms))
        self.last_timestamp_ms = timestamp_ms
        self.next_sequence = (last_sequence + 1) & MAX_SEQUENCE

    def duplicate_of(self, header: BatchHeader) -> BatchSummary | None:
        """The batch that this one duplicates: the same epoch and sequences."""
        if header.producer_epoch != self.epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.summaries():
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def summaries(self) -> list[BatchSummary]:
        """Its last batches, the newest last."""
        return [BatchSummary(*batch) for batch in self.batches]


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    is_aborted: bool
    last_stable_offset: int  # the first offset of the oldest one still open, else behind the marker


_COMPLETED: Final = partial(tuple.__new__, CompletedTransaction)  # half the time of calling the class


class _Verification:
    """Batches that would begin a transaction here, and wait until the coordinator confirms it."""

    __slots__ = ("begins_at_zero", "epoch", "guard", "lowest_sequence", "requests")

    def __init__(self, guard: int, epoch: int, lowest_sequence: int, begins_at_zero: bool) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.begins_at_zero = begins_at_zero  # each transaction has an epoch of its own: so do its sequences
        self.requests = 0  # that wait


class ProducerState:
    """The producers of one partition."""

    __slots__ = (
        "_awaited", "_entries", "_last_guard", "_open", "_verifications", "completed", "unstable_offset",
    )  # fmt: skip

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        # First offsets of open transactions, oldest first.
        self._open = {
            entry.txn_first_offset: entry.producer_id
            for entry in sorted(self._entries.values(), key=lambda entry: entry.txn_first_offset)
            if entry.txn_first_offset >= 0
        }
        # Ended by markers above the high watermark, in the order of their markers.
        self.completed: deque[CompletedTransaction] = deque()
        # Where the oldest transaction begins that is open, or whose marker is above the high watermark; -1
        # without any. A plain attribute: it is read whenever the high watermark moves.
        self.unstable_offset = self._first_unstable_offset()
        # (epoch, sequence) that unknown producers must send next: their first batches failed.
        self._awaited: dict[int, tuple[int, int]] = {}
        self._verifications: dict[int, _Verification] = {}
        self._last_guard = NO_GUARD

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The state of a producer, if it is known."""
        return self._entries.get(producer_id)

    # -- deciding

    def check(
        self, header: BatchHeader, origin: AppendOrigin, guard: int | None = None
    ) -> BatchSummary | None:
        """Check whether a data batch may be appended; the batch that it duplicates, if any.

        With a guard, the first batch of a transaction must present the one that its verification began with.
        Raises LogError: a transaction that is not verified, a stale epoch, a sequence out of order, or a
        batch outside its open transaction.
        """
        producer_id, epoch, attributes = header.producer_id, header.producer_epoch, header.attributes
        entry = self._entries.get(producer_id)
        is_of_client = origin is _OF_CLIENT
        if (
            entry is not None
            and is_of_client
            and entry.batches
            and (duplicate := entry.duplicate_of(header)) is not None
        ):
            return duplicate
        if guard is not None and attributes & TRANSACTIONAL_BIT:
            self._check_guard(header, guard)
        if entry is None:
            if epoch < NONE:
                raise _stale_epoch(producer_id, epoch, NONE)
            # Unknown or expired: any sequence is accepted, unless an earlier one failed or is not confirmed.
            if is_of_client:
                self._check_unconfirmed(header, None)
                if self._awaited:
                    self._check_awaited(header)
            return None
        if epoch < entry.epoch:
            raise _stale_epoch(producer_id, epoch, entry.epoch)
        if is_of_client:
            self._check_unconfirmed(header, entry)
            _check_sequence(header, entry)
        if entry.txn_first_offset >= 0 and not attributes & TRANSACTIONAL_BIT:
            raise LogError(
                ErrorCode.invalid_txn_state,
                f"producer {producer_id} sent a non-transactional batch during its transaction "
                f"that began at offset {entry.txn_first_offset}",
            )
        return None

    def _check_guard(self, header: BatchHeader, guard: int) -> None:
        if self.has_open_transaction(header.producer_id, header.producer_epoch):
            return
        if not self.is_verified(header.producer_id, guard):
            raise LogError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no verified transaction here: a marker ended it, or the "
                "partition was never added to it",
            )

    def _check_unconfirmed(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        """A batch that would begin a transaction, confirmed or refused, must not be overtaken.

        As in Kafka this concerns every batch of the producer id, whatever its epoch, also in an open
        transaction: until a transactional batch or a marker is appended.
        """
        verification = self._verifications.get(header.producer_id)
        if verification is None:
            return
        is_unknown = entry is None or not entry.batches
        lowest_sequence = 0 if is_unknown and verification.begins_at_zero else verification.lowest_sequence
        if header.base_sequence > lowest_sequence:
            raise LogError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
                f"{header.base_sequence}, but {lowest_sequence} is to begin a transaction first",
            )

    def _check_awaited(self, header: BatchHeader) -> None:
        epoch, sequence = self._awaited.get(header.producer_id, (NONE, NONE))
        if header.producer_epoch == epoch and header.base_sequence > sequence:
            raise LogError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} epoch {epoch} sent sequence {header.base_sequence}, "
                f"expected {sequence}, whose write failed",
            )

    def check_marker(self, header: BatchHeader, marker: EndMarker, epoch_was_bumped: bool) -> None:
        """Check whether a marker may be appended. Raises LogError.

        `epoch_was_bumped`: the coordinator raises the epoch with each transaction it ends, so a marker
        for an open transaction of its own epoch is a delayed old one.
        """
        producer_epoch = header.producer_epoch
        entry = self._entries.get(header.producer_id)
        epoch = coordinator_epoch = NONE
        is_open = False
        if entry is not None:
            epoch, coordinator_epoch, is_open = (
                entry.epoch,
                entry.coordinator_epoch,
                entry.txn_first_offset >= 0,
            )
        if producer_epoch < epoch or (epoch_was_bumped and producer_epoch == epoch and is_open):
            raise _stale_epoch(header.producer_id, producer_epoch, epoch)
        if marker.coordinator_epoch < coordinator_epoch:
            raise LogError(
                ErrorCode.transaction_coordinator_fenced,
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer {header.producer_id} "
                f"is older than the last marker's epoch {coordinator_epoch}",
            )

    # -- transactions that the coordinator has yet to confirm

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == producer_epoch

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, begins_at_zero: bool) -> int:
        """The guard that the batch must be appended with once the coordinator has confirmed it.

        Raises LogError(invalid_producer_epoch), before the coordinator is asked to add anything.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise _stale_epoch(producer_id, epoch, entry.epoch)
        verification = self._verifications.get(producer_id)
        if verification is None:
            self._last_guard += 1
            verification = _Verification(self._last_guard, epoch, sequence, begins_at_zero)
            self._verifications[producer_id] = verification
        elif epoch > verification.epoch:
            verification.epoch, verification.lowest_sequence = epoch, sequence
        elif epoch == verification.epoch:
            verification.lowest_sequence = min(verification.lowest_sequence, sequence)
        verification.requests += 1
        if entry is not None:
            entry.next_sequence = NONE  # its next batch must be checked
        return verification.guard

    def is_verified(self, producer_id: int, guard: int) -> bool:
        """Whether nothing has ended the transaction since its verification began."""
        verification = self._verifications.get(producer_id)
        return verification is not None and verification.guard == guard

    def end_verification(self, producer_id: int, guard: int) -> None:
        """The request that began it is done.

        What was not confirmed is remembered, as in Kafka: a batch sent behind it must not replace it.
        """
        verification = self._verifications.get(producer_id)
        if verification is not None and verification.guard == guard:
            verification.requests -= 1
            if len(self._verifications) > MAX_UNCONFIRMED:
                self._forget_unconfirmed(len(self._verifications) - MAX_UNCONFIRMED)

    def _forget_unconfirmed(self, count: int) -> None:
        """Drop the oldest verifications that no request waits for."""
        idle = (producer_id for producer_id, each in self._verifications.items() if not each.requests)
        for producer_id in list(islice(idle, count)):
            del self._verifications[producer_id]

    # -- failed writes

    def refused(self, header: BatchHeader) -> None:
        """The write of a batch failed. Batches that were sent after it must not replace it."""
        is_unknown = header.producer_id >= 0 and header.producer_id not in self._entries
        if is_unknown and len(self._awaited) < MAX_AWAITED:
            self._awaited.setdefault(header.producer_id, (header.producer_epoch, header.base_sequence))

    def inherit(self, before: ProducerState) -> None:
        """The log was cut: producers without batches must start again at their first sequence."""
        self._awaited = before._awaited
        self._last_guard = before._last_guard  # pending verifications must be repeated
        for entry in before:
            if entry.producer_id not in self._entries and entry.batches:
                self._awaited[entry.producer_id] = (entry.epoch, entry.summaries()[0].first_sequence)

    # -- updating

    def update(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None
    ) -> CompletedTransaction | None:
        """Apply a batch that was appended at an offset; the transaction it ended, if any.

        `marker` is the content of a control batch; None for data and for other control batches.
        """
        attributes, producer_id, epoch = header.attributes, header.producer_id, header.producer_epoch
        if attributes & CONTROL_BIT:
            if marker is None:
                return None
            self._end_verifications(producer_id, epoch)
            return self._end(header, base_offset, marker)
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch)
            self._awaited.pop(producer_id, None)
        elif entry.epoch != epoch:
            entry.begin_epoch(epoch)
        delta = header.last_offset_delta
        entry.add(header.last_sequence, base_offset + delta, delta, header.max_timestamp_ms)
        if attributes & TRANSACTIONAL_BIT:
            self._verifications.pop(producer_id, None)
            if entry.txn_first_offset < 0:
                entry.begin_transaction(base_offset)
                self._open[base_offset] = producer_id
                if self.unstable_offset < 0:  # those before it begin earlier
                    self.unstable_offset = base_offset
        elif producer_id in self._verifications:
            entry.next_sequence = NONE  # as in `begin_verification`
        return None

    def _end_verifications(self, producer_id: int, epoch: int) -> None:
        """What was confirmed before the marker does not count after it.

        The marker of a producer of v2 has the epoch of its next transaction, of which a batch may be here:
        it does not wait for the markers of the last one. As in Kafka the version of the batch decides.
        """
        verification = self._verifications.get(producer_id)
        if verification is not None and not (verification.begins_at_zero and verification.epoch == epoch):
            del self._verifications[producer_id]

    def _end(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> CompletedTransaction | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self._entries.get(producer_id)
        if entry is None:
            # Applied anyway, so that the epoch is known and older ones stay fenced.
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.begin_epoch(epoch)
        first_offset = entry.txn_first_offset
        entry.begin_transaction(NONE)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp_ms
        if first_offset < 0:
            return None
        del self._open[first_offset]
        last_offset = base_offset + header.last_offset_delta
        stable = next(iter(self._open)) if self._open else last_offset + 1
        completed = _COMPLETED((producer_id, first_offset, last_offset, not marker.is_commit, stable))
        self.completed.append(completed)  # the first unstable offset is what it was: see `advance`
        return completed

    def expire(self, timestamp_ms: int, expiration_ms: int) -> int:
        """Expire idle producers; never one with an open transaction."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.txn_first_offset < 0 and timestamp_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        self._awaited.clear()  # no batch is in flight for that long
        self._forget_unconfirmed(len(self._verifications))
        return len(expired)

    # -- transactions

    def advance(self, high_watermark: int) -> None:
        """The high watermark moved: markers below it become visible."""
        completed = self.completed
        if completed and completed[0].last_offset < high_watermark:
            while completed and completed[0].last_offset < high_watermark:
                completed.popleft()
            self.unstable_offset = self._first_unstable_offset()

    def _first_unstable_offset(self) -> int:
        first_open = next(iter(self._open)) if self._open else NONE
        if not self.completed:
            return first_open
        first_completed = min([transaction.first_offset for transaction in self.completed])
        return first_completed if first_open < 0 else min(first_open, first_completed)

    def statuses(self) -> Sequence[ProducerStatus]:
        """Every producer as DescribeProducers shows it."""
        return [
            ProducerStatus(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp_ms=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for entry in self._entries.values()
        ]


def _check_sequence(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.producer_epoch != entry.epoch:
        if header.base_sequence != 0:
            raise LogError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} began epoch {header.producer_epoch} at sequence "
                f"{header.base_sequence}, expected 0",
            )
        return
    # Wraps to 0; and to 0 as well when the epoch is known from a marker alone.
    expected_sequence = (entry.last_sequence + 1) & MAX_SEQUENCE
    if header.base_sequence != expected_sequence:
        raise LogError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
            f"{header.base_sequence}, expected {expected_sequence}",
        )


def _stale_epoch(producer_id: int, epoch: int, current_epoch: int) -> LogError:
    return LogError(
        ErrorCode.invalid_producer_epoch,
        f"producer {producer_id} has epoch {epoch}, current is {current_epoch}",
    )
