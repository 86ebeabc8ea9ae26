"""The Avro schema of a column that is written without one, as Spark's own `to_avro` makes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

_PLAIN: Final[tuple[tuple[Callable[[Any], bool], Any], ...]] = (
    (pt.is_boolean, "boolean"),
    (pt.is_int64, "long"),
    (pt.is_signed_integer, "int"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_string, "string"),
    (pt.is_large_string, "string"),
    (pt.is_binary, "bytes"),
    (pt.is_large_binary, "bytes"),
    (pt.is_date32, {"type": "int", "logicalType": "date"}),
    (pt.is_time64, {"type": "long", "logicalType": "time-micros"}),
    (pt.is_null, "null"),
)


def avro_text(kind: Any, name: str) -> str:
    """A schema for values of this Arrow type, called after `name`; everything within may be null."""
    return json.dumps(_schema(kind, re.sub(r"\W", "_", re.sub(r"^(?=\d)", "_", name), flags=re.ASCII)))


def _schema(kind: Any, name: str) -> Any:
    for is_kind, found in _PLAIN:
        if is_kind(kind):
            return found
    if pt.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    if pt.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pt.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_field(each, name) for each in kind]}
    if pt.is_list(kind) or pt.is_large_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, name)}
    if pt.is_map(kind) and pt.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_type, name)}
    raise ValueError(f"Avro has no type for a column of {kind}: convert it, or set option valueSchema")


def _field(field: pa.Field, name: str) -> Mapping[str, Any]:
    return {"name": field.name, "type": _nullable(field.type, f"{name}_{field.name}"), "default": None}


def _nullable(kind: Any, name: str) -> Any:
    found = _schema(kind, name)
    return found if found == "null" else ["null", found]
