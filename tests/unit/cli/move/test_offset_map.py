"""Offsets of the source and of the target."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.cli.move.offset_map import OffsetMap


def test_a_log_without_gaps_is_one_run() -> None:
    offsets = OffsetMap()
    for offset in range(5, 9):
        offsets.add(offset)
    assert offsets.runs == [[5, 0]]
    assert [offsets.translate(each) for each in (0, 5, 7, 9, 20)] == [0, 0, 2, 4, 4]


def test_an_offset_in_a_gap_becomes_that_of_the_next_record() -> None:
    offsets = OffsetMap()
    for offset in (0, 1, 5, 6, 9):
        offsets.add(offset)
    assert offsets.runs == [[0, 0], [5, 2], [9, 4]]
    assert [offsets.translate(each) for each in range(12)] == [0, 1, 2, 2, 2, 2, 3, 4, 4, 4, 5, 5]


def test_nothing_copied_is_the_end() -> None:
    assert OffsetMap().translate(17) == 0


@given(st.sets(st.integers(0, 200)), st.integers(0, 210))
def test_translation_counts_the_records_before_an_offset(copied: set[int], wanted: int) -> None:
    offsets = OffsetMap()
    for offset in sorted(copied):
        offsets.add(offset)
    assert offsets.translate(wanted) == sum(offset < wanted for offset in copied)
    again = OffsetMap(offsets.runs, offsets.target_next)
    assert again.translate(wanted) == offsets.translate(wanted)
