"""Protobuf schemas: texts and descriptors, imports, and what readers of another one understand."""

from __future__ import annotations

import pytest

from klamm.registry.formats.base import SchemaError
from klamm.registry.formats.protobuf import ProtobufFormat, ProtobufSchema


def parsed(body: str, **references: str) -> ProtobufSchema:
    text = body if body.startswith("syntax") else f'syntax = "proto3"; package p; {body}'
    return ProtobufFormat().parse(text, {f"{name}.proto": each for name, each in references.items()})


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        ("message M { int64 a = 1; }", "message M { int32 a = 1; }", ""),
        ("message M { string a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED at M.a"),
        ("message M { bytes a = 1; }", "message M { string a = 1; }", ""),
        ("message M { }", "message M { int32 a = 1; }", ""),
        ("message N { }", "message M { }", "MESSAGE_REMOVED at M"),
        ("message M { }", "message M { oneof o { int32 a = 1; } }", "ONEOF_FIELD_REMOVED at M.a"),
        (
            "message M { oneof o { int32 a = 1; string b = 2; } }",
            "message M { int32 a = 1; string b = 2; }",
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF at M.o",
        ),
        ("message M { repeated int32 a = 1; }", "message M { int32 a = 1; }", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("message M { }", "message M { map<string, int32> a = 1; }", ""),
        (
            "message M { N a = 1; message N { int32 x = 1; } }",
            "message M { N a = 1; message N { string x = 1; } }",
            "FIELD_SCALAR_KIND_CHANGED at M.N.x",
        ),
        ('syntax = "proto3"; package q; message M { }', "message M { }", "PACKAGE_CHANGED: p to q"),
    ],
)
def test_what_changes_the_meaning_of_bytes_is_told(reader: str, writer: str, problem: str) -> None:
    found = parsed(reader).unreadable(parsed(writer))
    assert [each.startswith(problem) for each in found] == ([True] if problem else []), found


def test_a_descriptor_in_base64_is_the_same_schema_as_its_text() -> None:
    text = parsed("message M { int32 a = 1; }")
    described = ProtobufFormat().parse(text.serialized, {})
    assert described.file == text.file
    assert described.text == text.serialized


@pytest.mark.parametrize("as_text", [True, False])
def test_a_schema_may_import_others_and_googles_own(as_text: bool) -> None:
    inner = parsed("message Inner { int32 a = 1; }")
    outer = parsed(
        'import "inner.proto"; import "google/protobuf/timestamp.proto"; '
        "message Outer { Inner inner = 1; google.protobuf.Timestamp at = 2; }",
        inner=inner.text if as_text else inner.serialized,
    )
    assert [field.type_name for field in outer.file.message_type[0].field] == [
        ".p.Inner",
        ".google.protobuf.Timestamp",
    ]


def test_what_is_no_schema_is_refused_with_protocs_words() -> None:
    with pytest.raises(SchemaError, match="1:39: Expected message name"):
        parsed("message { }")
    with pytest.raises(SchemaError, match=r"absent\.proto"):
        parsed('import "absent.proto"; message M { }')


def test_an_import_cannot_leave_the_folder_of_the_schema() -> None:
    with pytest.raises(SchemaError, match="not a relative path"):
        ProtobufFormat().parse('syntax = "proto3";', {"../../etc/x.proto": 'syntax = "proto3";'})
