"""Values with schemas of a registry: for producers, consumers and the command line.

    registry = klamm.schemas.SchemaRegistry("http://127.0.0.1:8081")
    producer = klamm.Producer(value_serializer=klamm.schemas.AvroSerde(registry, schema), ...)
    consumer = klamm.Consumer("orders", value_deserializer=klamm.schemas.AvroSerde(registry), ...)

Any registry with Confluent's REST API does; `klamm registry` is one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.schemas.avro import AvroSerde
    from klamm.schemas.json_schema import JsonSchemaSerde
    from klamm.schemas.protobuf import ProtobufSerde
    from klamm.schemas.registry_client import SchemaRegistry, SchemaRegistryError

# Each needs packages that the others do not.
_MODULES: Final = {
    "AvroSerde": "avro",
    "JsonSchemaSerde": "json_schema",
    "ProtobufSerde": "protobuf",
    "SchemaRegistry": "registry_client",
    "SchemaRegistryError": "registry_client",
}

__all__ = ["AvroSerde", "JsonSchemaSerde", "ProtobufSerde", "SchemaRegistry", "SchemaRegistryError"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
