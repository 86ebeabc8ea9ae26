"""Columns as framed values: the schema is registered, or looked up, before the first value is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from klamm.errors import KlammError
from klamm.schemas.framing import framed
from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry
from klamm.spark.schemas.avro_text import avro_text
from klamm.spark.schemas.options import LATEST, SchemaOptions, named_schema, need_packages, registry_for


class UnfitValueError(KlammError, ValueError):
    """A row that does not fit the schema it is to be written with."""


def with_values(batch: Any, options: SchemaOptions, topic: str) -> Any:
    """The rows with values, and keys, as bytes. Columns of bytes or text without a schema stay."""
    for name, text in (("value", options.value), ("key", options.key)):
        at = batch.schema.get_field_index(name)
        if at >= 0 and (text is not None or not _is_plain(batch.schema.field(at).type)):
            made = written(batch.column(at), options, text, f"{topic}-{name}")
            batch = batch.set_column(at, name, made)
    return batch


def _is_plain(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_null(kind))


def written(values: Any, options: SchemaOptions, text: str | None, subject: str) -> Any:
    """A column as framed values. Raises UnfitValueError, ConfigError, SchemaRegistryError.

    `text` is what the option says: an id, a subject, `latest`, a schema of Avro, or nothing.
    """
    own = None
    if text is None or text[:1] in ("{", "[", '"'):
        own = text or avro_text(values.type, subject.removesuffix("-value").removesuffix("-key"))
    schema_id, encode = _encoder(options, text or "", subject, own)
    made = [
        None if each is None else framed(schema_id, _encoded(encode, each))
        for each in values.to_pylist(maps_as_pydicts="strict")
    ]
    return pa.array(made, pa.binary())


def _encoded(encode: Callable[[Any], bytes], value: Any) -> bytes:
    try:
        return encode(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnfitValueError(f"a row cannot be written: {error}") from error


@lru_cache(maxsize=64)
def _encoder(
    options: SchemaOptions, text: str, subject: str, own: str | None
) -> tuple[int, Callable[[Any], bytes]]:
    """The id of the schema, and what makes bytes of a value; once in a process."""
    registry = registry_for(options)
    if own is not None:
        found = RegisteredSchema(registry.id_of(subject, "AVRO", own), "AVRO", own)
    else:
        found = named_schema(registry, subject if text == LATEST else text, "valueSchema")
    try:
        return found.schema_id, _encode_with(found, registry)
    except ModuleNotFoundError as error:
        raise need_packages(error) from error


def _encode_with(found: RegisteredSchema, registry: SchemaRegistry) -> Callable[[Any], bytes]:
    # Each needs packages that the others do not.
    match found.schema_type:
        case "AVRO":
            from klamm.schemas.avro import AvroSerde  # noqa: PLC0415
            from klamm.spark.schemas.avro_types import avro_type  # noqa: PLC0415
            from klamm.spark.schemas.avro_values import value_maker  # noqa: PLC0415

            avro = AvroSerde(registry)
            schema, prepared = avro.parse(found), value_maker(avro_type(found))
            return lambda value: avro.encode(schema, prepared(value))
        case "JSON":
            from klamm.schemas.json_schema import JsonSchemaSerde  # noqa: PLC0415

            json = JsonSchemaSerde(registry)
            validator = json.parse(found)
            return lambda value: json.encode(validator, _without_nulls(value))
        case "PROTOBUF":
            from klamm.spark.schemas.protobuf import message_encoder  # noqa: PLC0415

            return message_encoder(found, registry)
    raise ValueError(f"schemas of type {found.schema_type} are not known")


def _without_nulls(value: Any) -> Any:
    """A row as JSON: a field that is null is left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
