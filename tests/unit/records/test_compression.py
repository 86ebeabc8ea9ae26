"""Codecs: what they write, what they read, and where they stop."""

from __future__ import annotations

import gzip
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records.compression import Codec, TooLarge, compress, decompress
from unit.records.properties import few

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
MEGABYTE = 1 << 20


@few
@given(st.sampled_from(Codec), st.binary(max_size=2000), st.integers(1, 200))
def test_what_is_compressed_is_decompressed(codec: Codec, data: bytes, times: int) -> None:
    plain = data * times
    assert decompress(codec, compress(codec, plain), len(plain)) == plain


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_byte_more_than_allowed_is_too_large(codec: Codec) -> None:
    packed = compress(codec, bytes(5000))
    assert len(decompress(codec, packed, 5000)) == 5000
    with pytest.raises(TooLarge):
        decompress(codec, packed, 4999)


def test_plain_data_is_held_to_the_bound_too() -> None:
    with pytest.raises(TooLarge):
        decompress(Codec.NONE, b"12", 1)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        *((Codec.GZIP, level) for level in (-1, 1, 9)),
        *((Codec.LZ4, level) for level in (1, 9, 17)),
        *((Codec.ZSTD, level) for level in (-5, 1, 22)),
    ],
)
def test_levels_are_taken(codec: Codec, level: int) -> None:
    plain = b"the village below the castle " * 400
    assert decompress(codec, compress(codec, plain, level), MEGABYTE) == plain


def test_snappy_is_framed_as_java_frames_it() -> None:
    plain = b"klamm" * 20_000  # four blocks of 32 KiB at most
    packed = bytes(compress(Codec.SNAPPY, plain))
    assert packed[:16] == bytes.fromhex("82534e41505059000000000100000001")
    first_length = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first_length])) == plain[: 32 * 1024]


def test_raw_snappy_is_read_too() -> None:
    plain = b"klamm" * 20_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(plain)), len(plain)) == plain


def test_lz4_blocks_are_independent_because_kafka_reads_no_others() -> None:
    plain = bytes(range(256)) * 1000
    packed = bytes(compress(Codec.LZ4, plain))
    assert packed[:7] == bytes.fromhex("04224d18604082")
    first_length = int.from_bytes(packed[7:11], "little")
    first = cramjam.lz4.decompress_block(packed[11 : 11 + first_length], output_len=65536)
    assert bytes(first) == plain[:65536]


def test_lz4_frames_of_other_writers_are_read() -> None:
    plain = b"linked blocks, checksums " * 9000
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(plain)), len(plain)) == plain


def test_gzip_of_several_members_is_read() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Codec.GZIP, packed, 100) == b"one two"


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, b"", 10)
    with pytest.raises(ValueError, match="unknown codec"):
        compress(codec, b"")


@few
@given(st.sampled_from(COMPRESSING), st.binary(max_size=300))
def test_noise_is_decompressed_or_refused(codec: Codec, noise: bytes) -> None:
    with suppress(DecodeError):
        assert len(decompress(codec, noise, 10_000)) <= 10_000


@few
@given(st.sampled_from(COMPRESSING), st.data())
def test_a_damaged_stream_is_decompressed_or_refused(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"in the castle and below it " * 50))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del packed[data.draw(st.integers(0, len(packed))) :]
    with suppress(DecodeError):
        assert len(decompress(codec, packed, 10_000)) <= 10_000


def a_bomb(codec: Codec) -> bytes:
    """A stream that would fill hundreds of times the bound: built from repeated members or blocks."""
    unit = bytes(16 * MEGABYTE)
    match codec:
        case Codec.SNAPPY:
            packed = bytes(compress(codec, unit))
            return packed + packed[16:] * 39
        case Codec.LZ4:
            packed = bytes(compress(codec, unit))
            return packed[:-4] + packed[7:-4] * 39 + packed[-4:]
        case _:
            return bytes(compress(codec, unit)) * 40


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_costs_no_more_than_the_bound(codec: Codec) -> None:
    bomb = a_bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decompress(codec, bomb, 2 * MEGABYTE)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 * MEGABYTE


def test_a_snappy_block_cannot_claim_what_it_cannot_hold() -> None:
    claims_a_gigabyte = bytes.fromhex("8080808004") + b"abc"
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decompress(Codec.SNAPPY, claims_a_gigabyte, 1 << 31)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MEGABYTE
