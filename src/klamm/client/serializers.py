"""Serializers by name: JSON, text and those of a schema registry (klamm.schemas); others of other packages.

Those come from the entry points `klamm.serializers`: a function of the settings that begin with
`schema.registry.` or `serializer.`, and of `is_key`, that returns a `Serde`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from klamm.client.config import SERIALIZER_PREFIXES
from klamm.client.java_serdes import PREFIX as JAVA_CLASSES
from klamm.client.java_serdes import java_serde
from klamm.config import ConfigError

GROUP: Final = "klamm.serializers"

_log = logging.getLogger(__name__)


@runtime_checkable
class Serde(Protocol):
    """Both directions of one format. None is never passed: it is a missing key or a deleted value."""

    def serialize(self, topic: str, value: Any) -> bytes:
        """The bytes of a value."""
        ...

    def deserialize(self, topic: str, data: bytes) -> Any:
        """The value of bytes."""
        ...


class WithTopic:
    """A serializer or deserializer that wants the topic beside the value."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[str, Any], Any]) -> None:
        self.function = function


class JsonSerde:
    """JSON in UTF-8, compact."""

    def serialize(self, _topic: str, value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def deserialize(self, _topic: str, data: bytes) -> Any:
        return json.loads(data)


class TextSerde:
    """Text in UTF-8."""

    def serialize(self, _topic: str, value: Any) -> bytes:
        return str(value).encode()

    def deserialize(self, _topic: str, data: bytes) -> str:
        return bytes(data).decode()


_OF_REGISTRY: Final = ("avro", "json-schema", "protobuf")
_BUILT_IN: Final[Mapping[str, Callable[[], Serde]]] = {"json": JsonSerde, "string": TextSerde}


def warn_of_unused(settings: Mapping[str, Any], sides: Collection[str]) -> None:
    """Tell which settings have no effect, as no serializer is named that takes them."""
    if any(_takes_settings(settings.get(side)) for side in sides):
        return
    for name in sorted(settings):
        if name.startswith(SERIALIZER_PREFIXES):
            known = ", ".join(_OF_REGISTRY)
            _log.warning("%s has no effect: name one of %s in %s", name, known, " or ".join(sides))


def _takes_settings(given: Any) -> bool:
    return isinstance(given, str) and given not in _BUILT_IN and not given.startswith(JAVA_CLASSES)


def serde_of(setting: str, given: Any, settings: Mapping[str, Any]) -> Serde | None:
    """The format that a setting names, or is; None if it is neither a name nor a Serde."""
    if isinstance(given, str):
        if given in _BUILT_IN:
            return _BUILT_IN[given]()
        if given.startswith(JAVA_CLASSES):
            return java_serde(setting, given)
        options = {name: value for name, value in settings.items() if name.startswith(SERIALIZER_PREFIXES)}
        if given in _OF_REGISTRY:
            from klamm.schemas.named import serde_by_name  # noqa: PLC0415 - few clients have a registry

            of_registry: Serde = serde_by_name(given, options, is_key=setting.startswith("key."))
            return of_registry
        from importlib.metadata import entry_points  # noqa: PLC0415 - takes as long as a tenth of klamm

        found = {point.name: point for point in entry_points(group=GROUP)}
        if given not in found:
            known = ", ".join(sorted([*_BUILT_IN, *_OF_REGISTRY, *found]))
            raise ConfigError(
                setting,
                f"{setting}={given!r} is not known: write one of {known}, give a function, or install a "
                f"package with the entry point {GROUP}:{given}",
            )
        made = found[given].load()(options, is_key=setting.startswith("key."))
        if not isinstance(made, Serde):
            raise ConfigError(setting, f"{setting}={given!r}: the entry point made {made!r}, not a Serde")
        return made
    return given if isinstance(given, Serde) and not isinstance(given, type) else None
