"""Committed offsets by the topic: tables of them, and their records, on both cores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import pack
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID
from klamm.records import _pure
from klamm.records.batch import crc_is_valid, parse_header
from klamm.records.layout import HEADER_BYTES, CommitBlock, CommittedOffset, Record
from klamm.records.record import decode_records
from unit.records.cores import compiled_core
from unit.records.properties import few, many
from unit.records.samples import TIME_MS, from_hex
from unit.records.strategies import damaged, int64s

TOPIC_ID = bytes(range(16))
COMMITTED = CommittedOffset(2130, 7, "m", TIME_MS, -1, TOPIC_ID)


@dataclass(slots=True)
class Asked:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


def commits_of(core: ModuleType, *asked: Asked) -> Any:
    return core.Commits(list(asked))


def block_of(core: ModuleType, *asked: Asked, **changed: Any) -> CommitBlock:
    block = CommitBlock("g1", "t", TOPIC_ID, commits_of(core, *asked), TIME_MS, -1)
    return block._replace(**changed)


def a_table(core: ModuleType, *partitions: int) -> Any:
    table = core.OffsetTable()
    for partition in partitions:
        table.put(partition, partition + 1000, COMMITTED._replace(offset=partition))
    return table


class TestCommits:
    def test_they_tell_what_was_asked_in_its_order(self, core: ModuleType) -> None:
        commits = commits_of(core, Asked(7, 70, 3, "a"), Asked(2, 20), Asked(7, 71, -1, ""))
        assert list(commits) == [(7, 70, 3, "a"), (2, 20, -1, ""), (7, 71, -1, "")]
        assert commits.partitions() == [7, 2, 7]
        assert (len(commits), commits.lowest, commits.highest) == (3, 2, 7)

    def test_none_of_them_have_no_range(self, core: ModuleType) -> None:
        commits = core.Commits(())
        assert (len(commits), list(commits), commits.partitions()) == (0, [], [])
        assert (commits.lowest, commits.highest, commits.has_metadata) == (0, -1, False)

    @pytest.mark.parametrize(
        ("metadata", "expected"), [([None, ""], False), (["", "x"], True), (["x", None], True)]
    )
    def test_they_know_whether_any_has_metadata(
        self, core: ModuleType, metadata: Sequence[str | None], expected: bool
    ) -> None:
        asked = [Asked(committed_metadata=each) for each in metadata]
        assert core.Commits(asked).has_metadata is expected

    @pytest.mark.parametrize(
        "asked", [Asked(2**31), Asked(0, 2**63), Asked(0, 0, -(2**31) - 1), Asked(0, -(2**63) - 1)]
    )
    def test_a_number_that_does_not_fit_is_an_overflow(self, core: ModuleType, asked: Asked) -> None:
        with pytest.raises(OverflowError):
            commits_of(core, Asked(committed_metadata="x"), asked)


class TestTable:
    def test_it_remembers_commits_by_partition(self, core: ModuleType) -> None:
        table = core.OffsetTable()
        table.store(commits_of(core, Asked(9, 90, 4, "m"), Asked(3, 30)), 100, TIME_MS, -1, TOPIC_ID)
        nine = (100, CommittedOffset(90, 4, "m", TIME_MS, -1, TOPIC_ID))
        three = (101, CommittedOffset(30, -1, "", TIME_MS, -1, TOPIC_ID))
        assert (table.get(9), table.get(3), table.get(4)) == (nine, three, None)
        assert table.items() == [(3, three), (9, nine)]
        assert (len(table), table.partitions(), 9 in table, 4 in table) == (2, [3, 9], True, False)
        assert type(table.get(9)[1]) is CommittedOffset

    def test_the_last_of_two_commits_of_one_partition_counts(self, core: ModuleType) -> None:
        table = core.OffsetTable()
        table.store(commits_of(core, Asked(1, 10, 0, "x"), Asked(1, 11)), 100, TIME_MS, 5, ZERO_ID)
        assert table.items() == [(1, (101, CommittedOffset(11, -1, "", TIME_MS, 5, ZERO_ID)))]

    def test_what_a_commit_replaces_outlives_it(self, core: ModuleType) -> None:
        table = a_table(core, 5)
        commits = commits_of(core, Asked(5, 1), Asked(6, 1), Asked(5, 2))
        replaced = table.replaced_by(commits)
        table.store(commits, 7, TIME_MS, -1, ZERO_ID)
        assert replaced.get(5) == (1005, COMMITTED._replace(offset=5))
        assert (replaced.get(6), 6 in replaced) == (None, True)
        assert (replaced.get(4), 4 in replaced) == (None, False)

    def test_tables_are_equal_by_what_they_hold_and_cannot_be_hashed(self, core: ModuleType) -> None:
        assert a_table(core, 1, 2) == a_table(core, 2, 1)
        assert a_table(core, 1) != a_table(core, 2)
        assert a_table(core, 1) != {}
        with pytest.raises(TypeError):
            hash(a_table(core))

    @pytest.mark.parametrize("field", CommittedOffset._fields)
    def test_tables_that_differ_in_one_field_are_not_equal(self, core: ModuleType, field: str) -> None:
        other: Any = {"metadata": "n", "topic_id": ZERO_ID}.get(field, 5)
        one, two, three = core.OffsetTable(), core.OffsetTable(), core.OffsetTable()
        one.put(0, 1, COMMITTED)
        two.put(0, 1, COMMITTED._replace(**{field: other}))
        three.put(0, 2, COMMITTED)
        assert one != two
        assert one != three

    @pytest.mark.parametrize("partition", [2**31, -(2**31) - 1, 2**32 + 5])
    def test_a_number_that_no_partition_has_is_not_there(self, core: ModuleType, partition: int) -> None:
        table = a_table(core, 5, -(2**31))
        replaced = table.replaced_by(commits_of(core, Asked(5)))
        assert partition not in table
        assert partition not in replaced
        assert (table.get(partition), replaced.get(partition), table.remove(partition)) == (None, None, False)

    def test_what_was_stored_is_let_go_of(self, core: ModuleType) -> None:
        metadata, topic_id = "".join(["met", "adata"]), bytes(bytearray(TOPIC_ID))
        before = (sys.getrefcount(metadata), sys.getrefcount(topic_id))
        table = core.OffsetTable()
        for _ in range(3):
            commits = commits_of(core, *(Asked(p, 1, 1, metadata) for p in (1, 2, 2, 3)))
            replaced = table.replaced_by(commits)
            table.store(commits, 1, 1, -1, topic_id)
            table.remove(3)
        assert replaced.get(1) is not None
        del table, replaced, commits
        assert (sys.getrefcount(metadata), sys.getrefcount(topic_id)) == before


@pytest.mark.parametrize(("count", "stride"), [(1, 1), (2, 2**30), (10, 1), (1000, 1), (1000, 2**21)])
def test_memory_follows_the_number_of_partitions_not_their_names(count: int, stride: int) -> None:
    table = compiled_core().OffsetTable()
    table.store(commits_of(compiled_core(), *(Asked(at * stride) for at in range(count))), 0, 0, -1, ZERO_ID)
    assert sys.getsizeof(table) < 64 + count * 68
    for at in range(count):
        table.remove(at * stride)
    assert sys.getsizeof(table) < 64


partitions = st.integers(-2, 40) | st.integers(-(2**31), 2**31 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
metadata = st.none() | st.sampled_from(["", "m", "host-1"]) | st.text("aé€😀", max_size=60)
topic_ids = st.sampled_from([ZERO_ID, TOPIC_ID])
asked_lists = st.lists(st.builds(Asked, partitions, int64s, int32s, metadata), max_size=30)


class Step(NamedTuple):
    asked: list[Asked]
    log_offset: int
    commit_ms: int
    expire_ms: int
    topic_id: bytes
    removed: list[int]


steps = st.builds(
    Step, asked_lists, st.integers(0, 2**62), int64s, int64s, topic_ids, st.lists(partitions, max_size=30)
)


def seen(table: Any, of: Iterable[int]) -> list[Any]:
    return [len(table), table.items(), table.partitions(), [(p in table, table.get(p)) for p in of]]


class TestBothTables:
    @many
    @given(st.lists(steps, max_size=4))
    def test_they_remember_and_forget_alike(self, several: list[Step]) -> None:
        compiled, pure = compiled_core(), _pure
        tables = [compiled.OffsetTable(), pure.OffsetTable()]
        for step in several:
            told = []
            touched = [each.partition_index for each in step.asked] + step.removed
            for core, table in zip((compiled, pure), tables, strict=True):
                commits = core.Commits(step.asked)
                replaced = table.replaced_by(commits)
                table.store(commits, *step[1:5])
                middle = seen(table, touched)
                gone = [table.remove(partition) for partition in step.removed]
                before = [(partition in replaced, replaced.get(partition)) for partition in touched]
                told.append([list(commits), commits.has_metadata, before, middle, gone, seen(table, touched)])
            assert told[0] == told[1]

    @few
    @given(st.lists(st.integers(0, 300), unique=True, min_size=100), st.randoms(use_true_random=False))
    def test_a_large_table_keeps_what_is_not_removed(self, numbers: list[int], random: Any) -> None:
        table = a_table(compiled_core(), *(number * 2**20 for number in numbers))
        random.shuffle(numbers)
        for at, number in enumerate(numbers):
            assert table.remove(number * 2**20)
            assert table.partitions() == sorted(left * 2**20 for left in numbers[at + 1 :])
        assert table == compiled_core().OffsetTable()


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
                    CommitBlock(group, topic, topic_id, core.Commits(asked), *times)
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
        committed = CommittedOffset(2130, 7, "m", 0x1664A32B222, -1, ZERO_ID)
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
Taker = Callable[[dict[bytes, Any], Any, int], None]


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
            CommitBlock(group, "t", topic_id, core.Commits(asked), TIME_MS, -1)
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
