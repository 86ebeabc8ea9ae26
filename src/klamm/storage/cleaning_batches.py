"""Compaction of one batch: unchanged, with fewer records, only its header, or removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from klamm.protocol.types import Buffer
from klamm.records.batch import BatchHeader, TimestampType
from klamm.records.record import Record, decode_records, encode_batch
from klamm.storage.cleaning_map import KeyOffsetMap
from klamm.storage.cleaning_transactions import TransactionFilter
from klamm.storage.producer_state import ProducerEntry


@dataclass(frozen=True, slots=True)
class LiveProducer:
    """A producer whose state must be preserved: the offset of its last data, or the epoch of its marker."""

    epoch: int
    last_data_offsets: tuple[int, ...]  # last offsets of batches; none: only markers are known


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """The parameters of a pass over one log."""

    timestamp_ms: int  # wall clock: delete horizons at or before it have passed
    delete_retention_ms: int
    live_producers: Mapping[int, LiveProducer]
    max_decompressed_bytes: int


class BatchCleaner:
    """Decides batch by batch, in log order."""

    def __init__(self, rules: CleaningRules, mapped: KeyOffsetMap, transactions: TransactionFilter) -> None:
        self._rules = rules
        self._mapped = mapped
        self._transactions = transactions

    def clean(self, buffer: Buffer, position: int, header: BatchHeader) -> Buffer | None:
        """The compacted batch; None when it is removed. Raises DecodeError."""
        if header.is_control:
            return self._clean_marker(buffer, position, header)
        if self._transactions.on_data(header):
            return self._emptied_if_needed(header)
        if header.base_offset > self._mapped.last_offset:
            return _unchanged(buffer, position, header)
        records = decode_records(buffer, position, max_bytes=self._rules.max_decompressed_bytes)
        kept = self._mapped.kept(records, with_tombstones=not self._horizon_has_passed(header))
        if not kept:
            return self._emptied_if_needed(header)
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and any(record.value is None for record in kept):
            horizon_ms = self._new_horizon_ms
        elif len(kept) == len(records):
            return _unchanged(buffer, position, header)
        return rewritten(header, kept, horizon_ms)

    def _clean_marker(self, buffer: Buffer, position: int, header: BatchHeader) -> Buffer | None:
        if not self._transactions.on_marker(buffer, position, header):
            return _unchanged(buffer, position, header)
        if not header.record_count:
            return self._emptied_if_needed(header)
        if not header.has_delete_horizon:
            return rewritten(header, decode_records(buffer, position), self._new_horizon_ms)
        if not self._horizon_has_passed(header) or self._tells_an_epoch(header):
            return _unchanged(buffer, position, header)
        return self._emptied_if_needed(header)

    @property
    def _new_horizon_ms(self) -> int:
        return self._rules.timestamp_ms + self._rules.delete_retention_ms

    def _horizon_has_passed(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._rules.timestamp_ms

    def _tells_an_epoch(self, header: BatchHeader) -> bool:
        """Whether this marker alone holds a live producer's epoch, which an empty batch would lose."""
        live = self._rules.live_producers.get(header.producer_id)
        return live is not None and not live.last_data_offsets and live.epoch == header.producer_epoch

    def _emptied_if_needed(self, header: BatchHeader) -> bytes | None:
        """Only the header, where it holds a live producer's sequence."""
        live = self._rules.live_producers.get(header.producer_id)
        if live is None or header.is_control or header.last_offset not in live.last_data_offsets:
            return None
        return emptied(header)


def _unchanged(buffer: Buffer, position: int, header: BatchHeader) -> Buffer:
    return memoryview(buffer)[position : position + header.size_bytes]


def rewritten(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytes:
    """A batch with fewer records or a delete horizon; first and last offset, producer and codec stay."""
    return encode_batch(
        records,
        codec=header.codec,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        append_time_ms=_append_time_ms(header),
        delete_horizon_ms=delete_horizon_ms,
    )


def emptied(header: BatchHeader) -> bytes:
    """A batch without its records: 61 bytes that keep offsets, epoch, producer and sequence."""
    return encode_batch(
        (),
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        append_time_ms=_append_time_ms(header),
        max_timestamp_ms=header.max_timestamp_ms,
    )


def _append_time_ms(header: BatchHeader) -> int | None:
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return header.max_timestamp_ms if is_append_time else None


def live_producers(entries: Iterable[ProducerEntry], high_watermark: int) -> dict[int, LiveProducer]:
    """The offsets that must stay in the log to preserve the state of these producers.

    The last batch of each, and its last flushed batch: a failed flush may remove the former.
    """
    live = {}
    for entry in entries:
        offsets = [batch.last_offset for batch in entry.summaries()]
        durable = [offset for offset in offsets if offset < high_watermark]
        live[entry.producer_id] = LiveProducer(entry.epoch, tuple({*offsets[-1:], *durable[-1:]}))
    return live
