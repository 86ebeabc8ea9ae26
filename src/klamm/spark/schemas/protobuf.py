"""Messages of Protobuf as columns. A field that is not set is null where that is known, else a default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from klamm.schemas.protobuf import Descriptor, ProtobufFile, ProtobufSerde, message_at, read_indexes
from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry

Shape: TypeAlias = Callable[[Any], Any]
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_PLAIN: Final[dict[int, t.DataType]] = {
    FieldDescriptor.CPPTYPE_INT32: t.IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: t.LongType(),
    FieldDescriptor.CPPTYPE_UINT32: t.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: t.DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: t.DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: t.FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: t.BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: t.StringType(),
}


class ProtobufReader:
    """Reads messages of any version of a file as those of one, by the numbers of their fields."""

    schema_type = "PROTOBUF"

    def __init__(self, schema: RegisteredSchema, registry: SchemaRegistry) -> None:
        self._serde = ProtobufSerde(registry)
        self._files: dict[int, ProtobufFile] = {schema.schema_id: self._serde.parse(schema)}
        descriptor = message_at(self._files[schema.schema_id].file, [0])
        self.name: str | None = str(descriptor.full_name)
        self.spark, self._shape = _message(descriptor, ())
        self._arrow = to_arrow_type(self.spark, timezone="UTC")
        self._class: type[Message] = GetMessageClass(descriptor)

    def accepts(self, written: RegisteredSchema) -> bool:
        if written.schema_type != "PROTOBUF":
            return False
        messages = self._file(written).file.message_types_by_name.values()
        return self.name in {each.full_name for each in messages}

    def read(self, written: RegisteredSchema, payloads: Sequence[bytes]) -> Any:
        """The column of these messages. Raises ValueError if one of them cannot be read."""
        file = self._file(written).file
        values = []
        for payload in payloads:
            indexes, begin = read_indexes(payload)
            name = message_at(file, indexes).full_name
            if name != self.name:
                raise ValueError(f"a message {name}, not {self.name}")
            try:
                values.append(self._shape(self._class.FromString(payload[begin:])))
            except DecodeError as error:
                raise ValueError(f"not a message {self.name}: {error}") from error
        return pa.array(values, self._arrow)

    def _file(self, written: RegisteredSchema) -> ProtobufFile:
        found = self._files.get(written.schema_id)
        if found is None:
            found = self._files[written.schema_id] = self._serde.parse(written)
        return found


def _message(descriptor: Descriptor, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return t.TimestampType(), lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if name in within:
        raise ValueError(f"message {name} is recursive: it contains itself, and no column can")
    fields = [(each.name, *_field(each, (*within, name))) for each in descriptor.fields]
    kind = t.StructType([t.StructField(name, each) for name, each, _ in fields])
    return kind, lambda value: {name: shape(value) for name, _, shape in fields}


def _field(descriptor: Any, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
    """The type of a field, and what takes it out of its message."""
    name = descriptor.name
    message = descriptor.message_type
    if message is not None and message.GetOptions().map_entry:
        key, _ = _single(message.fields_by_name["key"], within)
        kind, shape = _single(message.fields_by_name["value"], within)
        return (
            t.MapType(key, kind),
            lambda value: [(each, shape(found)) for each, found in getattr(value, name).items()],
        )
    kind, shape = _single(descriptor, within)
    if _is_repeated(descriptor):
        return t.ArrayType(kind), lambda value: [shape(each) for each in getattr(value, name)]
    if descriptor.has_presence:
        return kind, lambda value: shape(getattr(value, name)) if value.HasField(name) else None
    return kind, lambda value: shape(getattr(value, name))


def _is_repeated(descriptor: Any) -> bool:
    if hasattr(descriptor, "is_repeated"):
        return bool(descriptor.is_repeated)
    return bool(descriptor.label == FieldDescriptor.LABEL_REPEATED)  # of protobuf before version 6


def _single(descriptor: Any, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
    match descriptor.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _message(descriptor.message_type, within)
        case FieldDescriptor.CPPTYPE_ENUM:
            names = {each.number: each.name for each in descriptor.enum_type.values}
            return t.StringType(), lambda number: names.get(number, str(number))
        case FieldDescriptor.CPPTYPE_STRING:
            is_bytes = descriptor.type == FieldDescriptor.TYPE_BYTES
            return (t.BinaryType() if is_bytes else t.StringType()), lambda value: value
        case FieldDescriptor.CPPTYPE_UINT64:
            return _PLAIN[descriptor.cpp_type], Decimal
    return _PLAIN[descriptor.cpp_type], lambda value: value


def message_encoder(schema: RegisteredSchema, registry: SchemaRegistry) -> Callable[[Any], bytes]:
    """What makes bytes of rows: messages of the first type of the file; null fields are not set."""
    serde = ProtobufSerde(registry)
    file = serde.parse(schema)
    made: type[Message] = GetMessageClass(message_at(file.file, [0]))

    def encode(value: Any) -> bytes:
        message = made()
        _fill(message, value)
        return serde.encode(file, message)

    return encode


def _fill(message: Any, value: dict[str, Any]) -> None:
    for name, each in value.items():
        if each is None:
            continue
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"message {message.DESCRIPTOR.full_name} has no field {name}")
        if isinstance(each, list):
            _fill_repeated(getattr(message, name), each, field)
        elif isinstance(each, dict) and field.message_type.GetOptions().map_entry:
            getattr(message, name).update(each)
        elif isinstance(each, dict):
            getattr(message, name).SetInParent()
            _fill(getattr(message, name), each)
        elif isinstance(each, datetime):
            getattr(message, name).FromDatetime(each)
        else:
            setattr(message, name, _scalar(each, field))


def _fill_repeated(target: Any, values: list[Any], field: Any) -> None:
    for each in values:
        if isinstance(each, dict):
            _fill(target.add(), each)
        else:
            target.append(_scalar(each, field))


def _scalar(value: Any, field: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return (
            field.enum_type.values_by_name[value].number if not value.lstrip("-").isdecimal() else int(value)
        )
    return int(value) if isinstance(value, Decimal) else value
