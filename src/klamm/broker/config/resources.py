"""Describing and changing the configurations of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.refusal import Refusal, no_such_topic
from klamm.broker.cluster.topic_names import name_problem
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.changes import AlterError, Make, alter_broker, alter_topic
from klamm.broker.config.entries import (
    DescribedSetting,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ConfigResourceType

if TYPE_CHECKING:
    from klamm.broker.services import Services

ALL_BROKERS: Final = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """The changes of one resource in a request."""

    resource_type: int
    name: str
    make: Make


def describe(
    services: Services, resource_type: int, name: str, keys: Sequence[str] | None
) -> list[DescribedSetting] | Refusal:
    """A resource's settings; `keys` none or empty: all of them."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            problem = name_problem(name)
            if problem is not None:
                return Refusal(ErrorCode.invalid_topic_exception, problem)
            if services.image.topic(name) is None:
                return no_such_topic(name)
            return describe_topic(
                services.config, services.image.configs(ConfigResourceType.TOPIC, name), keys
            )
        case ConfigResourceType.BROKER:
            refusal = _foreign_broker(services, name)
            if refusal is not None:
                return refusal
            if name == ALL_BROKERS:
                return describe_cluster_default(services.config, keys)
            return describe_broker(services.config, keys)
        case _:
            return _unknown_type(resource_type)


async def alter(services: Services, wishes: Sequence[Wish], *, validate_only: bool) -> list[Refusal | None]:
    """Change each resource that may be changed, all of its settings or none; the refusals in order."""
    named: dict[tuple[int, str], int] = {}
    for wish in wishes:
        key = wish.resource_type, wish.name
        named[key] = named.get(key, 0) + 1
    outcomes: list[Refusal | None] = []
    for wish in wishes:
        if named[wish.resource_type, wish.name] > 1:
            outcomes.append(Refusal(ErrorCode.invalid_request, "Each resource must appear at most once."))
            continue
        try:
            outcomes.append(await _alter(services, wish, validate_only=validate_only))
        except AlterError as error:
            outcomes.append(Refusal(error.error_code, str(error)))
    return outcomes


async def _alter(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    match wish.resource_type:
        case ConfigResourceType.TOPIC:
            return await _alter_topic(services, wish, validate_only=validate_only)
        case ConfigResourceType.BROKER:
            refusal = _foreign_broker(services, wish.name)
            if refusal is not None:
                return refusal
            return await _alter_broker(services, wish, validate_only=validate_only)
        case _:
            return _unknown_type(wish.resource_type)


async def _alter_topic(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    def decide(current: Mapping[str, str]) -> dict[str, str]:
        return alter_topic(services.config, wish.name, current, wish.make)

    if not validate_only:
        return await services.topics.alter_topic(wish.name, decide)
    decide(services.image.configs(ConfigResourceType.TOPIC, wish.name))
    return None if services.image.topic(wish.name) is not None else no_such_topic(wish.name)


async def _alter_broker(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    cluster_wide = wish.name == ALL_BROKERS

    def decide(config: BrokerConfig) -> dict[str, str]:
        return alter_broker(config, wish.make, cluster_wide=cluster_wide)

    if validate_only:
        return services.topics.contradicted_topic(wish.name, decide(services.config))
    return await services.topics.alter_broker(wish.name, decide)


def _foreign_broker(services: Services, name: str) -> Refusal | None:
    """The error for the name of another broker; None for this broker or all brokers."""
    if name == ALL_BROKERS:
        return None
    if not name.isascii() or not name.isdigit():
        return Refusal(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}")
    if name != str(services.image.broker_id):
        return Refusal(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {services.image.broker_id} or empty string, but received {name}",
        )
    return None


def _unknown_type(resource_type: int) -> Refusal:
    return Refusal(
        ErrorCode.invalid_request,
        f"Unknown resource type {resource_type}: klamm keeps configurations of topics (2) and brokers (4).",
    )
