"""A batch that grows record by record, on both cores."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.records import _pure
from klamm.records.record import Record
from unit.records.cores import compiled_core
from unit.records.properties import few, many
from unit.records.strategies import batches_of_records

NO_LIMIT = 1 << 30


class BatchOf:
    """A batch that has a builder, and nothing else."""

    def __init__(self, core: ModuleType, limit_bytes: int = NO_LIMIT) -> None:
        self.builder = core.BatchBuilder(limit_bytes)


def filled(core: ModuleType, records: list[Record], limit_bytes: int = NO_LIMIT) -> tuple[Any, list[int]]:
    """A builder that was offered these records, and the index each was given."""
    builder = core.BatchBuilder(limit_bytes)
    return builder, [builder.append(*record[1:]) for record in records]


class TestEachCore:
    @few
    @given(records=batches_of_records())
    def test_what_is_added_is_found_in_the_region(self, core: ModuleType, records: list[Record]) -> None:
        builder, indexes = filled(core, records)
        expected = [record._replace(offset=index) for index, record in enumerate(records)]
        assert indexes == list(range(len(records)))
        assert builder.record_count == len(records)
        region = builder.region()
        assert builder.size_bytes == len(region)
        assert core.decode_region(region, len(records), 0, builder.base_timestamp_ms) == expected
        assert builder.base_timestamp_ms == records[0].timestamp_ms
        assert builder.max_timestamp_ms == max(record.timestamp_ms for record in records)

    @few
    @given(records=batches_of_records())
    def test_it_writes_what_encoding_all_at_once_writes(
        self, core: ModuleType, records: list[Record]
    ) -> None:
        builder, _ = filled(core, records)
        numbered = [record._replace(offset=index) for index, record in enumerate(records)]
        assert builder.region() == core.encode_region(numbered, 0, records[0].timestamp_ms)

    def test_a_first_record_finds_room_and_the_next_only_within_the_limit(self, core: ModuleType) -> None:
        builder, indexes = filled(core, [Record(0, 0, None, b"x" * 100)] * 2, limit_bytes=50)
        assert indexes == [0, -1]
        assert (builder.record_count, builder.size_bytes) == (1, len(builder.region()))

    def test_a_record_may_fill_the_limit_to_the_last_byte(self, core: ModuleType) -> None:
        one, _ = filled(core, [Record(0, 0, b"k", b"v")])
        assert filled(core, [Record(0, 0, b"k", b"v")] * 3, 2 * one.size_bytes)[1] == [0, 1, -1]
        assert filled(core, [Record(0, 0, b"k", b"v")] * 3, 2 * one.size_bytes - 1)[1] == [0, -1, -1]

    def test_times_are_known_after_the_bytes_were_let_go(self, core: ModuleType) -> None:
        builder, _ = filled(core, [Record(0, when_ms) for when_ms in range(100, 200)])
        builder.release()
        assert [builder.timestamp_of(index) for index in (0, 99)] == [100, 199]
        assert (builder.size_bytes, builder.region(), builder.record_count) == (0, b"", 100)
        assert builder.append(1, None, None) == -1
        for index in (-1, 100):
            with pytest.raises(IndexError):
                builder.timestamp_of(index)

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ((2**63, None, None), ValueError),
            ((-(2**63) - 1, None, None), ValueError),
            ((0, "text", None), TypeError),
            ((0, None, 7), TypeError),
            ((0, None, None, [("name", "text")]), TypeError),
            ((0, None, None, [(7, None)]), (TypeError, AttributeError)),
        ],
    )
    def test_what_is_no_record_leaves_no_trace(
        self, core: ModuleType, arguments: tuple[Any, ...], error: type[Exception]
    ) -> None:
        builder, _ = filled(core, [Record(0, 5, b"a", b"b")])
        before = bytes(builder.region())
        with pytest.raises(error):
            builder.append(*arguments)
        assert (builder.region(), builder.record_count, builder.max_timestamp_ms) == (before, 1, 5)
        assert builder.append(6, None, None) == 1

    def test_a_closed_batch_keeps_its_records_and_takes_no_more(self, core: ModuleType) -> None:
        builder, _ = filled(core, [Record(0, 5, b"a", b"b")])
        before = bytes(builder.region())
        builder.close()
        assert builder.is_closed
        assert builder.append(6, None, None) == -1
        assert (builder.region(), builder.record_count) == (before, 1)

    def test_an_open_batch_is_found_by_its_name_and_answers_with_the_place(self, core: ModuleType) -> None:
        places = core.OpenBatches(core.Place)
        first, second = BatchOf(core), BatchOf(core)
        places["t"] = first
        places["t", 3] = second
        assert places.append("t", 7, None, b"x")._batch is first
        found = places.append(("t", 3), 8, b"k", None)
        again = places.append(("t", 3), 9, b"k", None)
        assert [(item._batch, item._index) for item in (found, again)] == [(second, 0), (second, 1)]
        assert [second.builder.timestamp_of(index) for index in (0, 1)] == [8, 9]
        assert (places.get("t"), places.pop("t"), places.get("t"), places.pop("t")) == (
            first,
            first,
            None,
            None,
        )

    def test_without_an_open_batch_or_room_there_is_no_place(self, core: ModuleType) -> None:
        places = core.OpenBatches(core.Place)
        assert places.append("t", 7, None, b"x") is None
        places["t"] = batch = BatchOf(core, limit_bytes=50)
        assert places.append("t", 7, None, b"x" * 100) is not None
        assert places.append("t", 7, None, b"x") is None  # full
        places["t"] = batch = BatchOf(core)
        batch.builder.close()
        assert places.append("t", 7, None, b"x") is None

    def test_places_are_of_the_kind_that_was_asked_for(self, core: ModuleType) -> None:
        class Own(core.Place):  # type: ignore[name-defined,misc]  # whichever core it is
            """A place that knows more."""

        places = core.OpenBatches(Own)
        places["t"] = batch = BatchOf(core)
        place = places.append("t", 7, None, b"x")
        assert type(place) is Own
        assert (place._batch, place._index) == (batch, 0)
        made = Own(batch, 5)
        assert (made._batch, made._index) == (batch, 5)
        with pytest.raises(TypeError):
            core.OpenBatches(dict)

    def test_what_is_no_record_is_refused_by_an_open_batch_too(self, core: ModuleType) -> None:
        places = core.OpenBatches(core.Place)
        places["t"] = batch = BatchOf(core)
        with pytest.raises(TypeError):
            places.append("t", 7, None, "text")
        with pytest.raises(ValueError, match="64 bits"):
            places.append("t", 2**63, None, b"x")
        assert batch.builder.record_count == 0


class TestBothCores:
    @many
    @given(batches_of_records(), st.integers(0, 1500))
    def test_they_build_alike(self, records: list[Record], limit_bytes: int) -> None:
        pure, pure_indexes = filled(_pure, records, limit_bytes)
        compiled, indexes = filled(compiled_core(), records, limit_bytes)
        assert indexes == pure_indexes
        assert compiled.region() == pure.region()
        for name in ("record_count", "size_bytes", "base_timestamp_ms", "max_timestamp_ms"):
            assert getattr(compiled, name) == getattr(pure, name)
        kept = range(pure.record_count)
        assert [compiled.timestamp_of(i) for i in kept] == [pure.timestamp_of(i) for i in kept]
