"""ApiVersions: what this broker speaks. A version that it does not speak is answered by the connection."""

from __future__ import annotations

import re
from typing import Final

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
TRANSACTION_VERSION: Final = "transaction.version"
HIGHEST_TRANSACTION_VERSION: Final = 2
FEATURES_EPOCH: Final = 1


def handle(
    services: Services, context: RequestContext, request: ApiVersionsRequest
) -> Answer[ApiVersionsResponse]:
    """The routing table, and the features whose level clients must know."""
    if request.names_software:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=int(ErrorCode.invalid_request))
        context.software_name, context.software_version = names
    level = services.config.transaction_version
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(int(route.api_key), *route.advertised) for route in services.routes.routes],
        finalized_features_epoch=FEATURES_EPOCH,
    )
    if level > 0:
        response.finalized_features = [FinalizedFeatureKey(TRANSACTION_VERSION, level, level)]
    if request.knows_zero_minimum:
        response.supported_features = [
            SupportedFeatureKey(TRANSACTION_VERSION, 0, HIGHEST_TRANSACTION_VERSION)
        ]
    return response


def unsupported_version(services: Services) -> ApiVersionsResponse:
    """What a client hears whose version is too high: the versions of this one API. It then asks again."""
    served = [
        ApiVersion(int(route.api_key), *route.advertised)
        for route in services.routes.routes
        if route.api_key is ApiKey.API_VERSIONS
    ]
    return ApiVersionsResponse(error_code=int(ErrorCode.unsupported_version), api_keys=served)
