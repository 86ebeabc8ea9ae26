"""The producers of one log, whatever engine stores it: which batches may be appended, what readers may see.

An engine inherits this and writes batches. `_admit` decides before a batch is written and changes nothing;
`_appended` follows when it is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import CONTROL_BIT, LENGTH_OVERHEAD_BYTES, BatchHeader, parse_header
from klamm.records.markers import EndMarker, decode_marker
from klamm.storage.log import AppendOrigin, LogError, NotContinuedError, ProducerStatus
from klamm.storage.producer_state import (
    KIND_BITS,
    MAX_SEQUENCE,
    BatchSummary,
    CompletedTransaction,
    ProducerState,
)


class ProducerGate:
    """What a log knows of its producers, and the offsets that readers see."""

    def __init__(self, producers: ProducerState, *, start_offset: int, end_offset: int) -> None:
        self.on_change: Callable[[], None] = _nobody_listens
        self.flush_soon: Callable[[], None] = _nobody_listens
        self._hold(producers, start_offset, end_offset)

    def _hold(self, producers: ProducerState, start_offset: int, end_offset: int) -> None:
        """Begin with a log that is durable up to its end."""
        self._producers = producers
        self._log_start = start_offset
        # Plain attributes, because every commit reads them; only the log writes them.
        self.log_end_offset = self.high_watermark = self._last_stable = end_offset

    @property
    def log_start_offset(self) -> int:
        return self._log_start

    @property
    def last_stable_offset(self) -> int:
        return self._last_stable

    # -- appends

    def _admit(
        self,
        batch: bytes | bytearray | memoryview,
        header: BatchHeader,
        origin: AppendOrigin,
        marker_bumps_epoch: bool,
        guard: int | None,
        must_continue: bool,
    ) -> EndMarker | BatchSummary | None:
        """Whether a batch of a producer may be appended: the batch that it duplicates, or its marker, if any.

        Raises LogError, and NotContinuedError with `must_continue`.
        """
        known = self._producers.get(header.producer_id)
        if (
            known is not None
            and header.base_sequence == known.next_sequence
            and header.producer_epoch == known.epoch
            and header.attributes & KIND_BITS == known.kind_bits
        ):
            return None
        if must_continue:
            raise NotContinuedError
        if not header.attributes & CONTROL_BIT:
            return self._producers.check(header, origin, guard)
        try:
            marker = decode_marker(batch)
        except DecodeError as error:
            raise LogError(ErrorCode.corrupt_message, str(error)) from error
        if marker is not None:
            self._producers.check_marker(header, marker, marker_bumps_epoch)
        return marker

    def _appended(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None
    ) -> CompletedTransaction | None:
        """A batch of a producer is in the log; the transaction that it ended, if any."""
        known = self._producers.get(header.producer_id)
        if (
            known is None
            or header.base_sequence != known.next_sequence
            or header.producer_epoch != known.epoch
            or header.attributes & KIND_BITS != known.kind_bits
        ):
            return self._producers.update(header, base_offset, marker)
        delta = header.last_offset_delta
        last_sequence = (header.base_sequence + delta) & MAX_SEQUENCE
        known.add(last_sequence, base_offset + delta, delta, header.max_timestamp_ms)
        return None

    # -- transactions that are to be confirmed

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self._producers.has_open_transaction(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, begins_at_zero: bool
    ) -> int:
        return self._producers.begin_verification(producer_id, producer_epoch, sequence, begins_at_zero)

    def is_verified(self, producer_id: int, guard: int) -> bool:
        return self._producers.is_verified(producer_id, guard)

    def end_verification(self, producer_id: int, guard: int) -> None:
        self._producers.end_verification(producer_id, guard)

    def producers(self) -> Sequence[ProducerStatus]:
        return self._producers.statuses()

    # -- what readers may see

    def _refresh_stable(self) -> None:
        """Compute the last stable offset again, after something it depends on changed."""
        producers = self._producers
        if producers.completed:
            producers.advance(self.high_watermark)
        unstable_offset = producers.unstable_offset
        if unstable_offset < 0 or unstable_offset >= self.high_watermark:
            self._last_stable = self.high_watermark
        else:
            self._last_stable = max(unstable_offset, self._log_start)

    def _deletable(self, before_offset: int) -> int:
        """The offset below which DeleteRecords is to delete; -1 means the high watermark. Raises LogError."""
        if before_offset == -1:
            return self.high_watermark
        if not 0 <= before_offset <= self.high_watermark:
            raise LogError(
                ErrorCode.offset_out_of_range,
                f"cannot delete records up to {before_offset}: the high watermark is {self.high_watermark}",
            )
        return before_offset


def sized_header(batch: bytes | bytearray | memoryview, header: BatchHeader | None) -> BatchHeader:
    """The header of a batch, parsed unless it is given, that says how long it is. Raises LogError."""
    if header is None:
        try:
            header = parse_header(batch)
        except DecodeError as error:
            raise LogError(ErrorCode.corrupt_message, str(error)) from error
    if header.batch_length + LENGTH_OVERHEAD_BYTES != len(batch):
        raise LogError(ErrorCode.corrupt_message, f"batch size in the header is not {len(batch)} bytes")
    return header


def refuse_too_large(size_bytes: int, segment_bytes: int) -> None:
    """Raises LogError for a batch that fits no segment."""
    if size_bytes > segment_bytes:
        raise LogError(
            ErrorCode.record_list_too_large,
            f"batch of {size_bytes} bytes exceeds segment.bytes={segment_bytes}",
        )


def _nobody_listens() -> None:
    """The listener until a broker sets one."""
