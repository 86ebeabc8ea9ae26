"""The header of a batch: read, checked, stamped, resealed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records.batch import (
    HEADER_BYTES,
    OldFormatError,
    TimestampType,
    TruncatedError,
    crc_is_valid,
    iter_headers,
    parse_header,
    reseal,
    set_append_time,
    stamp,
)
from klamm.records.record import decode_records
from unit.records.properties import few
from unit.records.samples import ABORT, COMMIT, DATA, EMPTIED, EVERY_SAMPLE, TIME_MS, TOMBSTONE


def test_every_field_of_a_header_is_read() -> None:
    header = parse_header(DATA)
    assert header.base_offset == 42
    assert header.last_offset == 43
    assert header.next_offset == 44
    assert header.batch_length == 0x49
    assert header.size_bytes == len(DATA) == 85
    assert header.leader_epoch == 5
    assert header.magic == 2
    assert header.crc == 0x56CDB512
    assert header.base_timestamp_ms == TIME_MS
    assert header.max_timestamp_ms == TIME_MS + 5
    assert header.producer_id == 4001
    assert header.producer_epoch == 3
    assert header.base_sequence == 7
    assert header.last_sequence == 8
    assert header.record_count == 2
    assert header.codec == 0
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.delete_horizon_ms is None


def test_a_marker_is_a_control_batch_without_sequences() -> None:
    header = parse_header(COMMIT)
    assert header.is_control
    assert header.is_transactional
    assert header.last_sequence == -1


def test_a_delete_horizon_is_in_the_base_timestamp() -> None:
    header = parse_header(TOMBSTONE)
    assert header.has_delete_horizon
    assert header.delete_horizon_ms == TIME_MS + 86_400_000


def test_sequences_start_again_at_zero_after_the_largest() -> None:
    header = parse_header(DATA)._replace(base_sequence=2**31 - 1, last_offset_delta=1)
    assert header.last_sequence == 0


@pytest.mark.parametrize("name", EVERY_SAMPLE)
def test_the_checksum_of_every_sample_is_right(name: str) -> None:
    batch = EVERY_SAMPLE[name]
    assert crc_is_valid(batch, 0, parse_header(batch))


@few
@given(st.sampled_from([DATA, COMMIT, TOMBSTONE, EMPTIED]), st.data())
def test_a_flipped_bit_breaks_the_checksum_from_the_attributes_on(sample: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(17, len(sample) - 1))
    batch = bytearray(sample)
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not crc_is_valid(batch, 0, parse_header(batch))


def test_a_cut_batch_has_no_valid_checksum() -> None:
    assert not crc_is_valid(DATA[:-1], 0, parse_header(DATA))


def test_stamping_moves_a_batch_without_touching_its_checksum() -> None:
    batch = bytearray(DATA)
    stamp(batch, 1_000_000_000_000, 77)
    header = parse_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1_000_000_000_000, 77)
    assert crc_is_valid(batch, 0, header)
    assert batch[16:] == DATA[16:]


def test_resealing_makes_a_changed_batch_whole_again() -> None:
    batch = bytearray(DATA)
    batch[-1] = ord("y")
    reseal(batch)
    assert crc_is_valid(batch, 0, parse_header(batch))
    assert decode_records(batch)[1].headers == (("h", b"y"),)


def test_append_time_replaces_every_records_own() -> None:
    batch = bytearray(DATA)
    set_append_time(batch, TIME_MS + 99)
    header = parse_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_is_valid(batch, 0, header)
    assert {record.timestamp_ms for record in decode_records(batch)} == {TIME_MS + 99}
    assert header.base_timestamp_ms == TIME_MS


def test_headers_are_walked_with_their_positions() -> None:
    walked = list(iter_headers(DATA + COMMIT + EMPTIED))
    assert [position for position, _ in walked] == [0, 85, 163]
    assert [header.base_offset for _, header in walked] == [42, 44, 42]


@pytest.mark.parametrize("left", [1, 16, 17, 60, 61, 77])
def test_a_batch_cut_off_at_the_end_ends_the_walk(left: int) -> None:
    assert [position for position, _ in iter_headers(DATA + ABORT[:left])] == [0]


def test_garbage_after_a_batch_is_an_error_when_the_walk_reaches_it() -> None:
    walk = iter_headers(DATA + bytes(100))
    assert next(walk)[0] == 0
    with pytest.raises(DecodeError):
        next(walk)


@pytest.mark.parametrize("length", range(HEADER_BYTES))
def test_a_header_that_is_not_all_there_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedError):
        parse_header(DATA[:length])


def test_a_position_outside_the_buffer_is_truncated() -> None:
    for position in (-1, 80, 1000):
        with pytest.raises(TruncatedError):
            parse_header(DATA, position)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_told_apart_from_garbage(magic: int) -> None:
    batch = bytearray(DATA)
    batch[16] = magic
    for cut in (len(batch), 34):
        with pytest.raises(OldFormatError):
            parse_header(batch[:cut])


@pytest.mark.parametrize(("at", "value"), [(16, 3), (16, 0xFF), (11, 48), (8, 0xFF)])
def test_an_impossible_magic_or_length_is_refused(at: int, value: int) -> None:
    batch = bytearray(DATA)
    batch[at] = value
    with pytest.raises(DecodeError) as caught:
        parse_header(batch)
    assert type(caught.value) is DecodeError


@few
@given(st.binary(max_size=200), st.integers(-5, 205))
def test_any_bytes_are_a_header_or_a_decode_error(noise: bytes, position: int) -> None:
    try:
        header = parse_header(noise, position)
    except DecodeError:
        return
    assert header.magic == 2
    crc_is_valid(noise, position, header)
