"""Values of any format of a registry, as JSON: for people and the command line."""

from __future__ import annotations

import json
from typing import Any

from klamm.schemas.framing import unframed
from klamm.schemas.registry_client import SchemaRegistry


class JsonOfSchema:
    """Reads what any serializer of a registry has written; the schema of each value tells its format."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._serdes: dict[str, Any] = {}

    def __call__(self, data: bytes | None) -> bytes | None:
        """The value as JSON in UTF-8; a deleted one as it is. Raises ValueError, SchemaRegistryError."""
        if data is None:
            return None
        schema_id, _ = unframed(data)
        kind = self._registry.schema(schema_id).schema_type
        value = self._serde(kind).deserialize("", data)
        if kind == "PROTOBUF":
            from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only this format needs it

            value = MessageToDict(value, preserving_proto_field_name=True)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_as_json).encode()

    def _serde(self, kind: str) -> Any:
        if kind not in self._serdes:
            self._serdes[kind] = self._made(kind)
        return self._serdes[kind]

    def _made(self, kind: str) -> Any:
        # Each needs packages that the others do not.
        match kind:
            case "AVRO":
                from klamm.schemas.avro import AvroSerde  # noqa: PLC0415

                return AvroSerde(self._registry)
            case "JSON":
                from klamm.schemas.json_schema import JsonSchemaSerde  # noqa: PLC0415

                return JsonSchemaSerde(self._registry)
            case "PROTOBUF":
                from klamm.schemas.protobuf import ProtobufSerde  # noqa: PLC0415

                return ProtobufSerde(self._registry)
            case _:
                raise ValueError(f"schemas of type {kind} are not known")


def _as_json(value: object) -> str:
    """Bytes, and Avro's logical types: dates, times, decimals, UUIDs."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
