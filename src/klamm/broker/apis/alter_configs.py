"""AlterConfigs: the named settings replace all that a resource had."""

from __future__ import annotations

from klamm.broker.config.changes import replacing
from klamm.broker.config.resources import Wish, alter
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace the settings of each resource, or return the error of that resource."""
    wishes = [
        Wish(
            resource.resource_type,
            resource.resource_name,
            replacing([(setting.name, setting.value) for setting in resource.configs]),
        )
        for resource in request.resources
    ]
    outcomes = await alter(services, wishes, validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                0 if refusal is None else refusal.error_code,
                None if refusal is None else refusal.message,
                wish.resource_type,
                wish.name,
            )
            for wish, refusal in zip(wishes, outcomes, strict=True)
        ]
    )
