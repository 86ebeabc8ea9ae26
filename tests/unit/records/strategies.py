"""Random records for the properties of this folder."""

from __future__ import annotations

from hypothesis import strategies as st

from klamm.records.record import Record

blobs = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
header_lists = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**45) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def batches_of_records(draw: st.DrawFn) -> list[Record]:
    """Records in one batch: offsets rise, with the gaps that compaction leaves."""
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        records.append(Record(offset, draw(timestamps), draw(blobs), draw(blobs), draw(header_lists)))
        offset += draw(st.integers(1, 3) | st.integers(1, 2**20))
    return records
