"""Records of committed offsets, on both cores: written, and stored where they belong."""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID
from klamm.records import _pure
from klamm.records.batch import crc_is_valid, parse_header, reseal
from klamm.records.compression import Codec
from klamm.records.layout import HEADER_BYTES, CommitBlock, OffsetCommitValue, Record
from klamm.records.record import decode_records, encode_batch
from unit.records.commits import TOPIC_ID, Asked, asked_lists, commits_of, partitions, topic_ids
from unit.records.cores import compiled_core
from unit.records.properties import few, many
from unit.records.samples import TIME_MS, from_hex
from unit.records.strategies import damaged, int64s


def block_of(core: ModuleType, *asked: Asked, **changed: Any) -> CommitBlock:
    block = CommitBlock("g1", "t", TOPIC_ID, commits_of(core, *asked), TIME_MS, -1)
    return block._replace(**changed)


class TestEncode:
    def test_a_batch_holds_a_record_for_each_partition(self, core: ModuleType) -> None:
        batch = core.encode_commits([block_of(core, Asked(30, 2130, 7, "m"), Asked(31, 5))], TIME_MS)
        header = parse_header(batch)
        assert crc_is_valid(batch, 0, header)
        assert (header.base_timestamp_ms, header.max_timestamp_ms) == (TIME_MS, TIME_MS)
        tail = f"{TIME_MS:016x} 01 00 10" + TOPIC_ID.hex()
        prefix = "0001 00026731 000174"
        assert decode_records(batch) == [
            Record(
                0,
                TIME_MS,
                from_hex(f"{prefix} 0000001e"),
                from_hex(f"0004 0000000000000852 00000007 026d {tail}"),
            ),
            Record(
                1,
                TIME_MS,
                from_hex(f"{prefix} 0000001f"),
                from_hex(f"0004 0000000000000005 ffffffff 01 {tail}"),
            ),
        ]

    def test_what_expires_at_a_given_time_needs_the_older_format(self, core: ModuleType) -> None:
        block = block_of(core, Asked(1, 5, 9, "m"), topic_id=ZERO_ID, expire_ms=TIME_MS + 1)
        [record] = decode_records(core.encode_commits([block], 0))
        assert record.value == from_hex(f"0001 0000000000000005 00016d {TIME_MS:016x} {TIME_MS + 1:016x}")

    @pytest.mark.parametrize(
        ("asked", "changed", "error"),
        [
            (Asked(), {"group_id": "g" * 0x8000}, OverflowError),
            (Asked(), {"topic": "€" * 0x3000}, OverflowError),
            (Asked(committed_metadata="m" * 0x8000), {"expire_ms": 1}, OverflowError),
            (Asked(), {"commit_ms": 2**63}, OverflowError),
            (Asked(), {"group_id": "\ud800"}, UnicodeEncodeError),
            (Asked(), {"topic": "\udfff"}, UnicodeEncodeError),
            (Asked(committed_metadata="\ud800"), {}, UnicodeEncodeError),
            (Asked(), {"topic_id": b"short"}, ValueError),
        ],
    )
    def test_what_the_format_has_no_room_for_is_refused(
        self, core: ModuleType, asked: Asked, changed: dict[str, Any], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            core.encode_commits([block_of(core, asked, **changed)], 0)

    def test_metadata_may_be_long(self, core: ModuleType) -> None:
        asked = Asked(committed_metadata="m" * 0x8000)
        assert core.encode_commits([block_of(core, asked)], 0) == _pure.encode_commits(
            [block_of(_pure, asked)], 0
        )

    @few
    @given(
        st.lists(
            st.tuples(
                st.text("gé€", max_size=9),
                st.text(max_size=9),
                topic_ids,
                asked_lists,
                int64s,
                int64s | st.just(-1),
            ),
            max_size=3,
        ),
        int64s,
    )
    def test_both_write_the_same_bytes(self, blocks: list[Any], timestamp_ms: int) -> None:
        told = [
            core.encode_commits(
                [
                    CommitBlock(group, topic, topic_id, core.TopicCommits(asked), *times)
                    for group, topic, topic_id, asked, *times in blocks
                ],
                timestamp_ms,
            )
            for core in (compiled_core(), _pure)
        ]
        assert told[0] == told[1]
        assert type(told[0]) is bytes


def key_of(group: bytes, topic: bytes = b"t") -> bytes:
    return b"\0\1" + pack(">h", len(group)) + group + pack(">h", len(topic)) + topic


def region_of(*records: tuple[bytes | None, bytes | None]) -> bytearray:
    return _pure.encode_region([Record(i, i, *record) for i, record in enumerate(records)], 0, 0)


PLAIN = from_hex("0004 0000000000000852 00000007 026d 000001664a32b222 00")
WITH_ID = from_hex("0004 0000000000000852 00000007 026d 000001664a32b222 01 00 10") + TOPIC_ID
CLOSER = [
    from_hex("0003 0000000000000852 00000007 00016d 000001664a32b222"),
    from_hex("0001 0000000000000852 00016d 000001664a32b222 000001666e3f3622"),
    from_hex("0004 0000000000000852 00000007 00 000001664a32b222 00"),  # null metadata
    from_hex("0004 0000000000000852 00000007 8101") + b"m" * 128 + bytes(9),  # long metadata
    from_hex("0004 0000000000000852 00000007 02ff 000001664a32b222 00"),  # not UTF-8
    from_hex("0004 0000000000000852 00000007 026d 000001664a32b222 01 05 00"),  # another tag
    PLAIN[:-1],
    PLAIN + b"\0",
    PLAIN[:14],
    PLAIN[:15],
    b"",
]
G1, G2 = key_of(b"g1"), key_of(b"g2")


class TestStoreRecords:
    def test_plain_offsets_are_stored_and_nothing_is_handed_out(self, core: ModuleType) -> None:
        tables = {G1: core.OffsetTable(), G2: core.OffsetTable()}
        region = region_of(
            (G1 + pack(">i", 3), PLAIN), (G1 + pack(">i", -4), WITH_ID), (G2 + pack(">i", 3), PLAIN)
        )
        assert list(core.store_records(region, 3, 50, tables)) == []
        committed = OffsetCommitValue(2130, 7, "m", 0x1664A32B222, -1, ZERO_ID)
        assert tables[G1].items() == [(-4, (51, committed._replace(topic_id=TOPIC_ID))), (3, (50, committed))]
        assert tables[G2].items() == [(3, (52, committed))]

    @pytest.mark.parametrize("value", CLOSER)
    def test_an_offset_in_another_format_is_handed_out(self, core: ModuleType, value: bytes) -> None:
        tables = {G1: core.OffsetTable()}
        region = region_of((G1 + bytes(4), PLAIN), (G1 + bytes(4), value))
        assert list(core.store_records(region, 2, 5, tables)) == [Record(6, 1, G1 + bytes(4), value)]
        assert tables[G1].get(0)[0] == 5

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, PLAIN),
            (b"", PLAIN),
            (b"\0\1", PLAIN),
            (b"\0\1\0\0\0", PLAIN),
            (G2 + bytes(4), PLAIN),
            (b"\0\2\0\2g1", b"group"),
            (b"\0\0" + G1[2:] + bytes(4), PLAIN),
            (G1 + bytes(4), None),
        ],
    )
    def test_every_other_record_is_handed_out(
        self, core: ModuleType, key: bytes | None, value: bytes | None
    ) -> None:
        region = region_of((key, value))
        tables = {G1: core.OffsetTable(), b"": core.OffsetTable(), b"\0": core.OffsetTable()}
        assert list(core.store_records(region, 1, 5, tables)) == [Record(5, 0, key, value)]

    def test_who_takes_a_record_may_change_the_tables(self, core: ModuleType) -> None:
        old, new = core.OffsetTable(), core.OffsetTable()
        tables = {G1: old}
        other = (b"\0\2", b"")
        region = region_of(
            (G1 + bytes(4), PLAIN), other, (G1 + bytes(4), PLAIN), other, (G1 + bytes(4), PLAIN)
        )
        rest = core.store_records(region, 5, 0, tables)
        assert next(rest).offset == 1
        assert (len(old), len(new)) == (1, 0)
        old.remove(0)
        tables[G1] = new
        assert next(rest).offset == 3
        assert (len(old), new.get(0)[0]) == (0, 2)
        del tables[G1]
        assert [record.offset for record in rest] == [4]
        assert next(rest, None) is None

    @pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
    def test_a_region_that_is_not_what_it_claims_stores_nothing(self, core: ModuleType, count: int) -> None:
        tables = {G1: core.OffsetTable()}
        records = core.store_records(region_of((G1 + bytes(4), PLAIN), (b"\0\2", b"")), count, 0, tables)
        with pytest.raises(DecodeError):
            next(records)
        assert next(records, None) is None
        assert len(tables[G1]) == 0

    def test_a_region_may_be_let_go_of_by_whoever_gave_it(self, core: ModuleType) -> None:
        tables = {G1: core.OffsetTable()}
        rest = core.store_records(bytes(region_of((b"\0\2", b""), (G1 + bytes(4), PLAIN))), 2, 0, tables)
        assert [record.offset for record in rest] == [0]
        assert tables[G1].partitions() == [0]


