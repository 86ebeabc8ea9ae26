"""The outcomes of transactions, batch by batch: a marker decides the batches before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.arrow import Region
from klamm.records.batch import BatchHeader, TimestampType, crc_is_valid, iter_headers
from klamm.records.layout import MAX_INT32
from klamm.records.markers import decode_marker
from klamm.records.record import MAX_DECOMPRESSED_BYTES, records_region

NONE, COMMITTED, ABORTED, OPEN = range(4)
NAMES: Final = ("none", "committed", "aborted", "open")


class DecidedBatch(NamedTuple):
    """A batch's records, with the producer that wrote them and how its transaction ended."""

    region: Region
    producer_id: int
    producer_epoch: int
    txn: int


class OutcomeFollower:
    """Follows one partition in offset order. Batches of a transaction wait for their marker."""

    def __init__(self, *, check_crcs: bool = True) -> None:
        self._check_crcs = check_crcs
        self._open: dict[int, list[DecidedBatch]] = {}

    def follow(self, buffer: Buffer, first_offset: int, until_offset: int) -> Iterator[DecidedBatch]:
        """The batches of a fetch whose outcome is known, and those of earlier ones that it decides.

        DecodeError when a batch is damaged.
        """
        for position, header in iter_headers(buffer):
            if header.last_offset < first_offset:
                continue
            if header.base_offset >= until_offset:
                return
            if self._check_crcs and not crc_is_valid(buffer, position, header):
                raise DecodeError(f"checksum mismatch in the batch at offset {header.base_offset}")
            if header.is_control:
                yield from self._ended(buffer, position, header)
            elif header.record_count:
                yield from self._held_or_known(buffer, position, header)

    @property
    def first_undecided(self) -> int | None:
        """The first offset that waits for a marker; None when none does."""
        return min((batches[0].region.base_offset for batches in self._open.values()), default=None)

    def rest(self) -> Iterator[DecidedBatch]:
        """What is left at the end of the range: transactions without a marker."""
        for batches in self._open.values():
            yield from batches
        self._open.clear()

    def _held_or_known(self, buffer: Buffer, position: int, header: BatchHeader) -> Iterator[DecidedBatch]:
        data = records_region(buffer, header, position, min(MAX_DECOMPRESSED_BYTES, MAX_INT32))
        append_time_ms = None
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = header.max_timestamp_ms
        region = Region(
            data, header.record_count, header.base_offset, header.base_timestamp_ms, append_time_ms
        )
        if not header.is_transactional:
            yield DecidedBatch(region, header.producer_id, header.producer_epoch, NONE)
            return
        # Held longer than the fetch it came in: a copy of a few bytes, not a view that keeps megabytes.
        kept = DecidedBatch(
            region._replace(data=bytes(data)), header.producer_id, header.producer_epoch, OPEN
        )
        self._open.setdefault(header.producer_id, []).append(kept)

    def _ended(self, buffer: Buffer, position: int, header: BatchHeader) -> Iterator[DecidedBatch]:
        marker = decode_marker(buffer, position)
        if marker is None:
            return
        txn = COMMITTED if marker.is_commit else ABORTED
        for batch in self._open.pop(header.producer_id, ()):
            yield batch._replace(txn=txn)
