"""DescribeCluster: brokers and their controller, without topics."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import CLUSTER_NAME, NOT_REQUESTED, ResourceType
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The brokers behind the listener that was asked."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.mismatched_endpoint_type,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
                "CONTROLLER"
            ),
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.unsupported_endpoint_type,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = services.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id, *address, image.brokers[broker_id].rack)
            for broker_id in sorted(image.brokers)
            if (address := image.address(broker_id, context.listener)) is not None
        ],
        cluster_authorized_operations=(
            services.authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )
