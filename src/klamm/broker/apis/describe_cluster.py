"""DescribeCluster: brokers and their controller, without topics.

A broker that answers has applied what is in the cluster store by then, unless that takes too long: other
brokers ask for that, too.
"""

from __future__ import annotations

from typing import Final

from klamm.access.acls import CLUSTER_NAME, ResourceType
from klamm.broker.cluster.spreading import PATIENCE_S
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.security.permissions import NOT_REQUESTED
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
) -> HandlerResult[DescribeClusterResponse]:
    """Describe the cluster; one of several brokers looks into the store first."""
    if services.membership is None:
        return _describe(services, context, request)
    return _described_now(services, context, request)


async def _described_now(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    await services.topics.look_again_for(PATIENCE_S)
    return _describe(services, context, request)


def _describe(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The brokers, with the addresses of the request's listener; on request also those that do not run."""
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
    running = {each.broker_id for each in image.running_brokers()}
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(each.broker_id, *address, each.rack, each.broker_id not in running)
            for _, each in sorted(image.brokers.items())
            if request.include_fenced_brokers or each.broker_id in running
            if (address := each.listeners.get(context.listener)) is not None
        ],
        cluster_authorized_operations=(
            services.authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )
