"""Values of one schema as those of another one, by Avro's rules of schema resolution, a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from klamm.spark.schemas.avro_types import AvroField, AvroType

_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_LONG_DIGITS: Final = Context(prec=80)


def resolved(values: Any, written: AvroType, wanted: AvroType) -> Any:
    """The values, raw ones of `written`, as `wanted` has them in Arrow. Raises ValueError."""
    if wanted.kind == "union":
        return _as_union(values, written, wanted)
    if written.kind == "union":
        return _from_union(values, written, wanted)
    if written.kind == "null":
        return pa.nulls(len(values), wanted.arrow)
    if not _fits(written, wanted):
        raise ValueError(f"the schema's {_said(wanted)} was written as {_said(written)}")
    match wanted.kind:
        case "record":
            return _record(values, written, wanted)
        case "array":
            items = _part(values.values, written.parts[0], wanted.parts[0])
            return pa.ListArray.from_arrays(_offsets(values), items, type=wanted.arrow)
        case "map":
            items = _part(values.items, written.parts[0], wanted.parts[0])
            return pa.MapArray.from_arrays(_offsets(values), values.keys, items).cast(wanted.arrow)
        case "enum":
            return _enum(values, wanted)
    return _logical(_promoted(values, wanted), wanted)


def _fits(written: AvroType, wanted: AvroType) -> bool:
    if written.kind != wanted.kind:
        return (written.kind, wanted.kind) in _PROMOTIONS
    if "decimal" in (written.logical, wanted.logical):
        return (written.logical, written.scale) == (wanted.logical, wanted.scale)
    return True


def _part(values: Any, written: AvroType, wanted: AvroType) -> Any:
    """Values within others, which are there; null must be allowed."""
    made = resolved(values, written, wanted)
    if made.null_count and not wanted.nullable:
        raise ValueError(f"null was written where the schema has {_said(wanted)}")
    return made


def _record(values: Any, written: AvroType, wanted: AvroType) -> Any:
    found = {each.name: number for number, each in enumerate(written.fields)}
    there = values.is_valid() if values.null_count else None
    columns = values.flatten()  # null where the record is
    made = []
    for each in wanted.fields:
        number = next((found[name] for name in (each.name, *each.aliases) if name in found), None)
        if number is None:
            made.append(_default(each, len(values)))
            continue
        column = resolved(columns[number], written.fields[number].type, each.type)
        missing = column if there is None else column.filter(there)
        if missing.null_count and not each.type.nullable:
            raise ValueError(f"field {each.name} was written as null, and the schema has no null there")
        made.append(column)
    if not made:
        return pa.array([None if each is None else {} for each in values.to_pylist()], wanted.arrow)
    return pa.StructArray.from_arrays(
        made, fields=list(wanted.arrow), mask=None if there is None else pc.invert(there)
    )


def _default(wanted: AvroField, count: int) -> Any:
    if not wanted.has_default:
        raise ValueError(f"field {wanted.name} was not written, and has no default in the schema")
    value = pa.array([_raw(wanted.default, wanted.type)], wanted.type.raw)
    column = resolved(value, wanted.type, wanted.type)
    return pa.concat_arrays([column] * count) if count < 2 else column.take(pa.array([0] * count))


def _raw(default: Any, wanted: AvroType) -> Any:
    """A default as fastavro would read it."""
    if default is None and wanted.nullable:
        return None
    match wanted.kind:
        case "union":
            number = next(at for at, part in enumerate(wanted.parts) if _is_default(default, part))
            return {f"member{number}": _raw(default, wanted.parts[number])}
        case "record":
            return {
                each.name: _raw(default.get(each.name, each.default), each.type) for each in wanted.fields
            }
        case "array":
            return [_raw(each, wanted.parts[0]) for each in default]
        case "map":
            return [(name, _raw(each, wanted.parts[0])) for name, each in default.items()]
        case "bytes" | "fixed":
            return default.encode("latin-1")
    return default


def _is_default(default: Any, wanted: AvroType) -> bool:
    expected: dict[str, Any] = {"boolean": bool, "record": dict, "map": dict, "array": list}
    expected |= dict.fromkeys(("bytes", "fixed", "string", "enum"), str)
    expected |= dict.fromkeys(("int", "long", "float", "double"), (int, float))
    return isinstance(default, expected[wanted.kind]) and (wanted.kind == "boolean") == isinstance(
        default, bool
    )


def _as_union(values: Any, written: AvroType, wanted: AvroType) -> Any:
    pieces = _members(values, written)
    columns: list[list[Any]] = [[] for _ in wanted.parts]
    for piece, kind in pieces:
        if piece.null_count < len(piece):
            number = _branch(kind, wanted.parts)
            columns[number].append(resolved(piece, kind, wanted.parts[number]))
    count = len(values)
    made = [
        pc.coalesce(*found) if found else pa.nulls(count, part.arrow)
        for found, part in zip(columns, wanted.parts, strict=True)
    ]
    return pa.StructArray.from_arrays(made, fields=list(wanted.arrow), mask=values.is_null())


def _from_union(values: Any, written: AvroType, wanted: AvroType) -> Any:
    found = [pa.nulls(len(values), wanted.arrow)]
    for piece, kind in _members(values, written):
        if piece.null_count < len(piece):
            found.append(resolved(piece, kind, wanted))
    return pc.coalesce(*found)


def _members(values: Any, written: AvroType) -> Sequence[tuple[Any, AvroType]]:
    if written.kind == "null":
        return ()
    if written.kind != "union":
        return ((values, written),)
    return list(zip(values.flatten(), written.parts, strict=True))


def _branch(written: AvroType, parts: Sequence[AvroType]) -> int:
    """The first branch that is the same type, else the first one that it can be read as."""
    for number, part in enumerate(parts):
        if (part.kind, part.name) == (written.kind, written.name) and _fits(written, part):
            return number
    for number, part in enumerate(parts):
        if _fits(written, part):
            return number
    raise ValueError(f"the schema's union has no branch for {_said(written)}")


def _enum(values: Any, wanted: AvroType) -> Any:
    known = pc.is_in(values, value_set=pa.array(wanted.symbols, pa.string()))
    if pc.all(pc.or_(known, values.is_null())).as_py() in (True, None):
        return values
    if wanted.default is None:
        unknown = values.filter(pc.invert(known)).drop_null()[0].as_py()
        raise ValueError(f"enum {wanted.name} has no symbol {unknown}, and no default")
    return pc.if_else(pc.or_(known, values.is_null()), values, wanted.default)


def _promoted(values: Any, wanted: AvroType) -> Any:
    return values if values.type == wanted.raw else values.cast(wanted.raw, safe=wanted.kind == "string")


def _logical(values: Any, wanted: AvroType) -> Any:
    match wanted.logical:
        case None:
            return values
        case "decimal":
            found = [None if each is None else _decimal(each, wanted) for each in values.to_pylist()]
            return pa.array(found, wanted.arrow)
        case "timestamp-millis" | "local-timestamp-millis":
            return pc.multiply_checked(values, 1000).view(wanted.arrow)
        case "time-micros":
            return pc.multiply_checked(values, 1000).view(wanted.arrow)  # Arrow counts nanoseconds there
    return values.view(wanted.arrow)


def _decimal(unscaled: bytes, wanted: AvroType) -> Decimal:
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-wanted.scale, _LONG_DIGITS)


def _offsets(values: Any) -> Any:
    """Where each list begins, with null for one that is null."""
    if not values.null_count:
        return values.offsets
    missing = pa.concat_arrays([values.is_null(), pa.array([False])])
    return pc.if_else(missing, pa.scalar(None, pa.int32()), values.offsets)


def _said(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}" if kind.name else kind.logical or kind.kind
