"""What a codec needs to know of one version of a message."""

from __future__ import annotations

import importlib
import sys
from functools import cache

from klamm.protocol.api import ApiKey
from klamm.protocol.message import Message
from klamm.protocol.messages import VERSIONS
from klamm.protocol.types import Direction


class SchemaField:
    """One field of one version of a message."""

    __slots__ = ("default", "is_array", "is_nullable", "name", "struct", "tag", "type")

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - Kafka's word
        is_array: bool,
        is_nullable: bool,
        tag: int | None,
        default: object,
        struct: Struct | None,
    ) -> None:
        self.name = name
        self.type = type  # int8..int64, uint16, bool, float64, string, bytes, records, uuid, struct
        self.is_array = is_array
        self.is_nullable = is_nullable
        self.tag = tag
        self.default = default  # the value of an absent tagged field
        self.struct = struct

    def element(self) -> SchemaField:
        """An element of this array, as a field."""
        return SchemaField(self.name, self.type, False, False, self.tag, self.default, self.struct)


class Struct:
    """One structure of one version of a message, fields in wire order."""

    __slots__ = ("fields", "is_flexible", "message", "name", "version")

    def __init__(self, message: type[Message], version: int, is_flexible: bool) -> None:
        self.name = message.__name__
        self.message = message
        self.version = version
        self.is_flexible = is_flexible
        self.fields = _fields(message, version, is_flexible)


def schema_versions(api_key: int) -> range:
    """The versions that have a schema."""
    first, last, _ = VERSIONS[api_key]
    return range(first, last + 1)


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this version of the API has tagged fields, in its headers too."""
    return version >= VERSIONS[api_key][2]


def message_class(api_key: int, direction: Direction) -> type[Message]:
    """The class of an API's requests or responses; imports its module on first use."""
    name = ApiKey(api_key).name
    module = importlib.import_module(f"klamm.protocol.messages.{name.lower()}")
    found: type[Message] = getattr(module, name.title().replace("_", "") + direction.capitalize())
    return found


@cache
def load_struct(api_key: int, version: int, direction: Direction) -> Struct:
    """The schema of one message version."""
    return Struct(message_class(api_key, direction), version, is_flexible(api_key, version))


def _fields(message: type[Message], version: int, is_flexible: bool) -> list[SchemaField]:
    defaults, others = message.defaults(), vars(sys.modules[message.__module__])
    fields = []
    for first, last, name, declared, *tag in message.SCHEMA:
        if not first <= version <= last:
            continue
        item = declared.removesuffix("?").removeprefix("[]")
        struct = Struct(others[item], version, is_flexible) if item[0].isupper() else None
        fields.append(
            SchemaField(
                name,
                "struct" if struct else item,
                declared.startswith("[]"),
                declared.endswith("?"),
                tag[0] if tag else None,
                defaults[name],
                struct,
            )
        )
    return fields
