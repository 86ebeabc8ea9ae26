"""Records in and out of a region, on both cores."""

from __future__ import annotations

import tracemalloc
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records import _pure
from klamm.records.arrow import Region
from klamm.records.record import Record
from unit.records.cores import compiled_core, outcome
from unit.records.properties import few, many
from unit.records.samples import TIME_MS
from unit.records.strategies import batches_of_records, damaged_regions, regions


class TestEachCore:
    @few
    @given(records=batches_of_records())
    def test_what_is_encoded_is_decoded(self, core: ModuleType, records: list[Record]) -> None:
        base = records[0].offset
        region = core.encode_region(records, base, TIME_MS)
        decoded = core.decode_region(region, len(records), base, TIME_MS)
        assert decoded == records
        assert all(type(record) is Record for record in decoded)

    @few
    @given(records=batches_of_records())
    def test_append_time_replaces_the_records_own(self, core: ModuleType, records: list[Record]) -> None:
        base = records[0].offset
        region = core.encode_region(records, base, 0)
        decoded = core.decode_region(region, len(records), base, 0, TIME_MS)
        assert decoded == [record._replace(timestamp_ms=TIME_MS) for record in records]

    def test_fields_may_be_any_buffer(self, core: ModuleType) -> None:
        record = Record(0, 0, b"key", b"value", (("h", b"x"),))
        lent = (0, 0, bytearray(b"key"), memoryview(b"value"), [("h", bytearray(b"x"))])
        assert core.encode_region([lent], 0, 0) == core.encode_region([record], 0, 0)

    @pytest.mark.parametrize("field", ["text", 7])
    def test_a_field_that_is_no_buffer_is_a_type_error(self, core: ModuleType, field: object) -> None:
        with pytest.raises(TypeError):
            core.encode_region([(0, 0, field, None, ())], 0, 0)

    @pytest.mark.parametrize(
        ("offset", "timestamp_ms"),
        [(9, 0), (10 + 2**31, 0), (10, 2**63), (10, -(2**63) - 1), (2**64, 0)],
    )
    def test_numbers_that_do_not_fit_are_refused(
        self, core: ModuleType, offset: int, timestamp_ms: int
    ) -> None:
        with pytest.raises(ValueError, match=r"fit|64 bits"):
            core.encode_region([Record(offset, timestamp_ms)], 10, 0)

    def test_header_names_that_are_not_utf8_are_replaced(self, core: ModuleType) -> None:
        region = bytearray(core.encode_region([Record(0, 0, None, None, (("ab", None),))], 0, 0))
        region[region.index(b"ab")] = 0xFF
        [record] = core.decode_region(region, 1, 0, 0)
        assert record.headers == (("\ufffdb", None),)

    def test_a_hostile_time_delta_wraps_around_as_in_java(self, core: ModuleType) -> None:
        region = core.encode_region([Record(0, 2**63 - 1)], 0, 0)
        [record] = core.decode_region(region, 1, 0, 10)
        assert record.timestamp_ms == -(2**63) + 9

    def test_an_offset_beyond_64_bits_is_refused(self, core: ModuleType) -> None:
        region = core.encode_region([Record(5, 0)], 0, 0)
        with pytest.raises(DecodeError):
            core.decode_region(region, 1, 2**63 - 5, 0)

    @pytest.mark.parametrize("count", [-1, 2**31 - 1])
    def test_a_count_that_cannot_be_allocates_nothing(self, core: ModuleType, count: int) -> None:
        tracemalloc.start()
        try:
            with pytest.raises(DecodeError):
                core.decode_region(bytes(1000), count, 0, 0)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < 1_000_000  # other threads of the test run allocate a little, too

    @pytest.mark.parametrize(
        "region",
        [
            "",  # nothing
            "0e0000000101",  # ends before its header count
            "0e00000001010000",  # a byte too many
            "100000000101000a",  # longer than what is left
            "0c00000001010000",  # shorter than its fields
            "0e00000001010e",  # seven headers in no bytes
            "0e000000010101",  # minus one headers
            "0e000001010100",  # a negative offset delta
            "1200000001010201010000",  # a header without a key
            "ffffffffff0f",  # a varint without an end
        ],
    )
    def test_a_record_that_is_not_what_it_claims_is_refused(self, core: ModuleType, region: str) -> None:
        with pytest.raises(DecodeError):
            core.decode_region(bytes.fromhex(region), 1, 0, 0)

    def test_the_smallest_record_takes_seven_bytes(self, core: ModuleType) -> None:
        assert core.decode_region(bytes.fromhex("0c000000010100"), 1, 3, 4) == [Record(3, 4)]

    def test_an_empty_region_holds_no_records(self, core: ModuleType) -> None:
        assert core.decode_region(b"", 0, 0, 0) == []
        assert core.encode_region([], 0, 0) == b""

    @few
    @given(region=st.binary(max_size=120), count=st.integers(0, 5))
    def test_any_bytes_are_records_or_a_decode_error(
        self, core: ModuleType, region: bytes, count: int
    ) -> None:
        try:
            records = core.decode_region(region, count, 0, 0)
        except DecodeError:
            return
        assert len(records) == count


class TestBothCores:
    @many
    @given(damaged_regions())
    def test_they_decode_and_refuse_alike(self, region: Region) -> None:
        compiled = compiled_core()
        assert outcome(lambda: compiled.decode_region(*region)) == outcome(
            lambda: _pure.decode_region(*region)
        )

    @few
    @given(regions())
    def test_they_encode_alike(self, region: Region) -> None:
        records = _pure.decode_region(*region)
        expected = _pure.encode_region(records, region.base_offset, region.base_timestamp_ms)
        compiled = compiled_core()
        assert compiled.encode_region(records, region.base_offset, region.base_timestamp_ms) == expected
