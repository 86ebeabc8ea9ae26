"""What a consumer's faces share: arguments of other shapes, and the thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any, Final

from klamm.client.callables import required_count, takes
from klamm.client.config import MAX_FETCH_BYTES, MAX_RESPONSE_BYTES, ClientConfig
from klamm.client.consumer.group.listener import AnyCallback, CallbackListener, RebalanceListener
from klamm.client.consumer.group.listener import Callback as ListenerCallback
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import ClientThread
from klamm.clock import Clock
from klamm.protocol.types import TopicPartition

CONSUMER_AND_PARTITIONS: Final = 2  # what confluent-kafka's callbacks take


def client_thread(
    parsed: ClientConfig, settings: ConsumerSettings, clock: Clock, random: Random
) -> ClientThread:
    """The thread of a consumer, not started yet."""
    # The first batch of a response is complete, whatever its size: the limit must leave room for it.
    largest = max(MAX_FETCH_BYTES, settings.fetch_max_bytes + MAX_RESPONSE_BYTES)
    return ClientThread(
        parsed.network(settings.client_id, largest),
        parsed.metadata(allow_auto_topic_creation=parsed.values.boolean("allow.auto.create.topics")),
        clock=clock,
        random=random,
        name=settings.client_id,
    )


def split_arguments(
    topics: tuple[Any, ...],
) -> tuple[list[str], Mapping[str, Any] | None]:
    """Topics, and a dictionary of settings that may be the first argument, as in other clients."""
    names: list[str] = []
    config: Mapping[str, Any] | None = None
    for item in topics:
        if isinstance(item, str):
            names.append(item)
        elif isinstance(item, Mapping) and config is None:
            config = item
        else:
            raise TypeError(f"Consumer expects topic names and one dictionary of settings, not {item!r}")
    return names, config


def chosen_listener(
    listener: RebalanceListener | None,
    on_assign: AnyCallback | None,
    on_revoke: AnyCallback | None,
    on_lost: AnyCallback | None,
    consumer: Any,
) -> RebalanceListener | None:
    """The listener, or plain functions in its place: of (partitions), or of (consumer, partitions)."""
    if on_assign is None and on_revoke is None and on_lost is None:
        return listener
    if listener is not None:
        raise ValueError("give a listener or on_assign, on_revoke and on_lost, not both")
    given = [
        of_partitions(name, function, consumer)
        for name, function in (
            ("on_assign", on_assign),
            ("on_revoke", on_revoke),
            ("on_lost", on_lost),
        )
    ]
    return CallbackListener(*given)


def of_partitions(name: str, function: Any, consumer: Any) -> ListenerCallback | None:
    """A callback of the partitions alone, made of one that may want the consumer too."""
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"{name} is a function of a list of partitions, not {function!r}")
    if required_count(function) == CONSUMER_AND_PARTITIONS:
        return partial(function, consumer)
    if not takes(function, 1):
        raise TypeError(f"{name} must take one list of partitions: write def {name}(partitions)")
    return function  # type: ignore[no-any-return]  # checked as far as it can be


def several(partitions: tuple[Any, ...]) -> list[Any]:
    """Partitions given one by one, or as one list."""
    if len(partitions) == 1 and not isinstance(partitions[0], TopicPartition):
        return list(partitions[0])
    return list(partitions)
