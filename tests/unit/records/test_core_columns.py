"""Records to columns and columns to records, on both cores and through Arrow itself."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records import _pure
from klamm.records.arrow import (
    BinaryColumn,
    BinaryInput,
    Columns,
    FixedInput,
    HeadersInput,
    Region,
    Want,
)
from klamm.records.murmur2 import partition_for_key
from klamm.records.record import Record
from unit.records.cores import compiled_core, outcome
from unit.records.properties import few, many
from unit.records.samples import TIME_MS
from unit.records.strategies import blobs, damaged_regions, header_lists, int64s, regions, timestamps

EVERYTHING = (-(2**63), 2**63 - 1)


def as_arrow_binary(kind: pa.DataType, column: BinaryColumn, length: int) -> pa.Array:
    buffers = [column.validity, column.offsets, column.values]
    wrapped = [pa.py_buffer(buffer) if buffer is not None else None for buffer in buffers]
    array = pa.Array.from_buffers(kind, length, wrapped, column.null_count)
    array.validate(full=True)
    return array


def as_rows(columns: Columns) -> list[Record]:
    """What Arrow makes of the columns."""
    count = columns.row_count
    assert columns.offset is not None
    assert columns.timestamp_ms is not None
    assert columns.key is not None
    assert columns.value is not None
    assert columns.headers is not None
    offsets = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offset)])
    times = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.timestamp_ms)])
    keys = as_arrow_binary(pa.binary(), columns.key, count)
    values = as_arrow_binary(pa.binary(), columns.value, count)
    headers = columns.headers
    names = as_arrow_binary(pa.string(), headers.names, headers.header_count)
    header_values = as_arrow_binary(pa.binary(), headers.values, headers.header_count)
    pairs = pa.StructArray.from_arrays([names, header_values], names=["key", "value"])
    validity = pa.py_buffer(headers.validity) if headers.validity is not None else None
    lists = pa.Array.from_buffers(
        pa.list_(pairs.type),
        count,
        [validity, pa.py_buffer(headers.offsets)],
        headers.null_count,
        children=[pairs],
    )
    lists.validate(full=True)
    return [
        Record(offset, time_ms, key, value, tuple((h["key"], h["value"]) for h in row_headers or ()))
        for offset, time_ms, key, value, row_headers in zip(
            *(array.to_pylist() for array in (offsets, times, keys, values, lists)), strict=True
        )
    ]


class TestDecodingOnEachCore:
    @few
    @given(several=st.lists(regions(), max_size=3))
    def test_arrow_reads_what_the_records_say(self, core: ModuleType, several: list[Region]) -> None:
        columns = core.decode_columns(several, Want.ALL, *EVERYTHING)
        expected = [record for region in several for record in _pure.decode_region(*region)]
        assert as_rows(columns) == expected

    def test_a_record_without_headers_has_a_null(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, 0), Record(1, 0, None, None, (("h", None),))], 0, 0)
        headers = core.decode_columns([Region(data, 2, 0, 0, None)], Want.HEADERS, *EVERYTHING).headers
        assert (headers.null_count, headers.validity, headers.header_count) == (1, b"\x02", 1)

    def test_a_column_without_nulls_needs_no_bitmap(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, 0, b"", b"x")], 0, 0)
        columns = core.decode_columns([Region(data, 1, 0, 0, None)], Want.ALL, *EVERYTHING)
        assert columns.key.validity is None
        assert columns.value.null_count == 0

    def test_the_timestamp_type_tells_whose_clock_it_was(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, TIME_MS)], 0, TIME_MS)
        both = [Region(data, 1, 0, TIME_MS, None), Region(data, 1, 1, TIME_MS, TIME_MS + 7)]
        columns = core.decode_columns(both, Want.TIMESTAMP | Want.TIMESTAMP_TYPE, *EVERYTHING)
        assert list(memoryview(columns.timestamp_type).cast("i")) == [0, 1]
        assert list(memoryview(columns.timestamp_ms).cast("q")) == [TIME_MS, TIME_MS + 7]
        assert columns.key is None

    @pytest.mark.parametrize(
        ("first", "until", "expected"),
        [(0, 10, [4, 5, 6]), (5, 6, [5]), (6, 6, []), (7, 100, []), (-5, 5, [4])],
    )
    def test_records_outside_the_range_are_left_out(
        self, core: ModuleType, first: int, until: int, expected: list[int]
    ) -> None:
        data = _pure.encode_region([Record(offset, 0) for offset in (4, 5, 6)], 4, 0)
        columns = core.decode_columns([Region(data, 3, 4, 0, None)], Want.OFFSET, first, until)
        assert list(memoryview(columns.offset).cast("q")) == expected
        assert columns.row_count == len(expected)

    def test_records_outside_the_range_are_checked_all_the_same(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(4, 0)], 4, 0)
        with pytest.raises(DecodeError):
            core.decode_columns([Region(data + b"\x00", 1, 4, 0, None)], Want.OFFSET, 100, 200)

    def test_names_that_are_not_utf8_are_replaced_one_by_one(self, core: ModuleType) -> None:
        # Each half is broken, though together they would be one character.
        data = bytearray(_pure.encode_region([Record(0, 0, None, None, (("a", b"x"), ("b", None)))], 0, 0))
        data[data.index(b"a")] = 0xC3
        data[data.index(b"b")] = 0xA4
        [record] = as_rows(core.decode_columns([Region(data, 1, 0, 0, None)], Want.ALL, *EVERYTHING))
        assert record.headers == (("\ufffd", b"x"), ("\ufffd", None))

    def test_no_regions_make_empty_columns(self, core: ModuleType) -> None:
        columns = core.decode_columns([], Want.ALL, *EVERYTHING)
        assert columns.row_count == 0
        assert columns.key == BinaryColumn(0, None, bytearray(4), bytearray())

    def test_more_than_offsets_can_count_is_refused(self, core: ModuleType) -> None:
        data = bytes(1 << 20)
        many = [Region(data, 0, 0, 0, None)] * 2048
        with pytest.raises(ValueError, match="fewer regions"):
            core.decode_columns(many, Want.ALL, *EVERYTHING)

    def test_replaced_names_that_outgrow_the_column_are_refused(self, core: ModuleType) -> None:
        # U+FFFD takes three bytes: names that fit as they came need not fit as text.
        data = _pure.encode_region([Record(0, 0, None, None, (("x" * 100, None),))], 0, 0)
        broken = data.replace(b"x" * 100, b"\xff" * 100)
        limit = len(data) + 20
        assert core.decode_columns([Region(data, 1, 0, 0, None)], Want.ALL, *EVERYTHING, limit).row_count == 1
        with pytest.raises(ValueError, match="300 bytes do not fit one column"):
            core.decode_columns([Region(broken, 1, 0, 0, None)], Want.ALL, *EVERYTHING, limit)

    def test_a_region_is_measured_in_bytes_whatever_its_items_are(self, core: ModuleType) -> None:
        data = _pure.encode_region([Record(0, 0, b"k" * 50, b"v" * 50), Record(1, 0, None, b"v" * 100)], 0, 0)
        data += _pure.encode_region([Record(2, 0, b"", b"v" * (-(len(data) + 7) % 8))], 0, 0)
        wide = memoryview(data).cast("q")
        assert len(wide) * 8 == len(data)
        expected = core.decode_columns([Region(data, 3, 0, 0, None)], Want.ALL, *EVERYTHING)
        assert core.decode_columns([Region(wide, 3, 0, 0, None)], Want.ALL, *EVERYTHING) == expected
        with pytest.raises(ValueError, match="fewer regions"):
            core.decode_columns([Region(wide, 3, 0, 0, None)], Want.ALL, *EVERYTHING, len(wide))


class TestDecodingOnBothCores:
    @many
    @given(
        st.lists(regions() | damaged_regions(), max_size=3),
        st.integers(0, int(Want.ALL)),
        int64s | st.just(0),
        int64s | st.just(2**63 - 1),
    )
    def test_they_make_the_same_columns(
        self, several: list[Region], wanted: int, first: int, until: int
    ) -> None:
        compiled = compiled_core()
        arguments = (several, wanted, first, until)
        assert outcome(partial(compiled.decode_columns, *arguments)) == outcome(
            partial(_pure.decode_columns, *arguments)
        )


def binary_input(array: Any) -> BinaryInput:
    validity, offsets, values = array.buffers()
    return BinaryInput(validity, offsets, values, array.offset)


def fixed_input(array: Any) -> FixedInput:
    validity, values = array.buffers()
    return FixedInput(validity, values, array.offset)


def headers_input(array: Any) -> HeadersInput:
    validity, offsets = array.buffers()[:2]
    pairs = array.values  # the child as a whole, whatever slice the list is
    names, values = pairs.field("key"), pairs.field("value")
    return HeadersInput(validity, offsets, binary_input(names), binary_input(values), array.offset)


HEADER_LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Table:
    """Rows as Arrow arrays, sliced so that nothing starts at its buffer's start."""

    def __init__(self, rows: list[Record], skip: int) -> None:
        padded = [Record(0, 77, b"skipped", None, (("skipped", b"x"),))] * skip + rows
        self.rows = rows
        self.key = pa.array([r.key for r in padded], pa.binary())[skip:]
        self.value = pa.array([r.value for r in padded], pa.binary())[skip:]
        times = [None if r.timestamp_ms == -1 else r.timestamp_ms for r in padded]
        self.timestamp_ms = pa.array(times, pa.int64())[skip:]
        lists = [[{"key": k, "value": v} for k, v in r.headers] or None for r in padded]
        self.headers = pa.array(lists, HEADER_LIST)[skip:]

    def arguments(self, partitions: bytearray, max_region_bytes: int) -> tuple[Any, ...]:
        return (
            len(self.rows),
            partitions,
            binary_input(self.key),
            binary_input(self.value),
            headers_input(self.headers),
            fixed_input(self.timestamp_ms),
            TIME_MS,
            max_region_bytes,
        )


