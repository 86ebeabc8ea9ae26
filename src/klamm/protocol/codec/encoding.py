"""Encoding: one compiled function per message version."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from klamm.protocol.codec.layout import FIXED, MAX_STRING_BYTES, SourceCode
from klamm.protocol.schema import SchemaField, Struct
from klamm.protocol.types import Buffer

WriteElements = Callable[[Iterable[Any]], bytes]
WriterOf = Callable[[Struct], WriteElements | None]

_SHORT: Final = tuple(bytes((value,)) for value in range(128))


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 128:
        return _SHORT[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def explanation(text: str) -> bytes:
    """An error message, cut to a length that clients accept: it may quote what the client sent."""
    raw = text.encode()
    return raw if len(raw) <= MAX_STRING_BYTES else raw[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def compile_encoder(schema: Struct, writer_of: WriterOf) -> Callable[[Any], list[Buffer]]:
    """Compile a function that encodes one message version."""
    compiler = _Encoder(writer_of)
    compiler.source.add("out = []")
    compiler.struct(schema, "m", "out")
    compiler.source.add("return out")
    encode: Callable[[Any], list[Buffer]] = compiler.source.compile(
        "encode", f"encode {schema.name} v{schema.version}"
    )
    return encode


class _Encoder:
    """Collects fixed-size values and lengths in a run, which one struct call writes."""

    def __init__(self, writer_of: WriterOf) -> None:
        self.writer_of = writer_of
        self.source = SourceCode("def encode(m):")
        self.source.shared("uv", uvarint)
        self.source.shared("short", _SHORT)
        self.source.shared("explanation", explanation)
        self._run: list[tuple[str, str]] = []  # (struct code, expression)
        self._pending: list[str] = []  # expressions of bytes
        self._out = "out"

    def struct(self, schema: Struct, value: str, out: str) -> None:
        self._out = out
        for field in schema.fields:
            if field.tag is None:
                self._field(field, f"{value}.{field.name}", schema.is_flexible)
        if schema.is_flexible:
            self._tags(schema, value)
        self._flush()

    def _flush(self) -> None:
        self._end_run()
        if len(self._pending) == 1:
            self.source.add(f"{self._out}.append({self._pending[0]})")
        elif self._pending:
            self.source.add(f"{self._out} += ({', '.join(self._pending)})")
        self._pending.clear()

    def _end_run(self) -> None:
        if self._run:
            layout = "".join(code for code, _ in self._run)
            pack = self.source.shared(f"pack_{layout}", struct.Struct(">" + layout).pack)
            self._pending.append(f"{pack}({', '.join(expression for _, expression in self._run)})")
            self._run.clear()

    def _bytes(self, expression: str) -> None:
        self._end_run()
        self._pending.append(expression)

    def _field(self, field: SchemaField, value: str, is_flexible: bool) -> None:
        if field.is_array:
            self._array(field, value, is_flexible)
        elif field.struct is not None:
            self._nested(field, field.struct, value)
        elif field.type in FIXED:
            self._run.append((FIXED[field.type], value))
        else:
            self._sized(field, value, is_flexible)

    def _nested(self, field: SchemaField, nested: Struct, value: str) -> None:
        self._flush()
        out, local = self._out, self.source.fresh("s")
        self.source.add(f"{local} = {value}")
        if field.is_nullable and field.tag is None:
            with self.source.block(f"if {local} is None:"):
                self.source.add(f"{out}.append(b'\\xff')")
            with self.source.block("else:"):
                self.source.add(f"{out}.append(b'\\x01')")
                self.struct(nested, local, out)
        else:
            self.struct(nested, local, out)

    def _sized(self, field: SchemaField, value: str, is_flexible: bool) -> None:
        # A version without null encodes it as empty.
        body = self.source.fresh("b")
        length = f"len({body})"
        encode = f"{body}.encode()" if field.type == "string" else ""
        if encode and field.name.endswith("error_message"):
            encode = f"explanation({body})"
        self.source.add(f"{body} = {value}")
        if field.is_nullable:
            length = self.source.fresh("n")
            with self.source.block(f"if {body} is None:"):
                self.source.add(f"{body} = b''")
                self.source.add(f"{length} = -1")
            with self.source.block("else:"):
                if encode:
                    self.source.add(f"{body} = {encode}")
                self.source.add(f"{length} = len({body})")
        elif encode:
            self.source.add(f"{body} = {encode} if {body} else b''")
        else:
            with self.source.block(f"if {body} is None:"):
                self.source.add(f"{body} = b''")
        if is_flexible:
            self._bytes(_uvarint_of(f"{length} + 1"))
        else:
            self._run.append(("h" if field.type == "string" else "i", length))
        self._bytes(body)

    def _array(self, field: SchemaField, value: str, is_flexible: bool) -> None:
        items = self.source.fresh("a")
        self.source.add(f"{items} = {value}")
        length = f"len({items})"
        if field.is_nullable:
            length = self.source.fresh("n")
            self.source.add(f"{length} = -1 if {items} is None else len({items})")
        with self.source.block(f"if {items} is None:"):
            self.source.add(f"{items} = ()")
        if is_flexible:
            self._bytes(_uvarint_of(f"{length} + 1"))
        else:
            self._run.append(("i", length))
        if field.type in FIXED and field.type not in ("uuid", "bool"):
            pack = self.source.shared("pack", struct.pack)
            self._bytes(f"{pack}('>%d{FIXED[field.type]}' % len({items}), *{items})")
            return
        write = None if field.struct is None else self.writer_of(field.struct)
        if write is not None:
            self._bytes(f"{self.source.constant('write', write)}({items})")
            return
        self._flush()
        item = self.source.fresh("i")
        with self.source.block(f"for {item} in {items}:"):
            if field.struct is not None:
                self.struct(field.struct, item, self._out)
            else:
                self._field(field.element(), item, is_flexible)
            self._flush()

    def _tags(self, schema: Struct, value: str) -> None:
        tagged = sorted((field for field in schema.fields if field.tag is not None), key=_tag)
        if not tagged:
            self._bytes("b'\\0'")
            return
        self._flush()
        out = self._out
        count, tags = self.source.fresh("n"), self.source.fresh("t")
        self.source.add(f"{count} = 0")
        self.source.add(f"{tags} = []")
        for field in tagged:
            content = self.source.fresh("c")
            with self.source.block(f"if {self._is_set(field, f'{value}.{field.name}')}:"):
                self.source.add(f"{count} += 1")
                self.source.add(f"{content} = []")
                self._out = content
                self._field(field, f"{value}.{field.name}", is_flexible=True)
                self._out = content
                self._flush()
                self.source.add(f"{content} = b''.join({content})")
                self.source.add(f"{tags} += (short[{field.tag}], uv(len({content})), {content})")
        self._out = out
        self.source.add(f"{out}.append(short[{count}])")
        self.source.add(f"{out} += {tags}")

    def _is_set(self, field: SchemaField, value: str) -> str:
        if field.is_array:
            return f"{value}" if not field.is_nullable else f"{value} is not None"
        if field.struct is not None:
            return f"{value} is not None"
        return f"{value} != {self.source.constant('default', field.default)}"


def _uvarint_of(expression: str) -> str:
    """Source code of an unsigned varint; most are of one byte, and a lookup is faster than a call."""
    return f"(short[u] if (u := {expression}) < 128 else uv(u))"


def _tag(field: SchemaField) -> int:
    assert field.tag is not None
    return field.tag
