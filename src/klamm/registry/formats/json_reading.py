"""Whether every value that one JSON schema accepts is accepted by another.

The rules are Confluent's: what narrows a schema is a problem, what widens it is not, and a property that is
added where any property was allowed before is one, too: values may have something else under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from klamm.registry.formats.base import Budget

# A limit that is new, or that moved this way, refuses values that were accepted.
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SUMS: Final = ("anyOf", "oneOf")
_NO_PROPERTIES: Final[Mapping[str, Any]] = {}


class JsonReading:
    """One comparison of two schemas, each with the documents that it refers to."""

    def __init__(self, reader: JsonDocument, writer: JsonDocument) -> None:
        self._reader = reader
        self._writer = writer
        # Schemas may contain themselves. Pairs are kept, so that no other object has their identity.
        self._compared: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._budget = Budget()

    def problems(self) -> list[str]:
        """Why values of the writer are refused; each with the place in the reader's schema."""
        return list(self._compare(self._reader.root, self._writer.root, "#/"))

    def _compare(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        self._budget.spend()
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        if reader in (True, {}) or writer is False or reader == writer:
            return
        if reader is False:
            yield f"TYPE_NARROWED at {at}: nothing is accepted any more"
            return
        if writer is True:
            writer = {}
        pair = (id(reader), id(writer))
        if pair in self._compared:
            return
        self._compared[pair] = (reader, writer)
        sums = [(kind, reader.get(kind), writer.get(kind)) for kind in _SUMS]
        if any(mine is not None or theirs is not None for _, mine, theirs in sums):
            yield from self._compare_sums(reader, writer, at)
            return
        for check in (self._types, self._values, self._limits, self._objects, self._arrays, self._products):
            yield from check(reader, writer, at)

    def _fits(self, reader: Any, writer: Any, at: str) -> bool:
        before = dict(self._compared)
        if not any(self._compare(reader, writer, at)):
            return True
        self._compared = before  # what an alternative that does not fit took for granted
        return False

    def _compare_sums(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        """Every alternative of the writer fits one of the reader's."""
        for number, theirs in enumerate(_alternatives(writer)):
            if not any(self._fits(mine, theirs, at) for mine in _alternatives(reader)):
                yield f"SUM_TYPE_NARROWED at {at}: alternative {number} is not accepted any more"

    def _types(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        mine, theirs = _types(reader), _types(writer)
        if mine is None:
            return
        missing = ["any"] if theirs is None else sorted(theirs - mine)
        if missing == ["integer"] and "number" in mine:
            return
        if missing:
            change = "TYPE_CHANGED" if theirs is not None and not (mine & theirs) else "TYPE_NARROWED"
            yield f"{change} at {at}: {', '.join(missing)} is not accepted any more"

    def _values(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        if (
            "const" in reader
            and writer.get("const", None if "const" not in writer else ...) != reader["const"]
        ):
            yield f"CONST_CHANGED at {at}const"
        if "enum" in reader:
            theirs = writer.get("enum", [writer["const"]] if "const" in writer else None)
            if theirs is None:
                yield f"ENUM_ARRAY_ADDED at {at}enum"
            else:
                missing = [value for value in theirs if value not in reader["enum"]]
                if missing:
                    yield f"ENUM_ARRAY_NARROWED at {at}enum: {missing[0]!r} is not accepted any more"
        for name in ("pattern", "format"):
            if name in reader and reader[name] != writer.get(name) and name == "pattern":
                change = "CHANGED" if name in writer else "ADDED"
                yield f"{name.upper()}_{change} at {at}{name}"
        if "not" in reader and not ("not" in writer and self._is_excluded(reader["not"], writer["not"], at)):
            yield f"NOT_TYPE_EXTENDED at {at}not"

    def _is_excluded(self, mine: Any, theirs: Any, at: str) -> bool:
        """Whether all that the reader refuses was refused by the writer."""
        return JsonReading(self._writer, self._reader)._fits(theirs, mine, at)

    def _limits(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        limits: tuple[tuple[tuple[str, ...], Callable[[Any, Any], bool], str], ...] = (
            (_UPPER, lambda mine, theirs: mine < theirs, "DECREASED"),
            (_LOWER, lambda mine, theirs: mine > theirs, "INCREASED"),
        )
        for names, is_narrower, change in limits:
            for name in names:
                mine, theirs = reader.get(name), writer.get(name)
                if mine is None or mine is False:
                    continue
                if theirs is None or theirs is False:
                    if not (name in _LOWER and mine == 0 and name.startswith("min") and name != "minimum"):
                        yield f"{name.upper()}_ADDED at {at}{name}"
                elif is_narrower(mine, theirs):
                    yield f"{name.upper()}_{change} at {at}{name}: {theirs} to {mine}"
        if "multipleOf" in reader:
            theirs = writer.get("multipleOf")
            if theirs is None:
                yield f"MULTIPLE_OF_ADDED at {at}multipleOf"
            elif theirs % reader["multipleOf"]:
                yield f"MULTIPLE_OF_CHANGED at {at}multipleOf: {theirs} to {reader['multipleOf']}"
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            yield f"UNIQUE_ITEMS_ADDED at {at}uniqueItems"

    def _objects(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        if not _may_be(writer, "object") or not _may_be(reader, "object"):
            return
        mine, theirs = reader.get("properties", _NO_PROPERTIES), writer.get("properties", _NO_PROPERTIES)
        for name in theirs:
            place = f"{at}properties/{name}/"
            if name in mine:
                yield from self._compare(mine[name], theirs[name], place)
            elif theirs[name] is not False:
                rest = _rest(reader, name)
                if rest is False:
                    yield f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {place}"
                elif not self._fits(rest, theirs[name], place):
                    yield f"PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {place}"
        for name in mine:
            if name in theirs:
                continue
            place = f"{at}properties/{name}/"
            rest = _rest(writer, name)
            if rest is False:
                continue  # values had nothing under this name; whether they need it is told below
            if rest in (True, {}):
                if self._reader.resolved(mine[name]) not in (True, {}):
                    yield f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {place}"
            elif not self._fits(mine[name], rest, place):
                yield f"PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {place}"
        for name in reader.get("required", ()):
            if name not in writer.get("required", ()):
                schema = self._reader.resolved(mine.get(name, {}))
                if not isinstance(schema, dict) or "default" not in schema:
                    yield f"REQUIRED_ATTRIBUTE_ADDED at {at}required: {name} has no default"
        yield from self._additional(reader, writer, "additionalProperties", at)
        yield from self._dependencies(reader, writer, at)

    def _additional(self, reader: Any, writer: Any, name: str, at: str) -> Iterator[str]:
        mine, theirs = reader.get(name, True), writer.get(name, True)
        if mine is False and theirs is not False:
            yield f"{_shout(name)}_REMOVED at {at}{name}"
        elif mine not in (True, {}) and theirs is not False and not self._fits(mine, theirs, f"{at}{name}/"):
            yield f"{_shout(name)}_NARROWED at {at}{name}"

    def _dependencies(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        for name in ("dependencies", "dependentRequired", "dependentSchemas"):
            theirs = writer.get(name, _NO_PROPERTIES)
            for key, mine in reader.get(name, _NO_PROPERTIES).items():
                place = f"{at}{name}/{key}"
                if key not in theirs:
                    yield f"DEPENDENCY_ADDED at {place}"
                elif isinstance(mine, list) and isinstance(theirs[key], list):
                    if not set(mine) <= set(theirs[key]):
                        yield f"DEPENDENCY_ARRAY_EXTENDED at {place}"
                elif isinstance(mine, list) or isinstance(theirs[key], list):
                    yield f"DEPENDENCY_CHANGED at {place}"
                else:
                    yield from self._compare(mine, theirs[key], f"{place}/")

    def _arrays(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        if not _may_be(writer, "array") or not _may_be(reader, "array"):
            return
        (mine, my_rest), (theirs, their_rest) = _items(reader), _items(writer)
        for number in range(max(len(mine), len(theirs))):
            reads = mine[number] if number < len(mine) else my_rest
            wrote = theirs[number] if number < len(theirs) else their_rest
            yield from self._compare(reads, wrote, f"{at}items/{number}/")
        yield from self._compare(my_rest, their_rest, f"{at}items/")

    def _products(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        """Every condition of the reader follows from one of the writer's, or from all that it says."""
        conditions = [writer, *writer.get("allOf", ())]
        for number, mine in enumerate(reader.get("allOf", ())):
            if not any(self._fits(mine, theirs, at) for theirs in conditions):
                yield f"PRODUCT_TYPE_EXTENDED at {at}allOf/{number}"


class JsonDocument:
    """A schema with the documents that its references name."""

    def __init__(self, root: Any, documents: Mapping[str, Any]) -> None:
        self.root = root
        self._documents = documents

    def resolved(self, schema: Any) -> Any:
        """What a reference refers to; the schema itself if it is none, or leads nowhere."""
        seen = 0
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and seen < 100:
            target = self._target(schema["$ref"])
            if target is None:
                return schema
            schema, seen = target, seen + 1
        return schema

    def _target(self, reference: str) -> Any:
        document, _, path = reference.partition("#")
        found = self._documents.get(document) if document else self.root
        for part in filter(None, path.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found


def _alternatives(schema: Any) -> list[Any]:
    """The schemas of which one, or any, holds; with what holds beside them."""
    rest = {name: value for name, value in schema.items() if name not in _SUMS}
    sums = [schema[kind] for kind in _SUMS if kind in schema]
    if not sums:
        return [schema]
    return [
        {**rest, "allOf": [*rest.get("allOf", ()), *chosen]} if rest else chosen[0]
        for chosen in product(*sums)
    ]


def _types(schema: Any) -> set[str] | None:
    stated = schema.get("type")
    if stated is None:
        return None
    return {stated} if isinstance(stated, str) else set(stated)


def _may_be(schema: Any, kind: str) -> bool:
    types = _types(schema)
    return types is None or kind in types


def _rest(schema: Any, name: str) -> Any:
    """What a property must be that the schema does not list."""
    import re  # noqa: PLC0415 - only where there are patterns

    for pattern, each in schema.get("patternProperties", _NO_PROPERTIES).items():
        if re.search(pattern, name):
            return each
    return schema.get("additionalProperties", True)


def _items(schema: Any) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of all others."""
    if "prefixItems" in schema:
        return list(schema["prefixItems"]), schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def _shout(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).upper()
