"""Whole batches to records and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records.batch import TruncatedError, crc_is_valid, parse_header
from klamm.records.compression import Codec, TooLarge
from klamm.records.core import encode_one
from klamm.records.record import (
    Record,
    decode_records,
    encode_batch,
    recompress,
    record_size_bound,
)
from unit.records.properties import few
from unit.records.samples import DATA, DATA_RECORDS, EMPTIED, TIME_MS, TOMBSTONE
from unit.records.strategies import batches_of_records


def test_a_batch_is_encoded_as_kafka_stores_it() -> None:
    assert (
        encode_batch(
            DATA_RECORDS,
            base_offset=42,
            leader_epoch=5,
            producer_id=4001,
            producer_epoch=3,
            base_sequence=7,
            transactional=True,
        )
        == DATA
    )


def test_a_batch_of_kafka_is_decoded() -> None:
    assert decode_records(DATA) == DATA_RECORDS


def test_an_emptied_batch_keeps_its_place_and_its_producer() -> None:
    emptied = encode_batch(
        [],
        base_offset=42,
        last_offset_delta=1,
        leader_epoch=5,
        producer_id=4001,
        producer_epoch=3,
        base_sequence=7,
        transactional=True,
        max_timestamp_ms=TIME_MS + 5,
        codec=Codec.ZSTD,
    )
    assert emptied == EMPTIED
    assert decode_records(EMPTIED) == []


def test_a_tombstone_keeps_its_time_beside_its_horizon() -> None:
    record = Record(42, TIME_MS, b"k1", None)
    tombstone = encode_batch([record], base_offset=42, leader_epoch=5, delete_horizon_ms=TIME_MS + 86_400_000)
    assert tombstone == TOMBSTONE
    assert decode_records(TOMBSTONE) == [record]


@few
@given(batches_of_records(), st.sampled_from(Codec))
def test_what_is_encoded_is_decoded_with_any_codec(records: list[Record], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec, base_offset=records[0].offset)
    header = parse_header(batch)
    assert header.codec == codec
    assert header.size_bytes == len(batch)
    assert header.record_count == len(records)
    assert header.last_offset == records[-1].offset
    assert crc_is_valid(batch, 0, header)
    assert decode_records(b"?" + batch + b"more", 1) == records


@few
@given(batches_of_records(), st.sampled_from(Codec), st.sampled_from(Codec))
def test_recompression_changes_nothing_but_the_codec(
    records: list[Record], before: Codec, after: Codec
) -> None:
    def encoded(codec: Codec) -> bytes:
        return encode_batch(
            records,
            codec=codec,
            base_offset=records[0].offset,
            producer_id=9,
            producer_epoch=2,
            base_sequence=2**31 - 1,
            transactional=True,
        )

    assert recompress(encoded(before), after) == encoded(after)


def test_control_batches_are_never_compressed() -> None:
    with pytest.raises(ValueError, match="never compressed"):
        encode_batch([Record(0, 0)], codec=Codec.LZ4, control=True)
    with pytest.raises(DecodeError):
        recompress(encode_batch([Record(0, 0)], control=True), Codec.LZ4)


def test_an_offset_below_the_base_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_batch([Record(4, TIME_MS)], base_offset=5)


def test_an_empty_batch_must_say_where_it_ends() -> None:
    with pytest.raises(ValueError, match="without records"):
        encode_batch([])


@pytest.mark.parametrize("value", [b"value", b"", None, bytes(300)])
def test_a_single_record_is_encoded_as_any_other(value: bytes | None) -> None:
    assert encode_one(b"key", value, TIME_MS) == encode_batch([Record(0, TIME_MS, b"key", value)])


def test_append_time_is_in_the_header_alone() -> None:
    batch = encode_batch(DATA_RECORDS, base_offset=42, append_time_ms=TIME_MS + 50)
    assert [record.timestamp_ms for record in decode_records(batch)] == [TIME_MS + 50] * 2
    assert parse_header(batch).base_timestamp_ms == TIME_MS


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_expands_beyond_the_bound_is_too_large(codec: Codec) -> None:
    batch = encode_batch([Record(0, TIME_MS, None, bytes(1_000_000))], codec=codec)
    if codec is Codec.NONE:
        return  # nothing expands: the batch is as large as its buffer
    with pytest.raises(TooLarge):
        decode_records(batch, max_bytes=500_000)


@few
@given(st.integers(61, 84))
def test_a_batch_without_its_end_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedError):
        decode_records(DATA[:length])


@few
@given(batches_of_records())
def test_the_size_bound_is_a_bound(records: list[Record]) -> None:
    bound = 61 + sum(record_size_bound(r.key, r.value, r.headers) for r in records)
    assert len(encode_batch(records, base_offset=records[0].offset)) <= bound


@few
@given(st.sampled_from(Codec), st.integers(-1, 3), st.binary(max_size=300))
def test_any_region_behind_a_header_is_decoded_or_refused(codec: Codec, count: int, noise: bytes) -> None:
    batch = bytearray(encode_batch([Record(0, TIME_MS, b"k", b"v")], codec=codec))[:61] + noise
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    try:
        records = decode_records(batch)
    except DecodeError:
        return
    assert len(records) == count
