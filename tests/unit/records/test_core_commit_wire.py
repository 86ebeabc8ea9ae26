"""OffsetCommit on the wire, on both cores: partitions in, answers out."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.offset_commit import OffsetCommitResponsePartition
from klamm.records import _pure
from unit.records.cores import compiled_core, outcome
from unit.records.properties import few, many
from unit.records.samples import from_hex
from unit.records.strategies import damaged

OLDEST, OLD, NEW = (False, False), (True, False), (True, True)  # has a leader epoch, is flexible
SAMPLES = {
    OLDEST: from_hex("00000007 0000000000000852 00016d  00000003 0000000000000005 ffff"),
    OLD: from_hex("00000007 0000000000000852 00000004 00016d  00000003 0000000000000005 ffffffff 0000"),
    NEW: from_hex(
        "00000007 0000000000000852 00000004 026d 00  00000003 0000000000000005 ffffffff 00 02 0501aa 810100"
    ),
}
kinds = pytest.mark.parametrize("kind", SAMPLES)


@kinds
def test_partitions_are_read_with_the_position_behind_them(core: ModuleType, kind: tuple[bool, bool]) -> None:
    sample = SAMPLES[kind]
    commits, position = core.read_commits(*kind, b"before" + sample + b"behind", 6, 2)
    assert list(commits) == [(7, 2130, 4 if kind[0] else -1, "m"), (3, 5, -1, "")]
    assert (commits.lowest, commits.highest, commits.has_metadata) == (3, 7, True)
    assert position == 6 + len(sample)


@kinds
def test_partitions_that_are_cut_off_are_refused(core: ModuleType, kind: tuple[bool, bool]) -> None:
    sample = SAMPLES[kind]
    for end in range(len(sample)):
        with pytest.raises(DecodeError):
            core.read_commits(*kind, sample[:end], 0, 2)


@pytest.mark.parametrize(("position", "count"), [(0, -1), (0, 2**40), (-1, 1), (10**6, 0), (10**6, 1)])
def test_a_count_or_a_position_that_cannot_be_is_refused(core: ModuleType, position: int, count: int) -> None:
    with pytest.raises(DecodeError):
        core.read_commits(*NEW, SAMPLES[NEW], position, count)


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        (OLD, from_hex("fffe")),
        (OLD, from_hex("0001ff")),
        (OLD, from_hex("7fff 00")),
        (NEW, from_hex("02ff00")),
        (NEW, from_hex("818002") + b"m" * 0x8000 + b"\0"),  # a byte too long for the old versions
        (NEW, from_hex("ffffffffff00")),
        (NEW, from_hex("00 ffffffff7f")),
        (NEW, from_hex("00 01 00 ffffffff0f")),
    ],
)
def test_what_no_version_allows_is_refused(
    core: ModuleType, kind: tuple[bool, bool], metadata: bytes
) -> None:
    with pytest.raises(DecodeError):
        core.read_commits(*kind, bytes(16) + metadata, 0, 1)


def test_the_longest_metadata_is_read(core: ModuleType) -> None:
    buffer = bytes(16) + from_hex("808002") + b"m" * 0x7FFF + b"\0"
    commits, position = core.read_commits(*NEW, buffer, 0, 1)
    assert (commits[0].committed_metadata, position) == ("m" * 0x7FFF, len(buffer))


@pytest.mark.parametrize(
    ("is_flexible", "expected"),
    [(False, "00000007 0000 00000003 0019"), (True, "00000007 0000 00 00000003 0019 00")],
)
def test_answers_are_written_one_after_the_other(core: ModuleType, is_flexible: bool, expected: str) -> None:
    answers = [OffsetCommitResponsePartition(7), OffsetCommitResponsePartition(3, 25)]
    assert core.write_commit_answers(is_flexible, answers) == from_hex(expected)
    assert core.write_commit_answers(is_flexible, ()) == b""


def read_by(core: ModuleType, kind: tuple[bool, bool], buffer: bytes, position: int, count: int) -> Any:
    commits, end = core.read_commits(*kind, buffer, position, count)
    return list(commits), commits.lowest, commits.highest, commits.has_metadata, end


@many
@given(
    st.sampled_from(list(SAMPLES)).flatmap(lambda kind: st.tuples(st.just(kind), damaged(SAMPLES[kind]))),
    st.integers(0, 2),
    st.integers(0, 3),
)
def test_both_read_and_refuse_alike(read: tuple[Any, bytes], position: int, count: int) -> None:
    assert outcome(partial(read_by, compiled_core(), *read, position, count)) == outcome(
        partial(read_by, _pure, *read, position, count)
    )


@few
@given(
    st.booleans(),
    st.lists(
        st.builds(
            OffsetCommitResponsePartition,
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-(2**15), 2**15 - 1),
        )
    ),
)
def test_both_write_alike(is_flexible: bool, answers: list[OffsetCommitResponsePartition]) -> None:
    written = compiled_core().write_commit_answers(is_flexible, answers)
    assert written == _pure.write_commit_answers(is_flexible, answers)
