"""Avro schemas: what is one, its canonical form, and Avro's rules of schema resolution."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.registry.formats.avro import AvroFormat, AvroSchema
from klamm.registry.formats.base import SchemaError


def parsed(schema: Any, **references: Any) -> AvroSchema:
    texts = {name: json.dumps(each) for name, each in references.items()}
    return AvroFormat().parse(schema if isinstance(schema, str) else json.dumps(schema), texts)


def record(*fields: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **rest}


def field(name: str, kind: Any, **rest: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **rest}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not JSON"),
        ('"text"', "unknown type text"),
        ('{"type": "record"}', "name"),
        ("5", "not an Avro schema"),
        ('{"type": "record", "name": "1a", "fields": []}', "invalid name '1a'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}', "invalid name 'a b'"),
        (json.dumps(record(field("a", "int"), field("a", "int"))), "field a is there twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type":"array","items":' * 5000 + '"int"' + "}" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parsed(schema)


def test_the_canonical_form_has_avros_order_and_names_relative_to_the_namespace() -> None:
    schema = {
        "fields": [
            {"type": {"type": "int"}, "name": "a", "order": "ascending"},
            {"default": None, "name": "next", "type": ["null", "x.y.R"]},
        ],
        "namespace": "x.y",
        "name": "R",
        "aliases": ["Q"],
        "type": "record",
        "owner": "us",
    }
    assert parsed(schema).text == (
        '{"type":"record","name":"R","namespace":"x.y","fields":[{"name":"a","type":"int"},'
        '{"name":"next","type":["null","R"],"default":null}],"owner":"us","aliases":["Q"]}'
    )
    assert parsed({**schema, "name": "x.y.R"}).text == parsed(schema).text
    assert parsed("string").text == parsed('{"type": "string"}').text == '"string"'


def test_a_schema_may_use_one_that_it_refers_to() -> None:
    inner = {"type": "record", "name": "Inner", "namespace": "n", "fields": [field("a", "int")]}
    wider = {"type": "record", "name": "Inner", "namespace": "n", "fields": [field("a", "long")]}
    outer = record(field("inner", "n.Inner"))
    assert not parsed(outer, inner=wider).unreadable(parsed(outer, inner=inner))
    assert parsed(outer, inner=inner).unreadable(parsed(outer, inner=wider)) == [
        "TYPE_MISMATCH at /fields/0/type/fields/0/type/: the reader has int, the writer long"
    ]
    with pytest.raises(SchemaError, match=r"unknown type n\.Inner"):
        parsed(outer)


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        ("long", "int", ""),
        ("int", "long", "TYPE_MISMATCH"),
        ("string", "bytes", ""),
        (["null", "int"], "int", ""),
        ("int", ["null", "int"], "MISSING_UNION_BRANCH"),
        (["null", "string"], ["null", "int"], "MISSING_UNION_BRANCH"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "TYPE_MISMATCH at /values/"),
        (record(field("a", "int", default=0)), record(), ""),
        (record(field("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE"),
        (record(), record(field("a", "int")), ""),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), ""),
        (record(), {**record(), "name": "S"}, "NAME_MISMATCH"),
        (record(aliases=["S"]), {**record(), "name": "S"}, ""),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "MISSING_ENUM_SYMBOLS at /symbols: B",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "",
        ),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            "FIXED_SIZE_MISMATCH",
        ),
    ],
)
def test_schema_resolution_is_avros(reader: Any, writer: Any, problem: str) -> None:
    found = parsed(reader).unreadable(parsed(writer))
    assert [each.startswith(problem) for each in found] == ([True] if problem else [])


def test_a_schema_that_contains_itself_is_compared_once() -> None:
    narrow = record(field("value", "int"), field("next", ["null", "R"]))
    wide = record(field("value", "long"), field("next", ["null", "R"]))
    assert not parsed(wide).unreadable(parsed(narrow))
    assert parsed(narrow).unreadable(parsed(wide))


def test_unions_in_unions_are_refused_before_they_take_minutes() -> None:
    def nested(last: str) -> AvroSchema:
        names = [f"R{number}" for number in range(30)]
        references = {"R30": {"type": "record", "name": "R30", "fields": [field("a", last)]}}
        for name, inner in zip(reversed(names), reversed([*names[1:], "R30"]), strict=True):
            kinds = [field(each, ["null", inner]) for each in ("a", "b")]
            references[name] = {"type": "record", "name": name, "fields": kinds}
        return parsed(references.pop("R0"), **references)

    with pytest.raises(SchemaError, match="steps to compare"):
        nested("int").unreadable(nested("long"))


PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(
            lambda other: ["null", other],
            inner.filter(lambda each: each != "null" and not isinstance(each, list)),
        ),
    ),
    max_leaves=3,
)
VALUES: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2**40,
    "float": 1.5,
    "double": 1e300,
    "bytes": b"\xc3\xa9",
    "string": "é",
}


def a_value(kind: Any) -> Any:
    match kind:
        case list():
            return a_value(kind[-1])
        case {"items": items}:
            return [a_value(items)]
        case {"values": values}:
            return {"k": a_value(values)}
        case _:
            return VALUES[kind]


@given(reader=TYPES, writer=TYPES)
def test_what_is_readable_is_read_by_fastavro(reader: Any, writer: Any) -> None:
    if parsed(record(field("a", reader))).unreadable(parsed(record(field("a", writer)))):
        return
    written = io.BytesIO()
    fastavro.schemaless_writer(written, record(field("a", writer)), {"a": a_value(writer)})
    written.seek(0)
    read: Any = fastavro.schemaless_reader(written, record(field("a", writer)), record(field("a", reader)))
    assert set(read) == {"a"}
