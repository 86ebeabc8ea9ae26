"""The options of values with schemas, and the schemas that they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from klamm.config import ConfigError
from klamm.extras import install_command
from klamm.schemas.named import registry_of
from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from klamm.spark.options.names import REGISTRY, Given
from klamm.spark.options.values import one_word

_CLIENT: Final = "schema.registry."  # as klamm's producers and consumers call these settings
_ONLY_WITH: Final = ("valueSchema", "keySchema", "valueColumns", "badValues")
LATEST: Final = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """What the options say; hashable, as tasks keep what they made of them."""

    registry: tuple[tuple[str, str], ...] = field(repr=False)  # with credentials
    value: str | None = None
    key: str | None = None
    is_flat: bool = False  # the fields of a value are columns of the row
    keeps_bad: bool = False


@dataclass(frozen=True, slots=True)
class ReadSchemas:
    """The schemas that values and keys are read as; none for keys that stay bytes."""

    options: SchemaOptions
    values: tuple[RegisteredSchema, ...]
    keys: tuple[RegisteredSchema, ...] = ()


def schema_options(given: Given, *, is_source: bool) -> SchemaOptions | None:
    """The options of values with schemas; None when values are bytes. Raises ConfigError."""
    url = given.get(REGISTRY)
    if url is None:
        for name in _ONLY_WITH:
            if name in given:
                raise ConfigError(
                    name, f"option {name} needs option {REGISTRY}: the URL of a schema registry"
                )
        return None
    settings = {f"{_CLIENT}url": url}
    for name, value in given.starting_with(f"{REGISTRY}.").items():
        settings[f"{_CLIENT}{name}"] = value
    options = SchemaOptions(
        registry=tuple(sorted(settings.items())),
        value=given.get("valueSchema"),
        key=given.get("keySchema"),
        is_flat=one_word(given, "valueColumns", ("struct", "columns"), "struct") == "columns",
        keeps_bad=one_word(given, "badValues", ("fail", "keep"), "fail") == "keep",
    )
    if not is_source and (options.is_flat or options.keeps_bad):
        name = "valueColumns" if options.is_flat else "badValues"
        raise ConfigError(name, f"option {name} applies to a source: remove it")
    registry_for(options)
    return options


@lru_cache(maxsize=32)
def _client(settings: tuple[tuple[str, str], ...]) -> SchemaRegistry:
    return registry_of(dict(settings))


def registry_for(options: SchemaOptions) -> SchemaRegistry:
    """The client of the registry in this process: it asks for each schema once. Raises ConfigError."""
    try:
        return _client(options.registry)
    except ConfigError as error:
        raise ConfigError(REGISTRY, str(error).replace(_CLIENT, f"{REGISTRY}.", 1)) from None


def read_schemas(options: SchemaOptions, topics: tuple[str, ...]) -> ReadSchemas:
    """Ask the registry for the schemas to read with. Raises ConfigError, SchemaRegistryError."""
    registry = registry_for(options)
    values = _found(registry, options.value or LATEST, "valueSchema", topics, "value")
    keys = () if options.key is None else _found(registry, options.key, "keySchema", topics, "key")
    return ReadSchemas(options, values, keys)


def _found(
    registry: SchemaRegistry, text: str, option: str, topics: tuple[str, ...], side: str
) -> tuple[RegisteredSchema, ...]:
    if text[:1] in ("{", "[", '"'):
        return (RegisteredSchema(0, "AVRO", text),)
    found: dict[int, RegisteredSchema] = {}
    for each in filter(None, (item.strip() for item in text.split(","))):
        if each == LATEST and not topics:
            raise ConfigError(
                option, f"option {option} is missing: topics of a pattern have no one schema; name a subject"
            )
        for name in [f"{topic}-{side}" for topic in topics] if each == LATEST else [each]:
            schema = named_schema(registry, name, option)
            found[schema.schema_id] = schema
    if not found:
        raise ConfigError(option, f"option {option} is empty: name a subject or the id of a schema")
    return tuple(found.values())


def named_schema(registry: SchemaRegistry, name: str, option: str) -> RegisteredSchema:
    """The schema of an id, or the latest one of a subject. Raises ConfigError, SchemaRegistryError."""
    try:
        found = registry.schema(int(name)) if name.isdecimal() else registry.latest(name)
        return registry.schema(found.schema_id, "serialized") if found.schema_type == "PROTOBUF" else found
    except SchemaRegistryError as error:
        if error.code in (40401, 40402, 40403):
            what = f"no schema {name}" if name.isdecimal() else f"no subject {name}"
            raise ConfigError(
                option, f"the schema registry has {what}: register it, or set option {option}"
            ) from error
        raise


def need_packages(error: ModuleNotFoundError) -> ConfigError:
    """What to say where a format's package is missing."""
    return ConfigError(
        REGISTRY, f"{REGISTRY} needs {error.name}, which is not installed: {install_command('schemas')}"
    )
