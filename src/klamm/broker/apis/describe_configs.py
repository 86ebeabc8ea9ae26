"""DescribeConfigs: settings, the source of each, and the values it overrides."""

from __future__ import annotations

from typing import Final

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.config.entries import DescribedSetting
from klamm.broker.config.loggers import BROKER_LOGGER
from klamm.broker.config.resources import describe
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.config import ConfigSource
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from klamm.storage.cluster import ConfigResourceType

_TYPES: Final = frozenset({*ConfigResourceType, BROKER_LOGGER})


def handle(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> HandlerResult[DescribeConfigsResponse]:
    """Describe each resource, or return its error."""
    response = _described(services, request)
    if any(result.error_code == ErrorCode.unknown_topic_or_partition for result in response.results):
        return _described_again(services, request, response)
    return response


async def _described_again(
    services: Services, request: DescribeConfigsRequest, response: DescribeConfigsResponse
) -> DescribeConfigsResponse:
    """Another broker may just have created the topic."""
    return _described(services, request) if await services.topics.look_again() else response


def _described(services: Services, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    unknown = {asked.resource_type for asked in request.resources} - _TYPES
    if unknown:
        return _refused(request, f"Unexpected resource type {min(unknown)}")
    results = []
    for asked in request.resources:
        result = DescribeConfigsResult(
            error_message="", resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        described = describe(services, asked.resource_type, asked.resource_name, asked.configuration_keys)
        if isinstance(described, Refusal):
            result.error_code, result.error_message = described.error_code, described.message
        else:
            result.configs = [_entry(entry, request) for entry in described]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _refused(request: DescribeConfigsRequest, why: str) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                ErrorCode.invalid_request, why, asked.resource_type, asked.resource_name, configs=[]
            )
            for asked in request.resources
        ]
    )


def _entry(entry: DescribedSetting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    has_documentation = request.include_documentation or entry.source is ConfigSource.BROKER_LOGGER
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(each.name, each.value, each.source) for each in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if has_documentation else None,
    )
