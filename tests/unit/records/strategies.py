"""Random records, regions and columns for the properties of this folder."""

from __future__ import annotations

from hypothesis import strategies as st

from klamm.protocol.types import Buffer
from klamm.records import _pure
from klamm.records.arrow import Region
from klamm.records.record import Record

blobs = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
header_lists = st.lists(st.tuples(st.text("aé€😀_", max_size=5), blobs), max_size=3).map(tuple)
int64s = st.integers(-(2**63), 2**63 - 1)
timestamps = st.integers(-1, 2**45) | int64s


@st.composite
def batches_of_records(draw: st.DrawFn, max_size: int = 6) -> list[Record]:
    """Records in one batch: offsets rise, with the gaps that compaction leaves."""
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, max_size))):
        records.append(Record(offset, draw(timestamps), draw(blobs), draw(blobs), draw(header_lists)))
        offset += draw(st.integers(1, 3) | st.integers(1, 2**20))
    return records


@st.composite
def regions(draw: st.DrawFn) -> Region:
    """A sound region as a batch would carry it."""
    records = draw(batches_of_records())
    base_offset, base_timestamp_ms = records[0].offset, records[0].timestamp_ms
    data = _pure.encode_region(records, base_offset, base_timestamp_ms)
    return Region(data, len(records), base_offset, base_timestamp_ms, draw(st.none() | timestamps))


@st.composite
def damaged(draw: st.DrawFn, data: Buffer) -> bytes:
    """The same bytes with some of them changed, cut off or added."""
    broken = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(broken) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0:
                broken[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                # The lengths that hurt most: very long, negative, unending.
                broken[at : at + 1] = draw(st.sampled_from([b"\xfe\xff\xff\xff\x0f", b"\x01", b"\xff" * 11]))
            case 2:
                del broken[at : at + draw(st.integers(1, 4))]
            case _:
                broken[at:at] = draw(st.binary(max_size=4))
    return bytes(broken)


@st.composite
def damaged_regions(draw: st.DrawFn) -> Region:
    """A region that may or may not be sound any more."""
    region = draw(regions())
    count = draw(st.just(region.record_count) | st.integers(-2, 10) | st.just(2**31 - 1))
    base_offset = draw(st.just(region.base_offset) | int64s)
    return Region(
        draw(damaged(region.data)), count, base_offset, region.base_timestamp_ms, region.append_time_ms
    )