tables = st.builds(
    Table,
    st.lists(st.builds(Record, st.just(0), timestamps, blobs, blobs, header_lists), max_size=12),
    st.integers(0, 9),
)


class TestEncodingOnEachCore:
    @few
    @given(table=tables, partition_count=st.integers(1, 4), max_bytes=st.integers(0, 700))
    def test_rows_come_back_as_records_of_their_partition(
        self, core: ModuleType, table: Table, partition_count: int, max_bytes: int
    ) -> None:
        partitions = core.partition_rows(
            len(table.rows), binary_input(table.key), None, partition_count, partition_count - 1
        )
        regions = core.encode_columns(*table.arguments(partitions, max_bytes))
        found: dict[int, list[Record]] = {}
        for region in regions:
            assert region.record_count == 1 or len(region.data) <= max_bytes
            decoded = _pure.decode_region(region.data, region.record_count, 0, region.base_timestamp_ms)
            assert [record.offset for record in decoded] == list(range(region.record_count))
            assert region.max_timestamp_ms == max(record.timestamp_ms for record in decoded)
            found.setdefault(region.partition, []).extend(decoded)
        expected: dict[int, list[Record]] = {}
        for row in table.rows:
            partition = partition_count - 1
            if row.key is not None:
                partition = partition_for_key(row.key, partition_count)
            time_ms = TIME_MS if row.timestamp_ms == -1 else row.timestamp_ms
            expected.setdefault(partition, []).append(row._replace(timestamp_ms=time_ms))
        assert {p: [r._replace(offset=0) for r in rs] for p, rs in found.items()} == expected
        assert [region.partition for region in regions] == sorted(region.partition for region in regions)

    def test_a_given_partition_goes_before_the_key(self, core: ModuleType) -> None:
        key = pa.array([b"abc", b"abc", None, None], pa.binary())
        given_partitions = pa.array([2, None, 1, None], pa.int32())
        chosen = core.partition_rows(4, binary_input(key), fixed_input(given_partitions), 3, 0)
        assert list(memoryview(chosen).cast("i")) == [2, partition_for_key(b"abc", 3), 1, 0]

    @pytest.mark.parametrize("partition", [-1, 3, 2**31 - 1])
    def test_a_partition_that_is_not_there_is_refused(self, core: ModuleType, partition: int) -> None:
        asked = fixed_input(pa.array([partition], pa.int32()))
        with pytest.raises(ValueError, match="partition"):
            core.partition_rows(1, None, asked, 3, 0)

    def test_without_columns_records_are_empty_and_keyless(self, core: ModuleType) -> None:
        partitions = core.partition_rows(2, None, None, 5, 4)
        [region] = core.encode_columns(2, partitions, None, None, None, None, TIME_MS, 1000)
        assert region.partition == 4
        assert _pure.decode_region(region.data, 2, 0, TIME_MS) == [Record(0, TIME_MS), Record(1, TIME_MS)]

    def test_partitions_may_be_far_apart(self, core: ModuleType) -> None:
        far = bytearray(pa.array([2**31 - 1, 7, 2**31 - 1], pa.int32()).buffers()[1].to_pybytes()[:12])
        encoded = core.encode_columns(3, far, None, None, None, None, TIME_MS, 1000)
        assert [(region.partition, region.record_count) for region in encoded] == [(7, 1), (2**31 - 1, 2)]

    def test_a_header_without_a_key_is_refused(self, core: ModuleType) -> None:
        lists = pa.array([[{"key": None, "value": b"x"}]], HEADER_LIST)
        with pytest.raises(ValueError, match="row 0"):
            core.encode_columns(1, bytes(4), None, None, headers_input(lists), None, 0, 1000)

    def test_no_rows_make_no_regions(self, core: ModuleType) -> None:
        assert core.partition_rows(0, None, None, 1, 0) == b""
        assert core.encode_columns(0, b"", None, None, None, None, 0, 1000) == []


