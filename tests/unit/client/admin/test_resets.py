"""Where a reset goes: inside the log, whatever was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.admin.resets import ResetTarget

OFFSETS = st.integers(0, 2**62)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"to": "earliest"}, 10),
        ({"to": "latest"}, 20),
        ({"to": 13}, 13),
        ({"to": 3}, 10),
        ({"to": 30}, 20),
        ({"shift_by": 2}, 17),
        ({"shift_by": -9}, 10),
        ({"timestamp_ms": 5}, 18),
    ],
)
def test_a_target_means_an_offset(target: dict[str, Any], expected: int) -> None:
    assert ResetTarget(**target).offset(current=15, start=10, end=20, timed=18) == expected


def test_a_time_after_all_records_means_the_end() -> None:
    assert ResetTarget(timestamp_ms=5).offset(current=None, start=10, end=20, timed=-1) == 20


def test_there_is_nothing_to_shift_where_nothing_was_committed() -> None:
    assert ResetTarget(shift_by=1).offset(current=None, start=0, end=9, timed=-1) is None


@pytest.mark.parametrize("target", [{}, {"to": 1, "shift_by": 1}, {"to": "soon"}])
def test_a_target_that_says_nothing_or_too_much_is_refused(target: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"exactly one|expected 'earliest'"):
        ResetTarget(**target)


@given(
    target=st.one_of(
        st.builds(lambda to: ResetTarget(to=to), st.one_of(OFFSETS, st.sampled_from(["earliest", "latest"]))),
        st.builds(lambda ms: ResetTarget(timestamp_ms=ms), OFFSETS),
        st.builds(lambda by: ResetTarget(shift_by=by), st.integers(-(2**62), 2**62)),
    ),
    ends=st.tuples(OFFSETS, OFFSETS).map(sorted),
    current=OFFSETS,
    timed=st.integers(-1, 2**62),
)
def test_no_reset_leaves_the_log(target: ResetTarget, ends: list[int], current: int, timed: int) -> None:
    start, end = ends
    offset = target.offset(current, start, end, timed)
    assert offset is not None
    assert start <= offset <= end
