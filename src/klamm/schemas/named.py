"""Serdes by name: `value.serializer=avro` with `schema.registry.url` and what else the settings say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from klamm.config import ConfigError
from klamm.extras import install_command
from klamm.references import resolved
from klamm.schemas.registry_client import SchemaRegistry

SERDES: Final = {
    "avro": ("avro", "AvroSerde"),
    "json-schema": ("json_schema", "JsonSchemaSerde"),
    "protobuf": ("protobuf", "ProtobufSerde"),
}
_URL: Final = "schema.registry.url"
_REGISTRY: Final[Mapping[str, str]] = {
    "schema.registry.bearer.auth.token": "token",
    "schema.registry.ssl.ca.location": "ca_location",
}
_USER_INFO: Final = "schema.registry.basic.auth.user.info"
REGISTRY_SETTINGS: Final = frozenset({_URL, _USER_INFO, *_REGISTRY})
_SIDES: Final = ("serializer.key.", "serializer.value.")
SERIALIZER_SIDES: Final = ("serializer.", *_SIDES)


def serde_by_name(name: str, settings: Mapping[str, Any], *, is_key: bool) -> Any:
    """The serde of a name. Raises ConfigError.

    `serializer.schema` and its like are for values; `serializer.key.schema` for keys.
    """
    registry = registry_of(settings)
    options = dict(_options(settings, is_key=is_key))
    module, attribute = SERDES[name]
    try:
        made: Callable[..., Any] = getattr(import_module(f"klamm.schemas.{module}"), attribute)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "value.serializer",
            f"{name} needs {error.name}, which is not installed: {install_command('schemas')}",
        ) from error
    try:
        return made(registry, is_key=is_key, **options)
    except (TypeError, ValueError) as error:
        raise ConfigError("serializer.", f"{name}: {error}") from error


def registry_of(settings: Mapping[str, Any]) -> SchemaRegistry:
    """The registry that `schema.registry.url` and its like name. Raises ConfigError."""
    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    settings = {**settings, **resolved(texts, os.environ)}
    url = settings.get(_URL)
    if not url:
        raise ConfigError(_URL, f"{_URL} is missing: write http://host:port of the schema registry")
    options = {keyword: settings[name] for name, keyword in _REGISTRY.items() if name in settings}
    if _USER_INFO in settings:
        username, _, password = str(settings[_USER_INFO]).partition(":")
        options |= {"username": username, "password": password}
    for name in settings:
        if name.startswith("schema.registry.") and name not in REGISTRY_SETTINGS:
            raise ConfigError(
                name, f"unknown setting {name}: expected one of {', '.join(sorted(REGISTRY_SETTINGS))}"
            )
    try:
        return SchemaRegistry(str(url), **options)
    except (ValueError, OSError) as error:
        raise ConfigError(_URL, f"{_URL}: {error}") from error


def _options(settings: Mapping[str, Any], *, is_key: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in settings.items():
        if not name.startswith("serializer."):
            continue
        side, rest = next(
            ((each, name.removeprefix(each)) for each in _SIDES if name.startswith(each)), ("", "")
        )
        if side and (side == _SIDES[0]) != is_key:
            continue
        if not side:
            if is_key:
                continue  # without a side it is about values
            rest = name.removeprefix("serializer.")
        keyword = SERIALIZER_OPTIONS.get(rest)
        if keyword is None:
            known = ", ".join(SERIALIZER_OPTIONS)
            raise ConfigError(name, f"unknown setting {name}: expected serializer. and one of {known}")
        made[keyword] = _truth(name, value) if keyword in ("auto_register", "use_latest") else value
    return made


SERIALIZER_OPTIONS: Final[Mapping[str, str]] = {
    "schema": "schema",
    "reader.schema": "reader_schema",
    "message.type": "message_type",
    "auto.register": "auto_register",
    "use.latest": "use_latest",
    "subject": "subject",
}


def _truth(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(name, f"invalid value {value!r} for {name}: expected true or false")
    return text == "true"