loose_buffers = st.binary(max_size=40)
loose_offsets = st.lists(st.integers(-3, 30), max_size=8).map(
    lambda numbers: b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)
)
loose_binaries = st.builds(
    BinaryInput, st.none() | loose_buffers, loose_offsets, st.none() | loose_buffers, st.integers(-2, 4)
)
loose_numbers = st.builds(FixedInput, st.none() | loose_buffers, loose_buffers, st.integers(-2, 4))
loose_headers = st.builds(
    HeadersInput, st.none() | loose_buffers, loose_offsets, loose_binaries, loose_binaries, st.integers(-2, 4)
)


class TestEncodingOnBothCores:
    @few
    @given(tables, st.integers(1, 5), st.integers(0, 900))
    def test_they_encode_alike(self, table: Table, partition_count: int, max_bytes: int) -> None:
        compiled = compiled_core()
        key = binary_input(table.key)
        partitions = _pure.partition_rows(len(table.rows), key, None, partition_count, 0)
        assert compiled.partition_rows(len(table.rows), key, None, partition_count, 0) == partitions
        arguments = table.arguments(partitions, max_bytes)
        assert compiled.encode_columns(*arguments) == _pure.encode_columns(*arguments)

    @many
    @given(
        st.integers(-1, 6),
        loose_offsets,
        st.none() | loose_binaries,
        st.none() | loose_binaries,
        st.none() | loose_headers,
        st.none() | loose_numbers,
        st.integers(0, 200),
    )
    def test_they_take_and_refuse_any_buffers_alike(
        self,
        row_count: int,
        partitions: bytes,
        key: BinaryInput | None,
        value: BinaryInput | None,
        headers: HeadersInput | None,
        numbers: FixedInput | None,
        max_bytes: int,
    ) -> None:
        compiled = compiled_core()
        arguments = (row_count, partitions, key, value, headers, numbers, TIME_MS, max_bytes)
        assert outcome(partial(compiled.encode_columns, *arguments)) == outcome(
            partial(_pure.encode_columns, *arguments)
        )
        wishes = (row_count, key, numbers, 5, 1)
        assert outcome(partial(compiled.partition_rows, *wishes)) == outcome(
            partial(_pure.partition_rows, *wishes)
        )
