"""Checksums and hashes, on both cores and against each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.records import _pure
from klamm.records._pure.hashes import quick_crc32c
from unit.records.cores import compiled_core
from unit.records.properties import few

# Long enough for the stripes of the compiled checksum, at every remainder.
long_buffers = st.builds(
    lambda pattern, length: (pattern * (length // len(pattern) + 1))[:length],
    st.binary(min_size=1, max_size=40),
    st.integers(0, 7000),
)


@few
@given(st.binary(max_size=200) | long_buffers, st.integers(0, 2**32 - 1))
def test_every_checksum_is_the_same(data: bytes, value: int) -> None:
    compiled = compiled_core()
    expected = quick_crc32c(data, value)
    assert compiled.crc32c(data, value) == expected
    assert compiled.crc32c_portable(data, value) == expected


@few
@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_the_twin_is_the_reference_of_the_checksum(data: bytes, value: int) -> None:
    assert _pure.crc32c(data, value) == compiled_core().crc32c(data, value)


@few
@given(st.binary(max_size=70))
def test_every_hash_is_the_same(key: bytes) -> None:
    assert compiled_core().murmur2(key) == _pure.murmur2(key)
    assert compiled_core().murmur2(memoryview(key)) == _pure.murmur2(bytearray(key))


def test_a_long_checksum_is_the_same_without_the_lock() -> None:
    data = bytes(range(256)) * 1024
    assert compiled_core().crc32c(data) == quick_crc32c(data, 0)
