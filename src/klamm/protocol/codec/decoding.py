"""Decoding: one compiled function per message version."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from klamm.protocol.codec.layout import (
    FIXED,
    SourceCode,
    is_fixed,
    memory_bytes,
    smallest_size,
)
from klamm.protocol.codec.parts import compact_string, compact_string_or_null, long_uvarint, skip_tags
from klamm.protocol.errors import DecodeError
from klamm.protocol.implied import IMPLIED
from klamm.protocol.schema import SchemaField, Struct
from klamm.protocol.types import Buffer

# What the arrays of one message may take in memory. A byte on the wire can become a hundred in memory, so the
# size of a frame is no bound. Metadata of a million partitions needs about 700 MB.
REQUEST_MEMORY_BYTES: Final = 64 * 1024 * 1024
RESPONSE_MEMORY_BYTES: Final = 1024 * 1024 * 1024

ReadElements = Callable[[bytes, int, int], tuple[Iterable[Any], int]]
"""Decodes `count` elements at a position; the elements and the position after them."""
ReaderOf = Callable[[Struct], ReadElements | None]


def compile_decoder(schema: Struct, reader_of: ReaderOf, limit_bytes: int) -> Callable[[Buffer, int], Any]:
    """Compile a function that decodes one message version.

    `limit_bytes` bounds the memory of all arrays of the message together, estimated before they are made.
    """
    compiler = _Decoder(reader_of)
    source, name = compiler.source, f"{schema.name} v{schema.version}"
    source.shared("Wrong", DecodeError)
    source.shared("NONSENSE", (struct.error, IndexError, UnicodeDecodeError))
    with source.block("try:"):
        source.add("end = len(buf)")
        source.add(f"left = {limit_bytes}")
        source.add(f"return {compiler.struct(schema)}")
    with source.block("except Wrong:"):
        source.add("raise")
    with source.block("except NONSENSE as error:"):
        source.add(f"raise Wrong('{name}: {{}}'.format(error)) from error")
    decode: Callable[[Buffer, int], Any] = source.compile("decode", f"decode {name}")
    return decode


def too_many(name: str, count: int, left_bytes: int) -> DecodeError:
    """The error for an array that is longer than the message, or than the memory limit allows."""
    if left_bytes < 0:
        return DecodeError(f"{name} has {count} elements: the message exceeds the memory limit")
    return DecodeError(f"{name} has {count} elements, more than the message has bytes for")


def wrong(what: str) -> DecodeError:
    """An error to raise, created only when needed."""
    return DecodeError(what)


class _Decoder:
    def __init__(self, reader_of: ReaderOf) -> None:
        self.reader_of = reader_of
        self.source = SourceCode("def decode(buf, pos):")
        self.source.shared("more", long_uvarint)
        self.source.shared("string", compact_string)
        self.source.shared("string_or_null", compact_string_or_null)
        self.source.shared("skip_tags", skip_tags)
        self.source.shared("wrong", wrong)
        self.source.shared("too_many", too_many)
        self.source.shared("view", memoryview)

    def struct(self, schema: Struct) -> str:
        """Emit code that decodes a structure; the expression that creates it."""
        values: dict[str, str] = {}
        run: list[SchemaField] = []
        for field in schema.fields:
            if field.tag is not None:
                continue
            if is_fixed(field):
                run.append(field)
                continue
            self._fixed_run(run, values)
            values[field.name] = self._field(field, schema.is_flexible)
        self._fixed_run(run, values)
        if schema.is_flexible:
            self._tags(schema, values)
        return self._construct(schema, values)

    def _construct(self, schema: Struct, values: dict[str, str]) -> str:
        implied = IMPLIED.get(schema.name, {})
        arguments = []
        for name, default in schema.message.defaults().items():
            if name in values:
                arguments.append(values[name])
            elif name in implied:
                arguments.append(repr(implied[name](schema.version)))
            else:
                arguments.append(self.source.constant("default", default))
        return f"{self.source.shared('new_' + schema.name, schema.message)}({', '.join(arguments)})"

    def _fixed_run(self, run: list[SchemaField], values: dict[str, str]) -> None:
        if not run:
            return
        layout = ">" + "".join(FIXED[field.type] for field in run)
        unpack = self.source.shared(f"unpack_{layout[1:]}", struct.Struct(layout).unpack_from)
        names = [self.source.fresh("v") for _ in run]
        self.source.add(f"{', '.join(names)}, = {unpack}(buf, pos)")
        self.source.add(f"pos += {struct.calcsize(layout)}")
        for field, name in zip(run, names, strict=True):
            if field.type == "bool":
                with self.source.block(f"if {name} > 1:"):
                    self.source.add(f"raise wrong('{field.name} is neither 0 nor 1')")
                self.source.add(f"{name} = {name} == 1")
            values[field.name] = name
        run.clear()

    def _field(self, field: SchemaField, is_flexible: bool) -> str:
        if field.is_array:
            return self._array(field, is_flexible)
        if field.struct is not None:
            return self._nested(field, field.struct)
        if field.type in FIXED:
            values: dict[str, str] = {}
            self._fixed_run([field], values)
            return values[field.name]
        return self._sized(field, is_flexible)

    def _nested(self, field: SchemaField, nested: Struct) -> str:
        value = self.source.fresh("s")
        if not field.is_nullable or field.tag is not None:
            self.source.add(f"{value} = {self.struct(nested)}")
            return value
        marker = self.source.fresh("n")
        self.source.add(f"{marker} = buf[pos]")
        self.source.add("pos += 1")
        with self.source.block(f"if {marker} == 1:"):
            self.source.add(f"{value} = {self.struct(nested)}")
        with self.source.block(f"elif {marker} == 255:"):
            self.source.add(f"{value} = None")
        with self.source.block("else:"):
            self.source.add(f"raise wrong('{field.name}: {{}} marks no structure'.format({marker}))")
        return value

    def _length(self, field: SchemaField, is_flexible: bool, *, is_count: bool) -> str:
        """Emit code that decodes a length, -1 for null, and rejects invalid ones."""
        length = self.source.fresh("n")
        if is_flexible:
            self._uvarint(length)
            self.source.add(f"{length} -= 1")
        else:
            code, size = ("h", 2) if field.type == "string" and not is_count else ("i", 4)
            unpack = self.source.shared(f"unpack_{code}", struct.Struct(">" + code).unpack_from)
            self.source.add(f"{length}, = {unpack}(buf, pos)")
            self.source.add(f"pos += {size}")
        lowest = -1 if field.is_nullable else 0
        with self.source.block(f"if {length} < {lowest}:"):
            self.source.add(f"raise wrong('{field.name} has length {{}}'.format({length}))")
        return length

    def _uvarint(self, name: str) -> None:
        self.source.add(f"{name} = buf[pos]")
        self.source.add("pos += 1")
        with self.source.block(f"if {name} > 127:"):
            self.source.add(f"{name}, pos = more(buf, pos, {name})")

    def _sized(self, field: SchemaField, is_flexible: bool) -> str:
        if field.type == "string" and is_flexible:
            value, kind = self.source.fresh("v"), "string_or_null" if field.is_nullable else "string"
            self.source.add(f"{value}, pos = {kind}(buf, pos, '{field.name}')")
            return value
        length = self._length(field, is_flexible, is_count=False)
        value, stop = self.source.fresh("v"), self.source.fresh("e")
        made = {
            "string": f"buf[pos:{stop}].decode()",
            "bytes": f"buf[pos:{stop}]",
            "records": f"view(buf)[pos:{stop}]",
        }[field.type]

        def emit() -> None:
            self.source.add(f"{stop} = pos + {length}")
            with self.source.block(f"if {stop} > end:"):
                self.source.add(f"raise wrong('{field.name} ends beyond the message')")
            self.source.add(f"{value} = {made}")
            self.source.add(f"pos = {stop}")

        if not field.is_nullable:
            emit()
            return value
        with self.source.block(f"if {length} < 0:"):
            self.source.add(f"{value} = None")
        with self.source.block("else:"):
            emit()
        return value

    def _array(self, field: SchemaField, is_flexible: bool) -> str:
        count = self._length(field, is_flexible, is_count=True)
        value = self.source.fresh("a")
        if field.is_nullable:
            with self.source.block(f"if {count} < 0:"):
                self.source.add(f"{value} = None")
            with self.source.block("else:"):
                self._elements(field, is_flexible, count, value)
        else:
            self._elements(field, is_flexible, count, value)
        return value

    def _elements(self, field: SchemaField, is_flexible: bool, count: str, value: str) -> None:
        smallest = smallest_size(field, is_flexible)
        self.source.add(f"left -= {count} * {memory_bytes(field)}")
        with self.source.block(f"if {count} > (end - pos) // {smallest} or left < 0:"):
            self.source.add(f"raise too_many('{field.name}', {count}, left)")
        if field.type in FIXED and field.type != "bool":
            unpack = self.source.shared("unpack", struct.unpack_from)
            layout = FIXED[field.type]
            if layout == "16s":
                self.source.add(f"{value} = list({unpack}('>' + '16s' * {count}, buf, pos))")
            else:
                self.source.add(f"{value} = list({unpack}('>%d{layout}' % {count}, buf, pos))")
            self.source.add(f"pos += {count} * {smallest}")
            return
        read = None if field.struct is None else self.reader_of(field.struct)
        if read is not None:
            self.source.add(f"{value}, pos = {self.source.constant('read', read)}(buf, pos, {count})")
            return
        self.source.add(f"{value} = []")
        with self.source.block(f"for _ in range({count}):"):
            self.source.add(f"{value}.append({self._field(field.element(), is_flexible)})")

    def _tags(self, schema: Struct, values: dict[str, str]) -> None:
        """Emit code that decodes a tag section: known tags are decoded, others skipped by their size."""
        tagged = [field for field in schema.fields if field.tag is not None]
        if not tagged:
            self.source.add("pos = skip_tags(buf, pos) if buf[pos] else pos + 1")
            return
        for field in tagged:
            values[field.name] = self.source.fresh("t")
            self.source.add(f"{values[field.name]} = {self.source.constant('default', field.default)}")
        count = self.source.fresh("n")
        self._uvarint(count)
        with self.source.block(f"if {count}:"):
            with self.source.block(f"if {count} > (end - pos) // 2:"):
                self.source.add(f"raise wrong('{{}} tags'.format({count}))")
            with self.source.block(f"for _ in range({count}):"):
                tag, size, stop = (self.source.fresh(stem) for stem in "gze")
                self._uvarint(tag)
                self._uvarint(size)
                self.source.add(f"{stop} = pos + {size}")
                with self.source.block(f"if {stop} > end:"):
                    self.source.add("raise wrong('a tag ends beyond the message')")
                for field in tagged:
                    with self.source.block(f"if {tag} == {field.tag}:"):
                        value = self._field(field, is_flexible=True)
                        self.source.add(f"{values[field.name]} = {value}")
                        with self.source.block(f"if pos > {stop}:"):
                            self.source.add("raise wrong('a tag is longer than its stated size')")
                self.source.add(f"pos = {stop}")
