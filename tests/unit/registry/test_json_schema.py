"""JSON schemas: what is one, and whether one accepts all that another does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.registry.formats.base import SchemaError
from klamm.registry.formats.json_schema import JsonFormat, JsonSchema


def parsed(schema: Any, **references: Any) -> JsonSchema:
    texts = {name: json.dumps(each) for name, each in references.items()}
    return JsonFormat().parse(schema if isinstance(schema, str) else json.dumps(schema), texts)


def an_object(
    required: list[str] | None = None, *, closed: bool = False, **properties: Any
) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    if closed:
        made["additionalProperties"] = False
    return made


INT, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not JSON"),
        ("5", "an object or a boolean, not int"),
        ('{"type": "colour"}', "at /type"),
        ('{"required": "a"}', "at /required"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parsed(schema)


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        (NUMBER, INT, ""),
        (INT, NUMBER, "TYPE_CHANGED"),
        ({"type": ["string", "null"]}, TEXT, ""),
        (TEXT, {"type": ["string", "null"]}, "TYPE_NARROWED"),
        ({}, INT, ""),
        (False, INT, "TYPE_NARROWED"),
        ({"type": "string", "maxLength": 5}, TEXT, "MAXLENGTH_ADDED"),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9}, "MAXLENGTH_DECREASED"),
        ({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5}, ""),
        ({"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 1}, "MINIMUM_INCREASED"),
        ({"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}, ""),
        ({"type": "integer", "multipleOf": 4}, {"type": "integer", "multipleOf": 2}, "MULTIPLE_OF_CHANGED"),
        ({"type": "string", "pattern": "a"}, TEXT, "PATTERN_ADDED"),
        ({"enum": [1, 2]}, {"enum": [1]}, ""),
        ({"enum": [1]}, {"enum": [1, 2]}, "ENUM_ARRAY_NARROWED"),
        ({"const": 1}, {"const": 2}, "CONST_CHANGED"),
        (an_object(a=NUMBER), an_object(a=INT), ""),
        (an_object(a=INT, b=TEXT), an_object(a=INT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
        (an_object(a=INT, b=TEXT, closed=True), an_object(a=INT, closed=True), ""),
        (an_object(["b"], b=TEXT, closed=True), an_object(closed=True), "REQUIRED_ATTRIBUTE_ADDED"),
        (an_object(["b"], b={"type": "string", "default": ""}, closed=True), an_object(closed=True), ""),
        (an_object(), an_object(a=INT), ""),
        (an_object(closed=True), an_object(a=INT, closed=True), "PROPERTY_REMOVED_FROM_CLOSED"),
        (an_object(closed=True), an_object(), "ADDITIONAL_PROPERTIES_REMOVED"),
        ({"type": "array", "items": INT}, {"type": "array", "items": NUMBER}, "TYPE_CHANGED at #/items/"),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_ADDED"),
        ({"oneOf": [TEXT, {"type": "null"}]}, TEXT, ""),
        (TEXT, {"oneOf": [TEXT, {"type": "null"}]}, "SUM_TYPE_NARROWED"),
        ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [TEXT]}, "PRODUCT_TYPE_EXTENDED"),
        ({"not": INT}, {"not": NUMBER}, ""),
        ({"not": NUMBER}, {"not": INT}, "NOT_TYPE_EXTENDED"),
        ({"dependencies": {"a": ["b"]}}, {}, "DEPENDENCY_ADDED"),
    ],
)
def test_what_narrows_a_schema_is_told(reader: Any, writer: Any, problem: str) -> None:
    found = parsed(reader).unreadable(parsed(writer))
    assert [each.startswith(problem) for each in found] == ([True] if problem else []), found


def a_list_of(value: Any) -> dict[str, Any]:
    node = an_object(value=value, next={"$ref": "#/definitions/node"})
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def test_a_schema_that_contains_itself_is_compared_once() -> None:
    assert not parsed(a_list_of(NUMBER)).unreadable(parsed(a_list_of(INT)))
    assert parsed(a_list_of(INT)).unreadable(parsed(a_list_of(NUMBER)))


def test_references_lead_to_other_schemas() -> None:
    reader = parsed({"$ref": "price"}, price=NUMBER)
    assert not reader.unreadable(parsed({"$ref": "price"}, price=INT))
    assert reader.unreadable(parsed({"$ref": "price"}, price=TEXT))


SIMPLE = st.sampled_from(
    [INT, NUMBER, TEXT, {"type": "null"}, {"type": "string", "maxLength": 2}, {"enum": [1, "a"]}, {}]
)
SCHEMAS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda a, closed: an_object(a=a, closed=closed), inner, st.booleans()),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, 1, 1.5, "a", "long text", True]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2), st.lists(inner, max_size=2)
    ),
    max_leaves=4,
)


@given(reader=SCHEMAS, writer=SCHEMAS, value=VALUES)
def test_what_a_compatible_schema_was_written_with_is_accepted(reader: Any, writer: Any, value: Any) -> None:
    if not jsonschema.Draft7Validator(writer).is_valid(value):
        return
    if parsed(reader).unreadable(parsed(writer)):
        return
    jsonschema.Draft7Validator(reader).validate(value)
