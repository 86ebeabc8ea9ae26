"""Committed offsets by the topic, on both cores."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import ZERO_ID
from klamm.records import _pure
from klamm.records.layout import OffsetCommitValue
from unit.records.commits import TOPIC_ID, Asked, asked_lists, commits_of, partitions, topic_ids
from unit.records.cores import compiled_core
from unit.records.properties import few, many
from unit.records.samples import TIME_MS
from unit.records.strategies import int64s

COMMITTED = OffsetCommitValue(2130, 7, "m", TIME_MS, -1, TOPIC_ID)


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
        assert commits.partition_bytes() == b"\0\0\0\x07\0\0\0\x02\0\0\0\x07"
        assert (len(commits), commits.lowest, commits.highest) == (3, 2, 7)

    def test_none_of_them_have_no_range(self, core: ModuleType) -> None:
        commits = core.TopicCommits(())
        assert (len(commits), list(commits), commits.partitions()) == (0, [], [])
        assert (commits.lowest, commits.highest, commits.has_metadata) == (0, -1, False)

    @pytest.mark.parametrize(
        ("metadata", "expected"), [([None, ""], False), (["", "x"], True), (["x", None], True)]
    )
    def test_they_know_whether_any_has_metadata(
        self, core: ModuleType, metadata: Sequence[str | None], expected: bool
    ) -> None:
        asked = [Asked(committed_metadata=each) for each in metadata]
        assert core.TopicCommits(asked).has_metadata is expected

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
        nine = (100, OffsetCommitValue(90, 4, "m", TIME_MS, -1, TOPIC_ID))
        three = (101, OffsetCommitValue(30, -1, "", TIME_MS, -1, TOPIC_ID))
        assert (table.get(9), table.get(3), table.get(4)) == (nine, three, None)
        assert table.items() == [(3, three), (9, nine)]
        assert (len(table), table.partitions(), 9 in table, 4 in table) == (2, [3, 9], True, False)
        assert type(table.get(9)[1]) is OffsetCommitValue

    def test_it_finds_the_offsets_of_other_topics(self, core: ModuleType) -> None:
        table = a_table(core, 7, 5)
        table.put(9, 100, COMMITTED._replace(topic_id=b"\7" * 16))
        table.put(1, 101, COMMITTED._replace(topic_id=ZERO_ID))  # committed by name: any topic's
        assert table.partitions_of_other_topics(bytes(TOPIC_ID)) == [9]
        assert table.partitions_of_other_topics(b"\7" * 16) == [5, 7]
        assert table.partitions_of_other_topics(b"\6" * 16) == [5, 7, 9]

    def test_the_last_of_two_commits_of_one_partition_counts(self, core: ModuleType) -> None:
        table = core.OffsetTable()
        table.store(commits_of(core, Asked(1, 10, 0, "x"), Asked(1, 11)), 100, TIME_MS, 5, ZERO_ID)
        assert table.items() == [(1, (101, OffsetCommitValue(11, -1, "", TIME_MS, 5, ZERO_ID)))]

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

    @pytest.mark.parametrize("field", OffsetCommitValue._fields)
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
    others = [table.partitions_of_other_topics(topic_id) for topic_id in (ZERO_ID, TOPIC_ID)]
    return [len(table), table.items(), table.partitions(), others, [(p in table, table.get(p)) for p in of]]


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
                commits = core.TopicCommits(step.asked)
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


def test_log_offsets_beyond_64_bits_are_refused_before_anything_is_stored(core: ModuleType) -> None:
    table = core.OffsetTable()
    with pytest.raises(OverflowError, match="exceed 64 bits"):
        table.store(commits_of(core, Asked(0), Asked(1)), 2**63 - 2, 0, -1, TOPIC_ID)
    assert len(table) == 0
