"""Offset commits of a coordinator's log as columns, on both cores."""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records import _pure
from klamm.records.arrow import BinaryColumn, OffsetCommits, Region
from klamm.records.record import Record
from unit.records.cores import compiled_core, outcome
from unit.records.properties import few, many
from unit.records.samples import TIME_MS, from_hex
from unit.records.strategies import damaged, damaged_regions

EVERYTHING = (0, 2**63 - 1)
COMMITTED_MS = 1_538_843_128_354
EXPIRES_MS = 1_539_447_928_354

KEY_V0 = from_hex("0000 00026731 000174 0000001e")
KEY_V1 = from_hex("0001 00026731 000174 0000001e")
GROUP_KEY = from_hex("0002 00026731")
VALUES = [
    ("0000 0000000000000852 00016d 000001664a32b222", -1, -1),
    ("0001 0000000000000852 00016d 000001664a32b222 000001666e3f3622", -1, EXPIRES_MS),
    ("0002 0000000000000852 00016d 000001664a32b222", -1, -1),
    ("0003 0000000000000852 00000007 00016d 000001664a32b222", 7, -1),
    ("0004 0000000000000852 00000007 026d 000001664a32b222 00", 7, -1),
    ("0004 0000000000000852 00000007 026d 000001664a32b222 01 00 10" + "ab" * 16, 7, -1),
]
VALUE = from_hex(VALUES[3][0])


def decoded(core: ModuleType, *pairs: tuple[bytes | None, bytes | None]) -> OffsetCommits:
    records = [Record(10 + i, TIME_MS + i, key, value) for i, (key, value) in enumerate(pairs)]
    region = Region(_pure.encode_region(records, 10, TIME_MS), len(records), 10, TIME_MS, None)
    commits = core.decode_offset_commits([region], *EVERYTHING)
    assert isinstance(commits, OffsetCommits)
    return commits


def numbers(kind: str, column: bytearray) -> list[int]:
    return [number for (number,) in struct.iter_unpack("=" + kind, column)]


def texts(column: BinaryColumn) -> list[bytes]:
    cuts = numbers("i", column.offsets)
    return [bytes(column.values[a:b]) for a, b in pairwise(cuts)]


