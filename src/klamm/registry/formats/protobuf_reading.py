"""Whether messages of one Protobuf schema are read right with another, by Confluent's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_Kind = FieldDescriptorProto
# Types of one group have the same encoding on the wire.
_GROUPS: Final = (
    {_Kind.TYPE_INT32, _Kind.TYPE_UINT32, _Kind.TYPE_INT64, _Kind.TYPE_UINT64, _Kind.TYPE_BOOL},
    {_Kind.TYPE_SINT32, _Kind.TYPE_SINT64},
    {_Kind.TYPE_STRING, _Kind.TYPE_BYTES},
    {_Kind.TYPE_FIXED32, _Kind.TYPE_SFIXED32},
    {_Kind.TYPE_FIXED64, _Kind.TYPE_SFIXED64},
)
_TEXT: Final = _GROUPS[2]
_NAMED: Final = {_Kind.TYPE_MESSAGE, _Kind.TYPE_ENUM, _Kind.TYPE_GROUP}


class ProtobufReading:
    """One comparison of two files."""

    def __init__(self, reader: FileDescriptorProto, writer: FileDescriptorProto) -> None:
        self._reader = reader
        self._writer = writer

    def problems(self) -> list[str]:
        """Why messages are not read right; each with the place in the schema."""
        return list(self._compare())

    def _compare(self) -> Iterator[str]:
        if self._reader.package != self._writer.package:
            yield f"PACKAGE_CHANGED: {self._writer.package or 'none'} to {self._reader.package or 'none'}"
        mine = dict(_messages(self._reader.message_type))
        for name, theirs in _messages(self._writer.message_type):
            if name in mine:
                yield from self._message(mine[name], theirs, name)
            elif not theirs.options.map_entry:  # those of a map go with its field
                yield f"MESSAGE_REMOVED at {name}"

    def _message(self, mine: DescriptorProto, theirs: DescriptorProto, at: str) -> Iterator[str]:
        read = {field.number: field for field in mine.field}
        written = {field.number: field for field in theirs.field}
        for number, field in written.items():
            place = f"{at}.{field.name}"
            if number in read:
                yield from self._field(read[number], field, place)
            elif field.label == _Kind.LABEL_REQUIRED:
                yield f"REQUIRED_FIELD_REMOVED at {place}"
            elif _oneof(theirs, field) is not None:
                yield f"ONEOF_FIELD_REMOVED at {place}"
        for number, field in read.items():
            if number not in written and field.label == _Kind.LABEL_REQUIRED:
                yield f"REQUIRED_FIELD_ADDED at {at}.{field.name}"
        yield from self._oneofs(mine, theirs, at)

    def _oneofs(self, mine: DescriptorProto, theirs: DescriptorProto, at: str) -> Iterator[str]:
        known = {each.name for each in theirs.oneof_decl}
        written = {field.number: field for field in theirs.field}
        moved: dict[str, list[str]] = {}
        for field in mine.field:
            oneof = _oneof(mine, field)
            if (
                oneof is not None
                and field.number in written
                and _oneof(theirs, written[field.number]) is None
            ):
                moved.setdefault(oneof, []).append(field.name)
        for oneof, fields in moved.items():
            if oneof in known:
                yield f"FIELD_MOVED_TO_EXISTING_ONEOF at {at}.{oneof}: {fields[0]}"
            elif len(fields) > 1:
                yield f"MULTIPLE_FIELDS_MOVED_TO_ONEOF at {at}.{oneof}: {', '.join(fields)}"

    def _field(self, mine: FieldDescriptorProto, theirs: FieldDescriptorProto, at: str) -> Iterator[str]:
        if (mine.type in _NAMED) != (theirs.type in _NAMED):
            numeric = {mine.type, theirs.type} <= _GROUPS[0] | {_Kind.TYPE_ENUM}
            if not numeric:
                yield f"FIELD_KIND_CHANGED at {at}"
        elif mine.type in _NAMED:
            if mine.type_name != theirs.type_name:
                yield f"FIELD_NAMED_TYPE_CHANGED at {at}: {theirs.type_name} to {mine.type_name}"
        elif mine.type != theirs.type and not any({mine.type, theirs.type} <= group for group in _GROUPS):
            names = [_Kind.Type.Name(each.type).removeprefix("TYPE_").lower() for each in (theirs, mine)]
            yield f"FIELD_SCALAR_KIND_CHANGED at {at}: {names[0]} to {names[1]}"
        repeated = [each.label == _Kind.LABEL_REPEATED for each in (mine, theirs)]
        if repeated[0] != repeated[1] and mine.type not in _TEXT | _NAMED:
            yield f"FIELD_NUMERIC_LABEL_CHANGED at {at}"


def _messages(found: Iterable[DescriptorProto], prefix: str = "") -> Iterator[tuple[str, DescriptorProto]]:
    """Every message with its name, nested ones behind the one that has them."""
    for message in found:
        name = f"{prefix}{message.name}"
        yield name, message
        yield from _messages(message.nested_type, f"{name}.")


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str | None:
    """The oneof that a field belongs to; `optional` of proto3 makes one of its own, which is none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return message.oneof_decl[field.oneof_index].name
