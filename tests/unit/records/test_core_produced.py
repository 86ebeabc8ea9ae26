"""The short judgement of a produced batch, on both cores and against the long one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import CODEC_MASK, TRANSACTIONAL_BIT, BatchHeader, reseal
from klamm.records.compression import Codec
from klamm.records.produced import ProducedError, append_error, single_batch
from klamm.records.record import Record, decode_records, encode_batch
from unit.records.cores import compiled_core, pure_core
from unit.records.properties import many
from unit.records.samples import TIME_MS

BATCH = encode_batch([Record(0, TIME_MS, b"k", b"v"), Record(1, TIME_MS, b"k", b"w")])
LARGE = 1 << 20


def judged_closely(batch: bytes, max_bytes: int, max_codec: int) -> BatchHeader | None:
    """What the short judgement says, by the long one."""
    try:
        header = single_batch(batch, zstd_allowed=max_codec == Codec.ZSTD)
    except ProducedError:
        return None
    is_plain = header.size_bytes == len(batch) and not header.attributes & ~(CODEC_MASK | TRANSACTIONAL_BIT)
    if not is_plain or append_error(batch, header, max_bytes) is not ErrorCode.none:
        return None
    return header if header.codec or holds_what_it_says(batch, header) else None


def holds_what_it_says(batch: bytes, header: BatchHeader) -> bool:
    try:
        records = decode_records(batch)
    except DecodeError:
        return False
    latest_ms = max(record.timestamp_ms for record in records)
    places = [record.offset for record in records]
    return max(latest_ms, -1) == header.max_timestamp_ms and places == list(range(len(records)))


HEADER_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            [0, 7, 8, 11, 16, 21, 22, 23, 26, 27, 34, 42, 43, 50, 53, 57, 60, *range(61, len(BATCH))]
        ),
        st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 127, 128, 255]),
    ),
    max_size=3,
)
PLACES = st.lists(
    st.tuples(st.sampled_from([-2, -1, 0, 1, TIME_MS]), st.integers(0, 3)), min_size=1, max_size=4
)


@many
@given(HEADER_CHANGES, st.booleans(), st.sampled_from([b"", b"\0"]), st.integers(-1, 1), st.integers(3, 4))
def test_the_short_judgement_is_the_long_one(
    changes: list[tuple[int, int]], is_resealed: bool, tail: bytes, room_bytes: int, max_codec: int
) -> None:
    batch = bytearray(BATCH)
    for at, value in changes:
        batch[at] = value
    if is_resealed:
        reseal(batch)
    batch += tail
    max_bytes = len(batch) + room_bytes
    expected = judged_closely(bytes(batch), max_bytes, max_codec)
    for core in (pure_core(), compiled_core()):
        assert core.sound_header(batch, max_bytes, max_codec) == expected
        assert core.sound_header(memoryview(batch), max_bytes, max_codec) == expected


@many
@given(PLACES, st.integers(-2, 2), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_places_and_times_of_records_that_are_not_compressed_are_judged(
    places: list[tuple[int, int]], shift_ms: int, codec: Codec
) -> None:
    batch = bytearray(
        encode_batch(
            [Record(index, time_ms, b"k", b"v") for index, (time_ms, _) in enumerate(places)], codec=codec
        )
    )
    if codec is Codec.NONE:
        at = 61
        for _, place in places:
            length = batch[at] >> 1
            varlong = 1
            while batch[at + 1 + varlong] & 0x80:
                varlong += 1
            batch[at + 2 + varlong] = place << 1
            at += 1 + length
    (latest_ms,) = struct.unpack_from(">q", batch, 35)
    struct.pack_into(">q", batch, 35, latest_ms + shift_ms)
    reseal(batch)
    expected = judged_closely(bytes(batch), LARGE, Codec.ZSTD)
    for core in (pure_core(), compiled_core()):
        assert core.sound_header(batch, LARGE, Codec.ZSTD) == expected


@pytest.mark.parametrize("length", [0, 1, 60, 61, len(BATCH) - 1])
def test_a_batch_that_is_not_all_there_is_not_sound(length: int) -> None:
    for core in (pure_core(), compiled_core()):
        assert core.sound_header(BATCH[:length], LARGE, Codec.ZSTD) is None
        assert core.sound_header(None, LARGE, Codec.ZSTD) is None
