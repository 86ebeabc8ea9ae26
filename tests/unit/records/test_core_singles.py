"""Batches of one record, and stamped copies of batches, on both cores."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.records import _pure
from klamm.records.batch import parse_header, stamp
from klamm.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from klamm.records.record import Record, decode_records, encode_batch
from unit.records.cores import compiled_core
from unit.records.properties import many
from unit.records.samples import DATA, TIME_MS

FIELDS = st.none() | st.binary(max_size=300)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
KINDS = st.sampled_from([0, TRANSACTIONAL_BIT, TRANSACTIONAL_BIT | CONTROL_BIT])


class TestEachCore:
    def test_one_record_is_a_batch_as_any_other(self, core: ModuleType) -> None:
        batch = core.encode_one(b"key", None, TIME_MS, 7, 3, TRANSACTIONAL_BIT)
        record = Record(0, TIME_MS, b"key", None)
        assert batch == encode_batch([record], producer_id=7, producer_epoch=3, transactional=True)
        assert decode_records(batch) == [record]

    def test_a_stamped_copy_has_its_place_and_the_original_is_as_it_was(self, core: ModuleType) -> None:
        original = bytes(DATA)
        copy = core.stamped(memoryview(original), 1 << 40, 9)
        expected = bytearray(original)
        stamp(expected, 1 << 40, 9)
        assert copy == expected
        assert original == DATA
        assert parse_header(copy).base_offset == 1 << 40

    def test_less_than_a_header_is_not_stamped(self, core: ModuleType) -> None:
        with pytest.raises(ValueError, match="60 bytes"):
            core.stamped(DATA[:60], 0, 0)

    @pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
    def test_a_number_that_does_not_fit_is_refused(self, core: ModuleType, number: int) -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 - the twin's struct has its own
            core.encode_one(b"", b"", number)


@many
@given(key=FIELDS, value=FIELDS, timestamp_ms=INT64, producer_id=INT64, epoch=INT16, kind=KINDS)
def test_both_cores_make_the_same_batch(
    key: bytes | None, value: bytes | None, timestamp_ms: int, producer_id: int, epoch: int, kind: int
) -> None:
    made = [
        core.encode_one(key, value, timestamp_ms, producer_id, epoch, kind)
        for core in (_pure, compiled_core())
    ]
    assert made[0] == made[1]