class TestEachCore:
    @pytest.mark.parametrize(("value", "leader_epoch", "expires_ms"), VALUES)
    def test_every_version_of_a_commit_is_read(
        self, core: ModuleType, value: str, leader_epoch: int, expires_ms: int
    ) -> None:
        commits = decoded(core, (KEY_V1, from_hex(value)))
        assert commits.row_count == 1
        assert numbers("q", commits.log_offset) == [10]
        assert numbers("q", commits.log_timestamp_ms) == [TIME_MS]
        assert (texts(commits.group), texts(commits.topic)) == ([b"g1"], [b"t"])
        assert numbers("i", commits.partition) == [30]
        assert numbers("i", commits.key_version) == [1]
        assert numbers("i", commits.value_version) == [int(value[3])]
        assert numbers("q", commits.committed_offset) == [2130]
        assert numbers("i", commits.leader_epoch) == [leader_epoch]
        assert texts(commits.metadata) == [b"m"]
        assert numbers("q", commits.commit_timestamp_ms) == [COMMITTED_MS]
        assert numbers("q", commits.expire_timestamp_ms) == [expires_ms]
        assert commits.value_validity is None
        assert commits.broken == bytearray()

    def test_a_tombstone_names_what_it_removes_and_has_no_value(self, core: ModuleType) -> None:
        commits = decoded(core, (KEY_V0, VALUE), (KEY_V1, None))
        assert (commits.tombstone_count, commits.value_validity) == (1, bytearray(b"\x01"))
        assert numbers("q", commits.committed_offset) == [2130, -1]
        assert numbers("i", commits.value_version) == [3, -1]
        assert texts(commits.group) == [b"g1", b"g1"]
        assert commits.metadata.null_count == 1

    def test_other_records_are_left_out(self, core: ModuleType) -> None:
        commits = decoded(core, (GROUP_KEY, b"group"), (None, b""), (b"\x00", b""), (KEY_V1, VALUE))
        assert numbers("q", commits.log_offset) == [13]
        assert commits.broken == bytearray()

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (KEY_V1[:-1], VALUE),
            (KEY_V1[:5], VALUE),
            (from_hex("0001 ffff 000174 0000001e"), VALUE),
            (KEY_V1, b""),
            (KEY_V1, VALUE[:-1]),
            (KEY_V1, b"\x00\x05" + VALUE[2:]),
            (KEY_V1, b"\xff\xff" + VALUE[2:]),
            (KEY_V1, from_hex("0004 0000000000000852 00000007 ffffffffff0f")),
            (KEY_V1, from_hex("0004 0000000000000852 00000007 ffffffff0f 00")),
        ],
    )
    def test_a_commit_that_cannot_be_read_is_told_by_its_offset(
        self, core: ModuleType, key: bytes, value: bytes
    ) -> None:
        commits = decoded(core, (KEY_V1, VALUE), (key, value))
        assert numbers("q", commits.broken) == [11]
        assert commits.row_count == 1

    def test_rows_tell_their_region_and_keep_to_the_range(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, 0, KEY_V1, VALUE), Record(1, 0, KEY_V1, VALUE)], 0, 0)
        regions = [Region(data, 2, 0, TIME_MS, None), Region(data, 2, 2, TIME_MS, TIME_MS + 9)]
        commits = core.decode_offset_commits(regions, 1, 3)
        assert numbers("i", commits.region) == [0, 1]
        assert numbers("q", commits.log_offset) == [1, 2]
        assert numbers("q", commits.log_timestamp_ms) == [TIME_MS, TIME_MS + 9]

    def test_a_name_that_is_not_utf8_is_replaced(self, core: ModuleType) -> None:
        commits = decoded(core, (KEY_V1.replace(b"g1", b"g\xff"), VALUE))
        assert texts(commits.group) == ["g\ufffd".encode()]

    def test_replacing_text_keeps_what_is_null(self, core: ModuleType) -> None:
        not_utf8 = VALUE.replace(b"\x00\x01m", b"\x00\x01\xff")
        commits = decoded(core, (KEY_V1, None), (KEY_V1, not_utf8))
        assert (commits.metadata.null_count, commits.metadata.validity) == (1, bytearray(b"\x02"))
        assert texts(commits.metadata) == [b"", "\ufffd".encode()]

    def test_a_region_that_is_not_whole_is_an_error(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, 0, KEY_V1, VALUE)], 0, 0)
        with pytest.raises(DecodeError):
            core.decode_offset_commits([Region(data[:-1], 1, 0, 0, None)], *EVERYTHING)

    def test_a_replaced_name_that_outgrows_the_column_is_refused(self, core: ModuleType) -> None:
        def region(name: bytes) -> Region:
            key = b"\x00\x01\x00\x64" + name + KEY_V1[6:]
            return Region(_pure.encode_region([Record(0, 0, key, VALUE)], 0, 0), 1, 0, 0, None)

        good = region(b"g" * 100)
        limit = len(good.data) + 20
        assert core.decode_offset_commits([good], *EVERYTHING, limit).row_count == 1
        with pytest.raises(ValueError, match="300 bytes do not fit one column"):
            core.decode_offset_commits([region(b"\xff" * 100)], *EVERYTHING, limit)

    def test_a_region_is_measured_in_bytes_whatever_its_items_are(self, core: ModuleType) -> None:
        key = b"\x00\x01\x00\x64" + b"g" * 100 + KEY_V1[6:]
        data = _pure.encode_region([Record(0, 0, key, VALUE)], 0, 0)
        data += _pure.encode_region([Record(1, 0, None, b"v" * (-(len(data) + 7) % 8))], 0, 0)
        wide = memoryview(data).cast("q")
        expected = core.decode_offset_commits([Region(data, 2, 0, 0, None)], *EVERYTHING)
        assert expected.row_count == 1
        assert core.decode_offset_commits([Region(wide, 2, 0, 0, None)], *EVERYTHING) == expected


some_values = st.none() | st.sampled_from([from_hex(value) for value, _, _ in VALUES]).flatmap(damaged)
some_keys = st.sampled_from([KEY_V0, KEY_V1, GROUP_KEY]).flatmap(damaged)


class TestBothCores:
    @many
    @given(st.lists(st.tuples(some_keys, some_values), min_size=1, max_size=4))
    def test_they_read_and_refuse_commits_alike(self, pairs: list[tuple[Any, Any]]) -> None:
        assert decoded(compiled_core(), *pairs) == decoded(_pure, *pairs)

    @few
    @given(st.lists(damaged_regions(), max_size=2), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
    def test_they_refuse_regions_alike(self, several: list[Region], first: int, until: int) -> None:
        assert outcome(partial(compiled_core().decode_offset_commits, several, first, until)) == outcome(
            partial(_pure.decode_offset_commits, several, first, until)
        )
