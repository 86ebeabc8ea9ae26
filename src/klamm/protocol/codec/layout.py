"""Shared by both compilers: sizes on the wire, and building source text."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from klamm.protocol.schema import SchemaField, Struct

MAX_STRING_BYTES: Final = 0x7FFF  # flexible versions allow more, others could not encode it
FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "bool": "B",
    "float64": "d",
    "uuid": "16s",
}


def is_fixed(field: SchemaField) -> bool:
    """Whether the field always takes the same number of bytes."""
    return field.type in FIXED and not field.is_array


def smallest_size(item: SchemaField, is_flexible: bool) -> int:
    """The fewest bytes that one value (for an array: one element) can take."""
    if item.struct is not None:
        return smallest_struct(item.struct)
    if item.type in FIXED:
        return struct.calcsize(">" + FIXED[item.type])
    return 1 if is_flexible else (2 if item.type == "string" else 4)


def smallest_struct(item: Struct) -> int:
    """The fewest bytes that a structure can take."""
    size = 1 if item.is_flexible else 0
    for field in item.fields:
        if field.tag is not None:
            continue
        if field.is_array:
            size += 1 if item.is_flexible else 4
        elif field.struct is not None and field.is_nullable:
            size += 1
        else:
            size += smallest_size(field, item.is_flexible)
    return size


def memory_bytes(item: SchemaField) -> int:
    """Approximate memory of one element, with its list entry, without the elements of its arrays."""
    place = 8
    if item.struct is not None:
        return place + 48 + sum(_value_bytes(field) for field in item.struct.fields)
    return place + (32 if item.type in FIXED else 64)


def _value_bytes(field: SchemaField) -> int:
    if field.is_array:
        return 8 + 56
    if field.struct is not None:
        return memory_bytes(field)
    return 8 + (32 if field.type in FIXED else 64)


class SourceCode:
    """Python source being built, with its global names."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {}
        self._depth = 1
        self._fresh = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; an empty one gets `pass`."""
        self.add(head)
        before = len(self.lines)
        self._depth += 1
        yield
        if len(self.lines) == before:
            self.add("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that is unique in this function."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def constant(self, stem: str, value: object) -> str:
        """A name that the function sees as a global."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def shared(self, name: str, value: object) -> str:
        """As `constant`, for values that have a name of their own."""
        self.names[name] = value
        return name

    def compile(self, function: str, origin: str) -> Any:
        exec(compile("\n".join(self.lines), f"<codec {origin}>", "exec"), self.names)
        return self.names[function]