values = (
    st.none()
    | st.sampled_from([PLAIN, WITH_ID, *CLOSER])
    | st.sampled_from([PLAIN, WITH_ID]).flatmap(damaged)
)
keys = st.builds(
    lambda prefix, partition: prefix + pack(">i", partition), st.sampled_from([G1, G2]), partitions
)
some_keys = keys | keys.flatmap(damaged) | st.sampled_from([None, b"\0\2\0\2g1", G1])


def stored_by(core: ModuleType, data: bytes, count: int, base_offset: int, changes: list[int]) -> list[Any]:
    """Everything that can be seen of a region's records being stored, while their taker changes tables."""
    tables: dict[bytes, Any] = {G1: core.OffsetTable()}
    told: list[Any] = []
    try:
        for at, record in enumerate(core.store_records(data, count, base_offset, tables)):
            told.append((record, type(record), {key: table.items() for key, table in tables.items()}))
            match changes[at % len(changes)]:
                case 0:
                    tables.pop(G1, None)
                case 1:
                    tables[G2] = core.OffsetTable()
                case 2:
                    tables[G1] = core.OffsetTable()
    except DecodeError:
        told.append(DecodeError)
    return [told, {key: table.items() for key, table in tables.items()}]


class TestBothStore:
    @many
    @given(
        st.lists(st.tuples(some_keys, values), max_size=12),
        st.integers(0, 2**40),
        st.lists(st.integers(0, 4), min_size=1, max_size=5),
    )
    def test_they_store_and_hand_out_alike(
        self, pairs: list[Any], base_offset: int, changes: list[int]
    ) -> None:
        region = bytes(region_of(*pairs))
        told = [
            stored_by(core, region, len(pairs), base_offset, changes) for core in (compiled_core(), _pure)
        ]
        assert told[0] == told[1]

    @many
    @given(
        st.lists(st.tuples(keys, values), max_size=5).flatmap(lambda pairs: damaged(region_of(*pairs))),
        st.integers(-1, 6),
        st.sampled_from([0, 5, 2**63 - 2]),
    )
    def test_they_refuse_alike(self, region: bytes, count: int, base_offset: int) -> None:
        told = [stored_by(core, region, count, base_offset, [3]) for core in (compiled_core(), _pure)]
        assert told[0] == told[1]

    @few
    @given(st.lists(st.tuples(st.sampled_from(["g1", "g2"]), asked_lists, topic_ids), max_size=5))
    def test_what_is_encoded_is_stored(self, several: list[Any]) -> None:
        core = compiled_core()
        blocks = [
            CommitBlock(group, "t", topic_id, core.TopicCommits(asked), TIME_MS, -1)
            for group, asked, topic_id in several
        ]
        batch = core.encode_commits(blocks, TIME_MS)
        tables = {G1: core.OffsetTable(), G2: core.OffsetTable()}
        expected = {G1: core.OffsetTable(), G2: core.OffsetTable()}
        count = parse_header(batch).record_count
        longer = list(core.store_records(batch[HEADER_BYTES:], count, 0, tables))
        starts = [sum(len(block.commits) for block in blocks[:at]) for at in range(len(blocks) + 1)]
        for block, (start, _) in zip(blocks, pairwise(starts), strict=True):
            expected[key_of(block.group_id.encode())].store(block.commits, start, TIME_MS, -1, block.topic_id)
        assert longer or tables == expected


