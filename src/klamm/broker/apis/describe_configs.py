"""DescribeConfigs: settings, where each comes from and what it would be otherwise."""

from __future__ import annotations

from klamm.broker.config_entries import ConfigEntry
from klamm.broker.configs import describe
from klamm.broker.context import RequestContext
from klamm.broker.refusal import Refusal
from klamm.broker.services import Services
from klamm.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or tell why it cannot be described."""
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


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(each.name, each.value, each.source) for each in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )
