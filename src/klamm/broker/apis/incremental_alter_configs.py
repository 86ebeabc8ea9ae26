"""IncrementalAlterConfigs: single settings are set, deleted, appended to or subtracted from."""

from __future__ import annotations

from klamm.broker.config.changes import Change, altering
from klamm.broker.config.resources import Wish, alter
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change the settings of each resource, or return the error of that resource."""
    wishes = []
    for resource in request.resources:
        changes = [
            Change(setting.name, setting.config_operation, setting.value) for setting in resource.configs
        ]
        wishes.append(Wish(resource.resource_type, resource.resource_name, altering(changes), changes))
    outcomes = await alter(services, wishes, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
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
