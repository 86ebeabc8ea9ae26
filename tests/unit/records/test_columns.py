"""From a fetch to columns, and from columns to batches."""

from __future__ import annotations

import struct

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records.arrow import BinaryInput, Columns, Want
from klamm.records.batch import crc_is_valid, parse_header
from klamm.records.columns import encode_columns, iter_columns, partition_rows, seal
from klamm.records.compression import Codec, TooLarge
from klamm.records.record import Record, decode_records, encode_batch
from unit.records.samples import ABORT, DATA, TIME_MS


def a_fetch(*sizes: int, codec: Codec = Codec.NONE, append_time_ms: int | None = None) -> bytes:
    parts = []
    offset = 0
    for size in sizes:
        records = [Record(offset + i, TIME_MS + i, b"k", b"v%d" % (offset + i)) for i in range(size)]
        parts.append(encode_batch(records, base_offset=offset, codec=codec, append_time_ms=append_time_ms))
        offset += size
    return b"".join(parts)


def offsets_of(columns: Columns) -> list[int]:
    assert columns.offset is not None
    return list(memoryview(columns.offset).cast("q"))


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_any_codec_come_together_in_one_column(codec: Codec) -> None:
    [columns] = iter_columns(a_fetch(3, 2, codec=codec))
    assert offsets_of(columns) == [0, 1, 2, 3, 4]
    assert columns.value is not None
    assert columns.value.values == b"v0v1v2v3v4"


def test_columns_are_cut_between_batches_when_a_target_is_met() -> None:
    fetch = a_fetch(3, 2, 2, 1)
    assert [c.row_count for c in iter_columns(fetch, target_rows=4)] == [5, 3]
    assert [c.row_count for c in iter_columns(fetch, target_bytes=1)] == [3, 2, 2, 1]


def test_only_what_lies_in_the_range_is_decoded() -> None:
    fetch = a_fetch(3, 2, 2)
    chunks = list(iter_columns(fetch, first_offset=2, until_offset=4, wanted=Want.OFFSET, target_rows=1))
    assert [offsets_of(chunk) for chunk in chunks] == [[2], [3]]
    assert list(iter_columns(fetch, first_offset=7)) == []


def test_append_time_is_told() -> None:
    [columns] = iter_columns(a_fetch(2, append_time_ms=TIME_MS + 50))
    assert columns.timestamp_type == bytearray(struct.pack("=2i", 1, 1))
    assert columns.timestamp_ms == bytearray(struct.pack("=2q", TIME_MS + 50, TIME_MS + 50))


def test_aborted_records_are_left_out() -> None:
    assert list(iter_columns(DATA + ABORT, aborted=[(4001, 42)])) == []
    [columns] = iter_columns(DATA + ABORT)
    assert offsets_of(columns) == [42, 43]


def test_a_damaged_batch_is_an_error() -> None:
    with pytest.raises(DecodeError):
        list(iter_columns(DATA[:-1] + b"?"))


def test_a_batch_that_expands_too_far_is_refused() -> None:
    bomb = encode_batch([Record(0, TIME_MS, None, bytes(100_000))], codec=Codec.GZIP)
    with pytest.raises(TooLarge):
        list(iter_columns(bomb, max_batch_bytes=50_000))


@pytest.mark.parametrize("codec", Codec)
def test_columns_are_sealed_into_batches_a_broker_takes(codec: Codec) -> None:
    key = BinaryInput(None, struct.pack("=4i", 0, 1, 2, 3), b"abc")
    partitions = partition_rows(3, key, None, 1, 0)
    [region] = encode_columns(3, partitions, key, key, None, None, TIME_MS, 1 << 20)
    batch = seal(region, codec=codec, producer_id=7, producer_epoch=1, base_sequence=12, transactional=True)
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 12)
    assert header.is_transactional
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert decode_records(batch) == [
        Record(index, TIME_MS, name, name) for index, name in enumerate((b"a", b"b", b"c"))
    ]
