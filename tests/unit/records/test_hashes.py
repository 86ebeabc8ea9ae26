"""Checksums and the partitioner's hash, against values that other implementations give."""

from __future__ import annotations

import pytest

from klamm.records.checksum import crc32c
from klamm.records.murmur2 import murmur2, partition_for_key

KEYS = [
    (b"", 275646681, 0, 9, 31),
    (b"a", -1563381124, 1, 4, 24),
    (b"21", -973932308, 0, 0, 40),
    (b"abc", 479470107, 0, 3, 7),
    (b"key", -1079937367, 1, 1, 31),
    (b"foobar", -790332482, 0, 6, 16),
    (b"user-42", 1459644460, 1, 4, 10),
    ("订单".encode(), 476285782, 1, 10, 32),
    (bytes.fromhex("00000001"), -173113808, 0, 0, 40),
]


@pytest.mark.parametrize(("key", "expected", "of_3", "of_12", "of_50"), KEYS)
def test_a_key_hashes_as_in_java(key: bytes, expected: int, of_3: int, of_12: int, of_50: int) -> None:
    assert murmur2(key) == expected
    assert [partition_for_key(key, count) for count in (3, 12, 50)] == [of_3, of_12, of_50]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_a_checksum_is_the_published_one(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_a_checksum_can_be_continued() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
