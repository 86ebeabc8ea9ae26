"""confluent-kafka's consumer of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klamm.compat.confluent_kafka.consumer import Consumer
from klamm.compat.confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    ValueDeserializationError,
)
from klamm.compat.confluent_kafka.message import Message
from klamm.compat.confluent_kafka.serialization import MessageField, SerializationContext
from klamm.compat.confluent_kafka.serializing_producer import serde_of


class DeserializingConsumer(Consumer):
    """A consumer with `key.deserializer` and `value.deserializer`: called with bytes and their context."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        settings = dict(conf)
        self._key_deserializer = serde_of(settings, "key.deserializer")
        self._value_deserializer = serde_of(settings, "value.deserializer")
        super().__init__(settings)

    def poll(self, timeout: float | None = -1) -> Message | None:
        """The next message, with its key and value as objects. Raises ConsumeError."""
        message = super().poll(timeout)
        if message is None:
            return None
        if message.error() is not None:
            raise ConsumeError(message.error(), kafka_message=message)
        topic, headers = message.topic() or "", message.headers()
        key, value = message.key(), message.value()
        if self._value_deserializer is not None:
            try:
                value = self._value_deserializer(
                    value, SerializationContext(topic, MessageField.VALUE, headers)
                )
            except Exception as error:
                raise ValueDeserializationError(error, message) from error
        if self._key_deserializer is not None:
            try:
                key = self._key_deserializer(key, SerializationContext(topic, MessageField.KEY, headers))
            except Exception as error:
                raise KeyDeserializationError(error, message) from error
        message.set_key(key)
        message.set_value(value)
        return message

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Not there either: `poll` is."""
        raise NotImplementedError("a DeserializingConsumer has poll(), as confluent-kafka's")