def batch_of(base_offset: int, *pairs: tuple[bytes | None, bytes | None], **changed: Any) -> bytes:
    records = [Record(base_offset + at, TIME_MS, *pair) for at, pair in enumerate(pairs)]
    return encode_batch(records, base_offset=base_offset, **changed)


ONE = (G1 + bytes(4), PLAIN)
OTHER = (b"\0\2", b"")
NOT_PLAIN = {
    "another record": batch_of(9, ONE, OTHER),
    "a table that is not known": batch_of(9, (G2 + bytes(4), PLAIN)),
    "compressed": batch_of(9, ONE, codec=Codec.GZIP),
    "of a transaction": batch_of(
        9, ONE, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    ),
    "a marker": batch_of(9, ONE, control=True),
    "damaged": batch_of(9, ONE)[:-1] + b"\7",
    "cut off": batch_of(9, ONE)[:-1],
    "not even a header": batch_of(9, ONE)[:30],
    "nothing": b"",
    "of another format": batch_of(9, ONE)[:16] + b"\1" + batch_of(9, ONE)[17:],
    "of a length that cannot be": batch_of(9, ONE)[:8] + b"\xff" + batch_of(9, ONE)[9:],
    "at the end of all offsets": batch_of(2**63 - 1, ONE),
}


class TestStoreBatches:
    def test_batches_of_plain_offsets_are_stored(self, core: ModuleType) -> None:
        tables = {G1: core.OffsetTable(), G2: core.OffsetTable()}
        batches = batch_of(5, ONE, (G2 + pack(">i", 1), PLAIN)) + batch_of(9, (G1 + pack(">i", 2), WITH_ID))
        assert core.store_batches(b"before" + batches, 6, tables) == (6 + len(batches), 10)
        assert [(partition, at) for partition, (at, _) in tables[G1].items()] == [(0, 5), (2, 9)]
        assert [(partition, at) for partition, (at, _) in tables[G2].items()] == [(1, 6)]

    @pytest.mark.parametrize("name", NOT_PLAIN)
    def test_it_stops_before_a_batch_that_somebody_must_look_at(self, core: ModuleType, name: str) -> None:
        tables = {G1: core.OffsetTable()}
        plain = batch_of(5, ONE, ONE)
        assert core.store_batches(plain + NOT_PLAIN[name], 0, tables) == (len(plain), 7)
        assert core.store_batches(plain + NOT_PLAIN[name], len(plain), tables) == (len(plain), -1)

    def test_a_batch_whose_records_are_not_what_they_claim_is_not_stored(self, core: ModuleType) -> None:
        tables = {G1: core.OffsetTable()}
        batch = bytearray(batch_of(5, ONE, ONE))
        batch[60] = 3  # records
        reseal(batch)
        assert core.store_batches(batch, 0, tables) == (0, -1)
        assert len(tables[G1]) == 0

    @pytest.mark.parametrize("position", [-1, 4])
    def test_a_position_outside_is_refused(self, core: ModuleType, position: int) -> None:
        with pytest.raises(ValueError, match="position"):
            core.store_batches(b"abc", position, {})

    @many
    @given(
        st.lists(st.lists(st.tuples(keys, values), min_size=1, max_size=4), max_size=4).flatmap(
            lambda several: damaged(b"".join(batch_of(10 * at, *pairs) for at, pairs in enumerate(several)))
        )
    )
    def test_both_store_and_stop_alike(self, batches: bytes) -> None:
        told = []
        for core in (compiled_core(), _pure):
            tables = {G1: core.OffsetTable(), G2: core.OffsetTable()}
            stopped = core.store_batches(batches, 0, tables)
            told.append((stopped, {key: table.items() for key, table in tables.items()}))
        assert told[0] == told[1]
