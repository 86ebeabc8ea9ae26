"""Avro's schema resolution: whether data of a writer's schema can be read with a reader's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.registry.formats.base import Budget

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class AvroReading:
    """One comparison of two schemas. Both are in canonical form, their named types beside them."""

    def __init__(self, reader_types: Mapping[str, Any], writer_types: Mapping[str, Any]) -> None:
        self._reader_types = reader_types
        self._writer_types = writer_types
        self._compared: set[tuple[str, str]] = set()  # pairs of named types: schemas may contain themselves
        self._budget = Budget()

    def problems(self, reader: Any, writer: Any) -> list[str]:
        """Why it cannot be read; each with the place in the reader's schema."""
        return list(self._compare(reader, writer, "", "", "/"))

    def _compare(
        self, reader: Any, writer: Any, reader_space: str, writer_space: str, at: str
    ) -> Iterator[str]:
        self._budget.spend()
        reader, reader_space = _resolved(reader, reader_space, self._reader_types)
        writer, writer_space = _resolved(writer, writer_space, self._writer_types)
        if isinstance(writer, list):
            for number, branch in enumerate(writer):
                found = list(self._compare(reader, branch, reader_space, writer_space, at))
                if found:
                    wanting = _kind(_resolved(branch, writer_space, self._writer_types)[0])
                    yield f"MISSING_UNION_BRANCH at {at}{number}: the reader has no branch for {wanting}"
            return
        if isinstance(reader, list):
            for branch in reader:
                compared = set(self._compared)
                if not list(self._compare(branch, writer, reader_space, writer_space, at)):
                    return
                self._compared = compared  # what a branch that does not fit took for granted
            yield f"MISSING_UNION_BRANCH at {at}: the reader's union has no branch for {_kind(writer)}"
            return
        kind, written = _kind(reader), _kind(writer)
        if kind != written:
            if kind not in _PROMOTIONS.get(written, ()):
                yield f"TYPE_MISMATCH at {at}: the reader has {kind}, the writer {written}"
            return
        match kind:
            case "array":
                yield from self._compare(
                    reader["items"], writer["items"], reader_space, writer_space, f"{at}items/"
                )
            case "map":
                yield from self._compare(
                    reader["values"], writer["values"], reader_space, writer_space, f"{at}values/"
                )
            case "record" | "error" | "enum" | "fixed":
                yield from self._named(kind, reader, writer, reader_space, writer_space, at)

    def _named(
        self, kind: str, reader: Any, writer: Any, reader_space: str, writer_space: str, at: str
    ) -> Iterator[str]:
        names = {reader["name"], *(alias.rpartition(".")[2] for alias in reader.get("aliases", ()))}
        if writer["name"] not in names:
            yield f"NAME_MISMATCH at {at}name: the reader has {reader['name']}, the writer {writer['name']}"
            return
        if kind == "fixed":
            if reader["size"] != writer["size"]:
                sizes = f"the reader has {reader['size']}, the writer {writer['size']}"
                yield f"FIXED_SIZE_MISMATCH at {at}size: {sizes}"
        elif kind == "enum":
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if missing and "default" not in reader:
                yield f"MISSING_ENUM_SYMBOLS at {at}symbols: {', '.join(missing)}"
        else:
            pair = (f"{reader_space}.{reader['name']}", f"{writer_space}.{writer['name']}")
            if pair not in self._compared:
                self._compared.add(pair)
                yield from self._fields(reader, writer, reader_space, writer_space, at)

    def _fields(
        self, reader: Any, writer: Any, reader_space: str, writer_space: str, at: str
    ) -> Iterator[str]:
        written = {field["name"]: field for field in writer["fields"]}
        for number, field in enumerate(reader["fields"]):
            names = [field["name"], *field.get("aliases", ())]
            same = next((written[name] for name in names if name in written), None)
            place = f"{at}fields/{number}/"
            if same is not None:
                yield from self._compare(
                    field["type"], same["type"], reader_space, writer_space, f"{place}type/"
                )
            elif "default" not in field:
                yield (
                    f"READER_FIELD_MISSING_DEFAULT_VALUE at {place}: {field['name']} has no default, and the "
                    "writer does not have it"
                )


def _resolved(schema: Any, space: str, types: Mapping[str, Any]) -> tuple[Any, str]:
    """What a schema is, and the namespace in which its names are meant."""
    if isinstance(schema, str):
        for name in (f"{space}.{schema}" if space else schema, schema):
            if name in types:
                return types[name], name.rpartition(".")[0]
        return schema, space
    if isinstance(schema, dict) and "name" in schema:
        return schema, schema.get("namespace", space)
    if isinstance(schema, dict) and schema["type"] not in ("array", "map"):
        return _resolved(schema["type"], space, types)  # a primitive type with attributes
    return schema, space


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)
