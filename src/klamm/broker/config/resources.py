"""Describing and changing the configurations of topics, brokers, groups, client metrics and loggers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.refusal import Refusal, no_such_topic
from klamm.broker.cluster.topic_names import name_problem
from klamm.broker.config import loggers
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.changes import (
    AlterError,
    Change,
    Make,
    alter_broker,
    alter_topic,
    check_changes,
)
from klamm.broker.config.entries import (
    DescribedSetting,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from klamm.broker.config.kept_settings import KEPT_RESOURCES
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ConfigResourceType

if TYPE_CHECKING:
    from klamm.broker.services import Services

ALL_BROKERS: Final = ""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Wish:
    """The changes of one resource in a request."""

    resource_type: int
    name: str
    make: Make
    changes: Sequence[Change] | None = None  # None: all that a resource had is replaced


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
            if name == ALL_BROKERS:
                return describe_cluster_default(services.config, keys)
            return _foreign_broker(services, name) or describe_broker(services.config, keys)
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            kept = KEPT_RESOURCES[ConfigResourceType(resource_type)]
            if not name:
                return Refusal(ErrorCode.invalid_request, kept.no_name)
            return kept.described(services.image.configs(kept.resource_type, name), keys, services.config)
        case loggers.BROKER_LOGGER:
            return _foreign_broker(services, name) or loggers.describe_loggers(keys)
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
            refusal = None if wish.name == ALL_BROKERS else _foreign_broker(services, wish.name)
            if refusal is not None:
                return refusal
            return await _alter_broker(services, wish, validate_only=validate_only)
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            return await _alter_kept(services, wish, validate_only=validate_only)
        case loggers.BROKER_LOGGER if wish.changes is not None:
            refusal = _foreign_broker(services, wish.name)
            if refusal is None:
                check_changes(wish.changes)
                loggers.alter_loggers(wish.changes, validate_only=validate_only)
            return refusal
        case _:
            return _unknown_type(wish.resource_type)


async def _alter_topic(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    def decide(current: Mapping[str, str]) -> dict[str, str]:
        return alter_topic(services.config, wish.name, current, wish.make)

    if not validate_only:
        return await services.topics.alter_topic(wish.name, decide)
    decide(services.image.configs(ConfigResourceType.TOPIC, wish.name))
    return None if services.image.topic(wish.name) is not None else no_such_topic(wish.name)


async def _alter_kept(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    kept = KEPT_RESOURCES[ConfigResourceType(wish.resource_type)]

    def decide(current: Mapping[str, str]) -> dict[str, str]:
        return kept.altered(wish.name, current, wish.make, services.config)

    if validate_only:
        decide(services.image.configs(kept.resource_type, wish.name))
        return None
    return await services.topics.alter_kept(kept.resource_type, wish.name, decide)


async def _alter_broker(services: Services, wish: Wish, *, validate_only: bool) -> Refusal | None:
    cluster_wide = wish.name == ALL_BROKERS
    named = [change.name for change in wish.changes or ()]
    name = ALL_BROKERS if cluster_wide else str(services.image.broker_id)  # the client's may be 01

    def decide(config: BrokerConfig) -> dict[str, str]:
        return alter_broker(config, wish.make, cluster_wide=cluster_wide, named=named)

    if validate_only:
        return services.topics.contradicted_topic(name, decide(services.config))
    return await services.topics.alter_broker(name, decide)


def _foreign_broker(services: Services, name: str) -> Refusal | None:
    """The error for the name of another broker; None for this broker."""
    if _INTEGER.fullmatch(name) is None:
        return Refusal(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}")
    if int(name) != services.image.broker_id:
        return Refusal(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {services.image.broker_id} or empty string, but received {name}",
        )
    return None


def _unknown_type(resource_type: int) -> Refusal:
    return Refusal(
        ErrorCode.invalid_request,
        f"Unknown resource type {resource_type}: there are topics (2), brokers (4), loggers (8, which "
        "only IncrementalAlterConfigs changes), client metrics (16) and groups (32).",
    )
