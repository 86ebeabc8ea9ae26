"""ConsumerGroupDescribe: consumer groups, for those who may see their topics."""

from __future__ import annotations

from klamm.broker.apis.describe_groups import then, with_operations
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.security.permissions import DESCRIBE_TOPIC
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    services: Services, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> HandlerResult[ConsumerGroupDescribeResponse]:
    """Ask the coordinator; what may be seen, and the authorized operations, are the authorizer's."""

    def finish(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        response.groups = [_shown(services, context, group) for group in response.groups]
        if request.include_authorized_operations:
            return with_operations(services, context, response)
        return response

    return then(services, services.groups.ask(request, context), finish)


def _shown(services: Services, context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    """The group, or an error in its place if it has a topic that the client may not describe."""
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        if assignment is not None
        for topic in assignment.topic_partitions
    }
    if all(services.authorizer.shows(context, DESCRIBE_TOPIC, topic) for topic in topics):
        return group
    return DescribedGroup(
        error_code=ErrorCode.topic_authorization_failed,
        error_message="The group has topics that the client may not describe.",
        group_id=group.group_id,
    )
