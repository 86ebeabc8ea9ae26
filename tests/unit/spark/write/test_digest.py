"""The digest of rows: of what they are, not of how they come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.spark.write.digest import RowDigest

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[dict[str, Any]] | None, int | None]

names = st.text("abc", max_size=2)
texts = st.none() | st.binary(max_size=4)
headers = st.none() | st.lists(st.fixed_dictionaries({"key": names, "value": texts}), max_size=2)
rows = st.lists(st.tuples(texts, texts, headers, st.none() | st.integers(0, 2)), max_size=6)


def batch(found: list[Row]) -> pa.RecordBatch:
    kinds = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS, "partition": pa.int32()}
    columns = [[row[index] for row in found] for index in range(4)]
    return pa.record_batch(
        [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)],
        names=list(kinds),
    )


def digest(*batches: pa.RecordBatch) -> str:
    made = RowDigest()
    assert list(made.over(batches)) == list(batches)
    return made.hexdigest()


@given(rows, st.data())
def test_the_division_into_batches_does_not_matter(found: list[Row], data: st.DataObject) -> None:
    whole = batch(found)
    cut = data.draw(st.integers(0, len(found)))
    assert digest(whole.slice(0, cut), whole.slice(cut)) == digest(whole, whole.slice(0, 0))


@given(rows, rows)
def test_other_rows_have_another_digest(found: list[Row], others: list[Row]) -> None:
    assert (digest(batch(found)) == digest(batch(others))) == (found == others)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_the_layout_of_a_column_does_not_matter(kind: pa.DataType) -> None:
    plain = pa.array([b"a", None, b"bc"], pa.binary())
    assert digest(pa.record_batch({"value": plain})) == digest(
        pa.record_batch({"value": plain.cast(pa.string()).cast(kind)})
    )


def test_other_columns_do_not_count() -> None:
    assert digest(pa.record_batch({"value": ["a"], "x": [1]})) == digest(pa.record_batch({"value": ["a"]}))
