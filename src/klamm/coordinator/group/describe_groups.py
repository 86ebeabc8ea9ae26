"""DescribeGroups: one group with its members. Version 6 reports a missing group as an error."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_DEAD: Final = "Dead"  # Kafka's word for a group that does not exist


def describe_groups(state: GroupState, request: DescribeGroupsRequest, context: Context) -> GroupOutcome:
    """Describe the one group of the request."""
    (group_id,) = request.groups
    group = state.groups.get(group_id)
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=_DEAD)
        if request.knows_group_id_not_found:
            described.error_code = ErrorCode.group_id_not_found
            described.error_message = f"Group {group_id} not found."
    else:
        described = group.membership.describe(group_id)
    seen_offset = None if group is None else group.memory.registered_until
    return reply(context, DescribeGroupsResponse(groups=[described]), seen_offset)
