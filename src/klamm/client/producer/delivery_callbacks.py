"""Delivery callbacks: of the future, or of an error and a message, as confluent-kafka calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from klamm.client.callables import is_async, required_count, takes
from klamm.client.message import TIMESTAMP_CREATE_TIME, Message
from klamm.client.producer.delivery import Delivery

OnDelivery = Callable[[Delivery], Any] | Callable[[Any, Message], Any]

ERROR_AND_MESSAGE: Final = 2


def of_delivery(
    callback: Any, key: bytes | None, value: bytes | None, headers: Any
) -> Callable[[Delivery], Any]:
    """A callback of the future alone, whichever of the two kinds was given."""
    if not callable(callback):
        raise TypeError(
            f"on_delivery is a function of the delivery, or of (error, message), not {callback!r}"
        )
    if is_async(callback):
        raise TypeError("on_delivery is a plain function, called on the producer's thread: not an async one")
    if required_count(callback) != ERROR_AND_MESSAGE:
        if not takes(callback, 1):
            raise TypeError(
                "on_delivery must take the delivery, or an error and a message: "
                "write def on_delivery(delivery), or def on_delivery(error, message)"
            )
        return callback  # type: ignore[no-any-return]  # checked as far as it can be
    pairs = tuple(headers.items() if hasattr(headers, "items") else headers) if headers else None

    @wraps(callback)
    def report(delivery: Delivery) -> None:
        error = delivery.exception()
        callback(error, message_of(delivery, error, key, value, pairs))

    return report


def message_of(delivery: Delivery, error: Any, key: Any, value: Any, headers: Any) -> Message:
    """The record of a settled delivery."""
    if error is not None:
        topic, partition = delivery.partition
        return Message(topic, partition, None, key=key, value=value, headers=headers, error=error)
    topic, partition, offset, timestamp_ms = delivery.result()
    stamp = (TIMESTAMP_CREATE_TIME, timestamp_ms)
    return Message(topic, partition, offset, key=key, value=value, headers=headers, timestamp=stamp)
