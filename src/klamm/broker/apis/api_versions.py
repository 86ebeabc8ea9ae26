"""ApiVersions: the versions that this broker serves. The connection answers unsupported versions of it."""

from __future__ import annotations

import re
from typing import Final

from klamm.broker.cluster.features import HIGHEST_LEVELS
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: Services, context: RequestContext, request: ApiVersionsRequest
) -> HandlerResult[ApiVersionsResponse]:
    """The supported API versions, and the finalized features."""
    if request.names_software:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=int(ErrorCode.invalid_request))
        context.software.name, context.software.version = names
    is_own = request.names_software and request.client_software_name == "klamm"
    features = services.image.features
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(int(route.api_key), *route.advertised)
            for route in services.routes.routes
            if is_own or route.api_key not in OWN_APIS
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in features.levels.items()
        ],
    )
    if request.knows_zero_minimum:
        response.supported_features = [
            SupportedFeatureKey(name, 0, highest) for name, highest in HIGHEST_LEVELS.items()
        ]
    return response


def unsupported_version(services: Services) -> ApiVersionsResponse:
    """The response to an unsupported version: the versions of this API, with which the client retries."""
    served = [
        ApiVersion(int(route.api_key), *route.advertised)
        for route in services.routes.routes
        if route.api_key is ApiKey.API_VERSIONS
    ]
    return ApiVersionsResponse(error_code=int(ErrorCode.unsupported_version), api_keys=served)
