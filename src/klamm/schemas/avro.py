"""Values in Avro: dictionaries, as fastavro reads and writes them."""

from __future__ import annotations

import io
import json
from typing import Any, ClassVar

import fastavro

from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry
from klamm.schemas.serde import RegistrySerde


class AvroSerde(RegistrySerde[Any]):
    """Avro with the schemas of a registry.

    `reader_schema` is what values are read as, by Avro's rules of schema resolution; without one as they were
    written.
    """

    schema_type: ClassVar[str] = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: str | None = None,
        *,
        reader_schema: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(registry, schema, **options)
        self._reader = None if reader_schema is None else self._parse_own(reader_schema)

    def parse(self, schema: RegisteredSchema) -> Any:
        named: dict[str, Any] = {}
        try:
            for _, text in schema.used:
                fastavro.parse_schema(json.loads(text), named_schemas=named)
            return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise ValueError(f"not an Avro schema: {error}") from error

    def encode(self, parsed: Any, value: Any) -> bytes:
        made = io.BytesIO()
        try:
            fastavro.schemaless_writer(made, parsed, value, strict_allow_default=True)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{value!r} does not fit the Avro schema: {error}") from error
        return made.getvalue()

    def decode(self, parsed: Any, payload: bytes) -> Any:
        source = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(source, parsed, self._reader)
        except (EOFError, IndexError, KeyError, TypeError, fastavro.read.SchemaResolutionError) as error:
            raise ValueError(f"not a value of its Avro schema: {type(error).__name__} {error}") from error
        if source.tell() != len(payload):
            raise ValueError(
                f"the value ends after {source.tell()} of {len(payload)} bytes: not one of its schema"
            )
        return value

    def name_of(self, parsed: Any) -> str | None:
        return str(parsed["name"]) if isinstance(parsed, dict) and "name" in parsed else None
