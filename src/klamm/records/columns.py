"""Fetched batches to columns in Arrow's layout, and columns to batches.

Arrow itself is not imported; `klamm.records.arrow` describes the layout of its buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from klamm.protocol.types import Buffer
from klamm.records.arrow import Columns, EncodedRegion, Region, Want
from klamm.records.batch import TimestampType
from klamm.records.committed import visible_batches
from klamm.records.compression import Codec
from klamm.records.core import decode_columns, encode_columns, partition_rows
from klamm.records.layout import MAX_INT32, MAX_INT64, TRANSACTIONAL_BIT
from klamm.records.record import MAX_DECOMPRESSED_BYTES, encode_region_into_batch, records_region

__all__ = ["decode_columns", "encode_columns", "iter_columns", "partition_rows", "seal"]

TARGET_ROWS: Final = 16_384
TARGET_BYTES: Final = 1 << 20


def iter_columns(
    buffer: Buffer,
    *,
    wanted: int = Want.ALL,
    first_offset: int = 0,
    until_offset: int = MAX_INT64,
    aborted: Iterable[tuple[int, int]] = (),
    check_crcs: bool = True,
    target_rows: int = TARGET_ROWS,
    target_bytes: int = TARGET_BYTES,
    max_batch_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Columns]:
    """The visible records of a fetch from `first_offset` to below `until_offset`, in columns.

    Whole batches are combined until a target is reached, so a column may exceed its target by one batch.
    Columns without rows are left out. DecodeError when a batch is damaged.
    """
    held: list[Region] = []
    held_rows = held_bytes = 0
    for position, header in visible_batches(
        buffer, first_offset=first_offset, aborted=aborted, check_crcs=check_crcs
    ):
        if header.base_offset >= until_offset:
            break
        data = records_region(buffer, header, position, min(max_batch_bytes, MAX_INT32))
        # Arrow counts a column's bytes in 32 bits, so the regions collected must leave room for the next.
        if held and (held_bytes + len(data) > max(target_bytes, 1) or held_rows >= target_rows):
            yield from _with_rows(decode_columns(held, wanted, first_offset, until_offset))
            held, held_rows, held_bytes = [], 0, 0
        append_time_ms = None
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = header.max_timestamp_ms
        held.append(
            Region(data, header.record_count, header.base_offset, header.base_timestamp_ms, append_time_ms)
        )
        held_rows += header.record_count
        held_bytes += len(data)
    if held:
        yield from _with_rows(decode_columns(held, wanted, first_offset, until_offset))


def _with_rows(columns: Columns) -> Iterator[Columns]:
    if columns.row_count:
        yield columns


def seal(
    region: EncodedRegion,
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """The batch of an encoded region, ready to be produced."""
    return encode_region_into_batch(
        region.data,
        region.record_count,
        codec=codec,
        level=level,
        base_offset=0,
        last_offset_delta=region.record_count - 1,
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        base_timestamp_ms=region.base_timestamp_ms,
        max_timestamp_ms=region.max_timestamp_ms,
    )
