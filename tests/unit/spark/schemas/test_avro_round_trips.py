"""Values of random Avro schemas: as columns, written again, and read by other versions of their schema."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avro_schemas import Typed, records
from klamm.schemas.registry_client import RegisteredSchema
from klamm.spark.schemas.avro import AvroReader
from klamm.spark.schemas.avro_types import avro_type
from klamm.spark.schemas.avro_values import value_maker


def registered(schema: Any, schema_id: int = 1) -> RegisteredSchema:
    return RegisteredSchema(schema_id, "AVRO", json.dumps(schema))


def payload(schema: Any, value: Any) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(made, fastavro.parse_schema(schema), value)
    return made.getvalue()


@given(records(), st.data())
def test_what_is_read_and_written_again_is_the_same(case: Typed, data: st.DataObject) -> None:
    schema = registered(case.schema)
    reader = AvroReader(schema)
    given_bytes = [payload(case.schema, each) for each in data.draw(st.lists(case.values, max_size=4))]
    column = reader.read(schema, given_bytes)
    assert column.type == avro_type(schema).arrow
    made = value_maker(avro_type(schema))
    again = [payload(case.schema, made(each)) for each in column.to_pylist(maps_as_pydicts="strict")]
    assert reader.read(schema, again).equals(column)


def evolved(written: Any, value: Any, wanted: Any) -> Any:
    """A value of one type, read as another one, in a record."""
    old, new = (
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": each}]} for each in (written, wanted)
    )
    column = AvroReader(registered(new, 2)).read(registered(old), [payload(old, {"x": value})])
    return column.to_pylist()[0]["x"]


A = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}
WIDE = {
    "type": "record",
    "name": "A",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
}
ENUM = {"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}
NARROW = {"type": "enum", "name": "E", "symbols": ["RED", "OTHER"], "default": "OTHER"}


@pytest.mark.parametrize(
    ("written", "value", "wanted", "read"),
    [
        ("int", 5, "long", 5),
        ("int", 5, "double", 5.0),
        ("long", 5, "float", 5.0),
        ("string", "x", "bytes", b"x"),
        ("bytes", b"x", "string", "x"),
        ("int", 5, ["null", "long"], 5),
        (["null", "int"], None, ["null", "long"], None),
        (["null", "int"], 5, "int", 5),
        (["int", "string"], "x", "string", "x"),
        ("string", "x", ["int", "string"], {"member0": None, "member1": "x"}),
        (
            ["string", "boolean"],
            True,
            ["boolean", "string", "bytes"],
            {"member0": True, "member1": None, "member2": None},
        ),
        ({"type": "array", "items": "int"}, [1, 2], {"type": "array", "items": "long"}, [1, 2]),
        (
            {"type": "map", "values": A},
            {"k": {"a": 1}},
            {"type": "map", "values": WIDE},
            [("k", {"a": 1, "b": "none"})],
        ),
        (["null", A], None, ["null", WIDE], None),
        (ENUM, "BLUE", NARROW, "OTHER"),
        (ENUM, "RED", NARROW, "RED"),
    ],
)
def test_a_schema_that_has_changed_reads_what_an_earlier_one_wrote(
    written: Any, value: Any, wanted: Any, read: Any
) -> None:
    assert evolved(written, value, wanted) == read


@pytest.mark.parametrize(
    ("written", "value", "wanted", "said"),
    [
        ("long", 5, "int", "int was written as long"),
        (["null", "int"], None, "int", "field x was written as null"),
        (["int", "string"], "x", "int", "int was written as string"),
        ("boolean", True, ["int", "string"], "no branch for boolean"),
        (ENUM, "BLUE", {"type": "enum", "name": "E", "symbols": ["RED"]}, "no symbol BLUE"),
        ({"type": "array", "items": ["null", "int"]}, [None], {"type": "array", "items": "int"}, "null was"),
    ],
)
def test_what_the_new_schema_cannot_hold_is_an_error(
    written: Any, value: Any, wanted: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        evolved(written, value, wanted)


def test_fields_are_found_by_their_former_names_and_defaults_may_be_of_any_type() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "was", "type": "int"}]}
    fields = [
        {"name": "now", "aliases": ["was"], "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]},
        {"name": "map", "type": {"type": "map", "values": "int"}, "default": {"k": 2}},
        {"name": "of", "type": ["string", "int"], "default": "x"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "within", "type": A, "default": {"a": 3}},
    ]
    new = {"type": "record", "name": "R", "fields": fields}
    column = AvroReader(registered(new, 2)).read(registered(old), [payload(old, {"was": n}) for n in (7, 8)])
    assert isinstance(column, pa.StructArray)
    rows = column.to_pylist()
    assert [row.pop("now") for row in rows] == [7, 8]
    assert [row.pop("at").timestamp() for row in rows] == [0, 0]
    rest = {"list": [1], "map": [("k", 2)], "of": {"member0": "x", "member1": None}, "raw": b"\xff"}
    assert rows == [{**rest, "within": {"a": 3}}] * 2
