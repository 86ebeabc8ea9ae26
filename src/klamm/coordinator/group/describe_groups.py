"""DescribeGroups: one group with its members. Version 6 tells a missing group from a dead one."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.draft import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: what anybody may do where nobody is refused.
ALL_GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))


def describe_groups(state: GroupState, request: DescribeGroupsRequest, context: Context) -> GroupOutcome:
    """Describe the one group of the request."""
    (group_id,) = request.groups
    group = state.groups.get(group_id)
    described = DescribedGroup(group_id=group_id, group_state=Phase.DEAD.value)
    if request.include_authorized_operations:
        described.authorized_operations = ALL_GROUP_OPERATIONS
    if group is None or group.live.phase is Phase.DEAD:
        if request.knows_group_id_not_found:
            described = DescribedGroup(
                group_id=group_id,
                group_state=Phase.DEAD.value,
                error_code=ErrorCode.group_id_not_found,
                error_message=f"Group {group_id} not found.",
            )
        return reply(context, DescribeGroupsResponse(groups=[described]))
    live = group.live
    is_stable = live.phase is Phase.STABLE
    described.group_state = live.phase.value
    described.protocol_type = live.protocol_type or ""
    described.protocol_data = (live.protocol_name or "") if is_stable else ""
    described.members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(live.protocol_name) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in live.members.values()
    ]
    return reply(context, DescribeGroupsResponse(groups=[described]), group.memory.registered_until)
