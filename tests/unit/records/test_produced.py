"""One produced batch, checked by its header, in Kafka's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header, reseal, stamp
from klamm.records.compression import Codec
from klamm.records.produced import ProducedError, append_error, has_impossible_length, single_batch
from klamm.records.record import Record, encode_batch
from unit.records.properties import few
from unit.records.samples import TIME_MS

RECORDS = [Record(0, TIME_MS, b"k", b"v"), Record(1, TIME_MS, b"k", b"w")]
BATCH = encode_batch(RECORDS)
LARGE = 1 << 20


def refused(records: bytes | None, *, zstd_allowed: bool = True) -> ErrorCode:
    with pytest.raises(ProducedError) as caught:
        single_batch(records, zstd_allowed=zstd_allowed)
    assert str(caught.value)
    return caught.value.error_code


def with_byte(at: int, value: int) -> bytes:
    batch = bytearray(BATCH)
    batch[at] = value
    reseal(batch)
    return bytes(batch)


def test_a_batch_alone_is_taken() -> None:
    header = single_batch(BATCH)
    assert header == parse_header(BATCH)
    assert append_error(BATCH, header, LARGE) is ErrorCode.none


@pytest.mark.parametrize("length", [0, 10, 17, 60, 61, len(BATCH) - 1])
def test_a_batch_that_is_not_all_there_is_invalid(length: int) -> None:
    assert refused(BATCH[:length]) is ErrorCode.invalid_record


def test_no_records_are_invalid() -> None:
    assert refused(None) is ErrorCode.invalid_record


@pytest.mark.parametrize("tail", [BATCH, BATCH + b"\0", BATCH[:16] + b"\1" + BATCH[17:]])
def test_another_batch_is_invalid(tail: bytes) -> None:
    assert refused(BATCH + tail) is ErrorCode.invalid_record


@pytest.mark.parametrize("tail", [bytes(12), bytes(61), BATCH[:16] + b"\3"])
def test_what_is_no_batch_after_the_batch_is_corrupt(tail: bytes) -> None:
    assert refused(BATCH + tail) is ErrorCode.corrupt_message


@pytest.mark.parametrize("tail", [b"\1", bytes(11), BATCH[:12], BATCH[:16], BATCH[:20], BATCH[:-1]])
def test_part_of_a_batch_after_the_batch_is_ignored(tail: bytes) -> None:
    assert single_batch(BATCH + tail).size_bytes == len(BATCH)


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (11, 48, ErrorCode.corrupt_message),
        (8, 0x80, ErrorCode.corrupt_message),
        (16, 0, ErrorCode.invalid_record),
        (16, 1, ErrorCode.invalid_record),
        (16, 3, ErrorCode.corrupt_message),
    ],
)
def test_a_header_that_cannot_be_is_refused(at: int, value: int, expected: ErrorCode) -> None:
    assert refused(with_byte(at, value)) is expected


def test_zstd_is_refused_from_clients_older_than_it() -> None:
    batch = encode_batch(RECORDS, codec=Codec.ZSTD)
    assert refused(batch, zstd_allowed=False) is ErrorCode.unsupported_compression_type
    assert single_batch(batch).codec == Codec.ZSTD


def error_of(batch: bytes, max_message_bytes: int = LARGE) -> ErrorCode:
    return append_error(batch, parse_header(batch), max_message_bytes)


def test_a_batch_must_start_at_offset_zero() -> None:
    batch = bytearray(BATCH)
    stamp(batch, 1, -1)
    assert error_of(bytes(batch)) is ErrorCode.invalid_record


def test_a_batch_may_be_as_large_as_allowed_and_no_larger() -> None:
    assert error_of(BATCH, len(BATCH)) is ErrorCode.none
    assert error_of(BATCH, len(BATCH) - 1) is ErrorCode.message_too_large


def test_a_damaged_batch_is_corrupt() -> None:
    assert error_of(BATCH[:-1] + b"\x7f") is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (23, 0x80),  # a negative last offset delta
        (26, 5),  # a delta that does not match the count
        (60, 0),  # no records
        (57, 0xFF),  # a negative count
        (22, 0x20),  # a control batch
        (43, 0x00),  # a producer id without a sequence
    ],
)
def test_a_header_that_no_producer_writes_is_invalid(at: int, value: int) -> None:
    assert error_of(with_byte(at, value)) is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [5, 7])
def test_an_unknown_codec_is_found_when_the_batch_is_to_be_appended(codec: int) -> None:
    batch = with_byte(22, codec)
    assert single_batch(batch).codec == codec
    assert error_of(batch) is ErrorCode.unsupported_compression_type


@pytest.mark.parametrize(
    ("length", "is_impossible"), [(2**31 - 1, True), (2**31 - 12, True), (2**31 - 13, False), (-1, False)]
)
def test_a_length_whose_size_is_no_number_of_32_bits_is_impossible(length: int, is_impossible: bool) -> None:
    batch = BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:]
    assert has_impossible_length(batch) is is_impossible
    assert not has_impossible_length(batch[:16])


def test_an_idempotent_batch_is_taken() -> None:
    batch = encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert error_of(batch) is ErrorCode.none


@few
@given(st.binary(max_size=150) | st.binary(max_size=100).map(lambda noise: BATCH[:21] + noise))
def test_any_bytes_get_an_answer(noise: bytes) -> None:
    try:
        header = single_batch(noise)
    except ProducedError:
        return
    assert header.size_bytes == len(noise)
    assert (append_error(noise, header, LARGE) is ErrorCode.none) is (noise == BATCH)
