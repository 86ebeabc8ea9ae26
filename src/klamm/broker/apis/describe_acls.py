"""DescribeAcls: the ACLs that a filter selects, grouped by resource pattern."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.security.acl_requests import NO_AUTHORIZER, filter_of
from klamm.broker.security.authorizer import AclAuthorizer
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Without an authorizer there is nothing to describe, which is an error, as in Kafka."""
    authorizer = services.authorizer
    if not isinstance(authorizer, AclAuthorizer):
        message = NO_AUTHORIZER.removesuffix(".") + " on the broker"
        return DescribeAclsResponse(error_code=ErrorCode.security_disabled, error_message=message)
    wanted = filter_of(request)
    found = {} if wanted is None else authorizer.rights.find(wanted)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                pattern.resource_type,
                pattern.name,
                pattern.pattern_type,
                [AclDescription(*entry) for entry in entries],
            )
            for pattern, entries in found.items()
        ]
    )
