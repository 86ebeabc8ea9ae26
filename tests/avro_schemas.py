"""Random schemas of Avro, with values that fit them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": _INT,
    "long": _LONG,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=5),
    "string": _TEXT,
}
# Times that Python has: fastavro takes numbers for them.
_MICROS = st.integers(-(10**15), 10**16)
_LOGICAL: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.integers(-100_000, 1_000_000)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_399_999_999)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(10**12), 10**13)),
    ({"type": "long", "logicalType": "timestamp-micros"}, _MICROS),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, st.integers(-(10**12), 10**13)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _MICROS),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        st.decimals(-999_999, 999_999, places=3),
    ),
]


class Typed(NamedTuple):
    """A schema, and its values."""

    schema: Any
    values: st.SearchStrategy[Any]


@st.composite
def records(draw: st.DrawFn) -> Typed:
    """A record of up to five fields, each a tree of types; what is in a union is of types that differ."""
    numbers = itertools.count()
    return _record(draw, lambda: f"N{next(numbers)}", 3)


def _record(draw: st.DrawFn, name: Callable[[], str], depth: int) -> Typed:
    own = name()
    fields = [(f"f{number}", _typed(draw, name, depth - 1)) for number in range(draw(st.integers(1, 5)))]
    schema = {
        "type": "record",
        "name": own,
        "fields": [{"name": each, "type": kind.schema} for each, kind in fields],
    }
    return Typed(schema, st.fixed_dictionaries({each: kind.values for each, kind in fields}))


def _typed(draw: st.DrawFn, name: Callable[[], str], depth: int) -> Typed:
    kinds = ["plain", "logical", "fixed", "enum"]
    if depth > 0:
        kinds += ["record", "array", "map", "nullable", "union"]
    match draw(st.sampled_from(kinds)):
        case "plain":
            kind = draw(st.sampled_from(sorted(_PLAIN)))
            return Typed(kind, _PLAIN[kind])
        case "logical":
            return Typed(*draw(st.sampled_from(_LOGICAL)))
        case "fixed":
            size = draw(st.integers(0, 4))
            schema = {"type": "fixed", "name": name(), "size": size}
            return Typed(schema, st.binary(min_size=size, max_size=size))
        case "enum":
            symbols = draw(st.lists(st.from_regex(r"\A[A-Z]{1,3}\Z"), min_size=1, max_size=4, unique=True))
            return Typed({"type": "enum", "name": name(), "symbols": symbols}, st.sampled_from(symbols))
        case "record":
            return _record(draw, name, depth)
        case "array":
            part = _typed(draw, name, depth - 1)
            return Typed({"type": "array", "items": part.schema}, st.lists(part.values, max_size=3))
        case "map":
            part = _typed(draw, name, depth - 1)
            values = st.dictionaries(_TEXT, part.values, max_size=3)
            return Typed({"type": "map", "values": part.schema}, values)
        case "nullable":
            return _nullable(draw, _typed(draw, name, 0))
        case _:
            return _union(draw, name, depth)


def _nullable(draw: st.DrawFn, part: Typed) -> Typed:
    branches = ["null", part.schema] if draw(st.booleans()) else [part.schema, "null"]
    return Typed(branches, st.none() | part.values)


def _union(draw: st.DrawFn, name: Callable[[], str], depth: int) -> Typed:
    # fastavro finds the branch by the type of a value: no two that have one in common.
    whole = draw(st.sampled_from(["boolean", "long", "int"]))
    parts = [Typed(whole, _PLAIN[whole]), Typed("string", _TEXT), _record(draw, name, depth - 1)]
    parts.append(Typed("bytes", _PLAIN["bytes"]))
    chosen = draw(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4, unique=True))
    found = [parts[number] for number in chosen]
    values = st.one_of([each.values for each in found])
    branches = [each.schema for each in found]
    if draw(st.booleans()):
        branches.insert(draw(st.integers(0, len(branches))), "null")
        values = st.none() | values
    return Typed(branches, values)
