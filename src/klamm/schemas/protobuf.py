"""Messages of Protobuf: of a generated class, or of one made from the schema in the registry."""

from __future__ import annotations

import base64
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from klamm.schemas.registry_client import RegisteredSchema, SchemaReference, SchemaRegistry
from klamm.schemas.serde import RegistrySerde

_MAX_DEPTH: Final = 100
Descriptor: TypeAlias = Any  # of the library in C or of the one in Python, which have no common class
FileDescriptor: TypeAlias = Any


class ProtobufFile(NamedTuple):
    """A schema: the messages of a file."""

    file: FileDescriptor


class ProtobufSerde(RegistrySerde[ProtobufFile]):
    """Protobuf with the schemas of a registry.

    Values are messages of `message_type`, a generated class. Without one, what was read is a message of a
    class that is made from the schema.
    """

    schema_type: ClassVar[str] = "PROTOBUF"
    form: ClassVar[str] = "serialized"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        message_type: type[Message] | None = None,
        **options: Any,
    ) -> None:
        self._message_type = message_type
        super().__init__(registry, None, **options)

    def _writer(self, topic: str) -> tuple[int, ProtobufFile]:
        if self._use_latest or self._message_type is None:
            return super()._writer(topic)
        descriptor: Descriptor = self._message_type.DESCRIPTOR
        references = self._register_imports(descriptor.file)
        subject = self._subject(topic, descriptor.full_name, self._is_key)
        schema_id = self.registry.id_of(
            subject, self.schema_type, _serialized(descriptor.file), references, register=self._auto_register
        )
        made = self._writers[topic] = schema_id, ProtobufFile(descriptor.file)
        return made

    def _register_imports(self, file: FileDescriptor) -> list[SchemaReference]:
        """The files that a file imports, each a subject of its own under its name; Google's own are known."""
        made: list[SchemaReference] = []
        for imported in file.dependencies:
            if imported.name.startswith("google/protobuf/"):
                continue
            references = self._register_imports(imported)
            text = _serialized(imported)
            self.registry.id_of(
                imported.name, self.schema_type, text, references, register=self._auto_register
            )
            version = self.registry.version_of(imported.name, self.schema_type, text, references)
            made.append(SchemaReference(imported.name, imported.name, version))
        return made

    def parse(self, schema: RegisteredSchema) -> ProtobufFile:
        pool = descriptor_pool.DescriptorPool()
        for name, text in (*schema.used, ("klamm_schema.proto", schema.text)):
            try:
                file = FileDescriptorProto.FromString(base64.b64decode(text))
                file.name = name
                _add_known(pool, file, 0)
                pool.Add(file)
            except (ValueError, TypeError, DecodeError) as error:
                raise ValueError(f"schema {schema.schema_id} is not a Protobuf file: {error}") from error
        return ProtobufFile(pool.FindFileByName("klamm_schema.proto"))

    def encode(self, parsed: ProtobufFile, value: Any) -> bytes:
        if not isinstance(value, Message):
            raise ValueError(f"{value!r} is not a Protobuf message")
        try:
            return _indexes_of(value.DESCRIPTOR) + value.SerializeToString()
        except EncodeError as error:
            raise ValueError(str(error)) from error

    def decode(self, parsed: ProtobufFile, payload: bytes) -> Message:
        indexes, begin = read_indexes(payload)
        descriptor = message_at(parsed.file, indexes)
        made: type[Message] = self._message_type or GetMessageClass(descriptor)
        try:
            return made.FromString(bytes(payload[begin:]))
        except DecodeError as error:
            raise ValueError(f"not a message of {descriptor.full_name}: {error}") from error

    def name_of(self, parsed: ProtobufFile) -> str | None:
        return str(message_at(parsed.file, [0]).full_name)


def _serialized(file: FileDescriptor) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _add_known(pool: descriptor_pool.DescriptorPool, file: FileDescriptorProto, depth: int) -> None:
    """Google's own files, which no registry has."""
    if depth > _MAX_DEPTH:
        raise ValueError("files import each other without end")
    for name in file.dependency:
        if name.startswith("google/"):
            known = FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
            _add_known(pool, known, depth + 1)
            pool.Add(known)


def _indexes_of(descriptor: Descriptor) -> bytes:
    """Which message of its file it is: the path of indexes, zigzag; a single zero for the first one."""
    path: list[int] = []
    names = descriptor.full_name.removeprefix(f"{descriptor.file.package}.").split(".")
    messages = FileDescriptorProto.FromString(descriptor.file.serialized_pb).message_type
    for name in names:
        index = next(number for number, each in enumerate(messages) if each.name == name)
        path.append(index)
        messages = messages[index].nested_type
    if path == [0]:
        return b"\x00"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def read_indexes(payload: bytes) -> tuple[list[int], int]:
    count, at = _read_zigzag(payload, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= min(_MAX_DEPTH, len(payload)):
        raise ValueError(f"the path of the message has {count} parts")
    indexes = []
    for _ in range(count):
        index, at = _read_zigzag(payload, at)
        indexes.append(index)
    return indexes, at


def _read_zigzag(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(payload) or shift > 28:
            raise ValueError("the value ends within the path of its message")
        byte = payload[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def message_at(file: FileDescriptor, indexes: list[int]) -> Descriptor:
    messages = FileDescriptorProto.FromString(file.serialized_pb).message_type
    found, within = None, file.message_types_by_name
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message at {indexes}")
        found = within[messages[index].name]
        messages, within = messages[index].nested_type, found.nested_types_by_name
    return found
