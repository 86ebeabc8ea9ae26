"""The short judgement of a produced batch, on both cores and against the long one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import CODEC_MASK, TRANSACTIONAL_BIT, BatchHeader, reseal
from klamm.records.compression import Codec
from klamm.records.produced import ProducedError, append_error, single_batch
from klamm.records.record import Record, encode_batch
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
    is_plain = not header.attributes & ~(CODEC_MASK | TRANSACTIONAL_BIT)
    return header if is_plain and append_error(batch, header, max_bytes) is ErrorCode.none else None


HEADER_CHANGES = st.lists(
    st.tuples(
        st.sampled_from([0, 7, 8, 11, 16, 21, 22, 23, 26, 43, 50, 53, 57, 60]),
        st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 127, 128, 255]),
    ),
    max_size=3,
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


@pytest.mark.parametrize("length", [0, 1, 60, 61, len(BATCH) - 1])
def test_a_batch_that_is_not_all_there_is_not_sound(length: int) -> None:
    for core in (pure_core(), compiled_core()):
        assert core.sound_header(BATCH[:length], LARGE, Codec.ZSTD) is None
        assert core.sound_header(None, LARGE, Codec.ZSTD) is None
