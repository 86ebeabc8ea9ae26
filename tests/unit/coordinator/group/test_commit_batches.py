"""Commits that repeat earlier ones are the same bytes, however they are made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.coordinator.group.commit_batches import MAX_SHAPES, CommitEncoder
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import (
    CommittedOffset,
    GroupForgotten,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
)
from klamm.coordinator.runtime.log import AppendRefusedError
from klamm.protocol.types import ZERO_ID

NOW_MS = 1_700_000_000_000
int64s = st.integers(-(2**63), 2**63 - 1)
offsets = st.builds(
    CommittedOffset,
    int64s,
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(("", "", "", "m")),
    int64s,
    st.sampled_from((-1, -1, -1, 5)),
    st.sampled_from((ZERO_ID, bytes(range(16)))),
)
commits = st.builds(
    OffsetCommitted,
    st.just("g"),
    st.sampled_from(("t", "u" * 200)),
    st.integers(0, 2**31 - 1),
    offsets,
)
others = st.sampled_from((OffsetForgotten("g", "t", 1), GroupForgotten("g")))


@given(st.lists(st.lists(commits | others, min_size=1, max_size=70), min_size=1, max_size=3), st.data())
def test_a_batch_is_the_same_by_shape_and_by_record(
    batches: list[list[GroupRecord]], data: st.DataObject
) -> None:
    encoder = CommitEncoder()
    for records in batches:
        again: list[GroupRecord] = [
            each._replace(committed=data.draw(offsets)._replace(topic_id=each.committed.topic_id))
            if isinstance(each, OffsetCommitted)
            else each
            for each in records
        ]
        for each, timestamp_ms in ((records, NOW_MS), (again, NOW_MS + 1), (records, -1)):
            assert encoder.encode(each, timestamp_ms) == encode_records(each, timestamp_ms)


def test_what_does_not_fit_the_format_is_refused_in_a_known_shape_too() -> None:
    encoder = CommitEncoder()
    good = OffsetCommitted("g", "t", 0, CommittedOffset(1))
    for _ in range(2):
        encoder.encode([good], NOW_MS)
        with pytest.raises(AppendRefusedError):
            encoder.encode([good._replace(committed=CommittedOffset(2**63))], NOW_MS)


def test_shapes_are_forgotten_before_they_fill_the_memory() -> None:
    encoder = CommitEncoder()
    for partition in range(MAX_SHAPES + 10):
        encoder.encode([OffsetCommitted("g", "t", partition, CommittedOffset(1))], NOW_MS)
    assert len(encoder._shapes) <= MAX_SHAPES
