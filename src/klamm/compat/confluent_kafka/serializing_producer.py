"""confluent-kafka's producer of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from klamm.compat.confluent_kafka.error import KeySerializationError, ValueSerializationError
from klamm.compat.confluent_kafka.producer import Producer
from klamm.compat.confluent_kafka.serialization import MessageField, SerializationContext


class SerializingProducer(Producer):
    """A producer with `key.serializer` and `value.serializer`: called with an object and its context."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        settings = dict(conf)
        self._key_serializer = serde_of(settings, "key.serializer")
        self._value_serializer = serde_of(settings, "value.serializer")
        super().__init__(settings)

    def produce(  # type: ignore[override]  # the key comes first here, as there
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize a key and a value, and queue the record."""
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, SerializationContext(topic, MessageField.KEY, headers))
            except Exception as error:
                raise KeySerializationError(error) from error
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(
                    value, SerializationContext(topic, MessageField.VALUE, headers)
                )
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic, value, key, partition, on_delivery=on_delivery, timestamp=timestamp, headers=headers
        )


def serde_of(settings: dict[str, Any], name: str) -> Callable[..., Any] | None:
    """Take one out of the settings; ValueError if it cannot be called."""
    if settings.get(f"{name}.builder") is not None:
        raise ValueError(f"{name}.builder is not supported: give {name}, the built one")
    settings.pop(f"{name}.builder", None)
    serde: Callable[..., Any] | None = settings.pop(name, None)
    if serde is not None and not callable(serde):
        raise ValueError(f"{name}: expected a callable that takes an object and a SerializationContext")
    return serde
