"""ListConfigResources: what has a configuration of its own; version 0 is ListClientMetricsResources."""

from __future__ import annotations

from typing import Final

from klamm.broker.config import loggers
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from klamm.storage.cluster import ConfigResourceType

# In the order of the response.
_TYPES: Final = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    loggers.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The resources of the requested types, of all types if none is requested.

    Topics and brokers are listed whether anything is set for them or not, groups and client metrics if so.
    """
    wanted = {*request.resource_types}
    if request.is_of_client_metrics:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= {*_TYPES}:
        return ListConfigResourcesResponse(error_code=ErrorCode.unsupported_version)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, resource_type)
            for resource_type in _TYPES
            if resource_type in wanted or not wanted
            for name in _names(services, resource_type)
        ]
    )


def _names(services: Services, resource_type: int) -> list[str]:
    image = services.image
    match resource_type:
        case ConfigResourceType.TOPIC:
            return sorted(image.topics)
        case ConfigResourceType.BROKER | loggers.BROKER_LOGGER:
            return [str(broker.broker_id) for broker in image.running_brokers()]
        case _:
            return sorted(image.configured(ConfigResourceType(resource_type)))
