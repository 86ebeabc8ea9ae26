"""The formats of schemas. Each is imported when the first schema of it comes."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from klamm.extras import install_command
from klamm.registry.formats.base import Format, SchemaError
from klamm.registry.model import SchemaType

_FORMATS: Final[dict[SchemaType, tuple[str, str]]] = {
    "AVRO": ("avro", "AvroFormat"),
    "JSON": ("json_schema", "JsonFormat"),
    "PROTOBUF": ("protobuf", "ProtobufFormat"),
}


def format_of(schema_type: SchemaType) -> Format:
    """The format of a type. Raises SchemaError if its library is not installed."""
    module, name = _FORMATS[schema_type]
    try:
        made: Format = getattr(import_module(f"klamm.registry.formats.{module}"), name)()
    except ModuleNotFoundError as error:
        raise SchemaError(
            f"schemas of type {schema_type} need {error.name}, which is not installed: "
            f"{install_command('registry')}"
        ) from error
    return made
