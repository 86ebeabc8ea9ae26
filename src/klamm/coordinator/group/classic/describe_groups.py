"""DescribeGroups: one group with its members in the classic protocol.

Version 6 reports a missing group as an error.
"""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.classic.membership import ClassicMembership
from klamm.coordinator.group.classic.phases import STABLE
from klamm.coordinator.group.membership import NOBODY
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_DEAD: Final = "Dead"  # Kafka's word for a group that does not exist


def describe_groups(state: GroupState, request: DescribeGroupsRequest, context: Context) -> GroupOutcome:
    """Describe the one group of the request. To this API a group of another protocol does not exist."""
    (group_id,) = request.groups
    group = state.groups.get(group_id)
    seen_offset = None if group is None else group.memory.registered_until
    if group is None:
        described = _not_found(request, f"Group {group_id} not found.")
    elif group.membership is NOBODY:
        described = DescribedGroup(group_id=group_id, group_state=NOBODY.state_name)
    elif type(group.membership) is ClassicMembership:
        described = _described(group_id, group.membership)
    else:
        described = _not_found(request, f"Group {group_id} is not a classic group.")
    return reply(context, DescribeGroupsResponse(groups=[described]), seen_offset)


def _not_found(request: DescribeGroupsRequest, message: str) -> DescribedGroup:
    described = DescribedGroup(group_id=request.groups[0], group_state=_DEAD)
    if request.knows_group_id_not_found:
        described.error_code = ErrorCode.group_id_not_found
        described.error_message = message
    return described


def _described(group_id: str, live: ClassicMembership) -> DescribedGroup:
    is_stable = live.phase is STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=live.state_name,
        protocol_type=live.protocol_type or "",
        protocol_data=(live.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(live.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,  # of the last generation while the group rebalances
            )
            for member in live.members.values()
        ],
    )
