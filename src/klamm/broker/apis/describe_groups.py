"""DescribeGroups: groups and their members."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


def handle(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> Answer[DescribeGroupsResponse]:
    """The coordinator's answer."""
    return services.groups.ask(request, context)
