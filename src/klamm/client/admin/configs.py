"""Configurations of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from klamm.client.admin.model import AlterOp, ConfigEntry, Resource
from klamm.client.admin.results import Results
from klamm.client.calls import Calls, Deadline
from klamm.errors import KlammError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ResourceName = tuple[Resource, str]
RESOURCE_TYPES: Final = {Resource.TOPIC: 2, Resource.BROKER: 4, Resource.BROKER_LOGGER: 8, Resource.GROUP: 32}
OPERATIONS: Final = {AlterOp.SET: 0, AlterOp.DELETE: 1, AlterOp.APPEND: 2, AlterOp.SUBTRACT: 3}
DEFAULT_SOURCE = 5
_KINDS: Final = {number: kind for kind, number in RESOURCE_TYPES.items()}


async def describe_configs(
    calls: Calls,
    resources: Sequence[ResourceName],
    *,
    keys: Sequence[str] | None,
    timeout_ms: int | None,
) -> Results[ResourceName, dict[str, ConfigEntry]]:
    deadline = calls.deadline("describing configurations", timeout_ms)
    results: dict[ResourceName, dict[str, ConfigEntry] | KlammError] = {}
    for broker_id, asked in _by_broker(resources).items():
        request = DescribeConfigsRequest(
            [
                DescribeConfigsResource(RESOURCE_TYPES[kind], name, None if keys is None else list(keys))
                for kind, name in asked
            ],
            include_synonyms=False,
        )
        response: DescribeConfigsResponse = await _ask(
            calls, broker_id, ApiKey.DESCRIBE_CONFIGS, request, deadline
        )
        for item in response.results:
            resource = (_KINDS[item.resource_type], item.resource_name)
            if item.error_code:
                what = f"{resource[0]} {item.resource_name}"
                results[resource] = broker_error(item.error_code, what, item.error_message)
                continue
            results[resource] = {
                entry.name: ConfigEntry(
                    entry.name,
                    entry.value,
                    entry.config_source,
                    entry.config_source == DEFAULT_SOURCE,
                    entry.read_only,
                    entry.is_sensitive,
                )
                for entry in sorted(item.configs, key=lambda entry: entry.name)
            }
    return Results(results)


async def alter_configs(
    calls: Calls,
    changes: Mapping[ResourceName, Sequence[tuple[str, AlterOp, str | None]]],
    *,
    validate_only: bool,
    timeout_ms: int | None,
) -> Results[ResourceName, None]:
    """Change single settings; each resource all or nothing."""
    deadline = calls.deadline("changing configurations", timeout_ms)
    results: dict[ResourceName, KlammError | None] = {}
    for broker_id, asked in _by_broker(list(changes)).items():
        request = IncrementalAlterConfigsRequest(
            [
                AlterConfigsResource(
                    RESOURCE_TYPES[kind],
                    name,
                    [AlterableConfig(key, OPERATIONS[op], value) for key, op, value in changes[kind, name]],
                )
                for kind, name in asked
            ],
            validate_only,
        )
        response: IncrementalAlterConfigsResponse = await _ask(
            calls, broker_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, request, deadline
        )
        for item in response.responses:
            resource = (_KINDS[item.resource_type], item.resource_name)
            what = f"{resource[0]} {item.resource_name}"
            results[resource] = (
                broker_error(item.error_code, what, item.error_message) if item.error_code else None
            )
    return Results(results)


def _by_broker(resources: Sequence[ResourceName]) -> dict[int | None, list[ResourceName]]:
    """A broker's configuration is requested from that broker, any other from any broker."""
    asked: dict[int | None, list[ResourceName]] = {}
    for kind, name in resources:
        is_own = kind in (Resource.BROKER, Resource.BROKER_LOGGER) and name.isdigit()
        asked.setdefault(int(name) if is_own else None, []).append((kind, name))
    return asked


async def _ask(
    calls: Calls, broker_id: int | None, api_key: ApiKey, request: object, deadline: Deadline
) -> Any:
    if broker_id is None:
        return await calls.to_any(api_key, request, deadline)
    await calls.cluster_known(deadline)
    return await calls.to_broker(broker_id, api_key, request, deadline)
