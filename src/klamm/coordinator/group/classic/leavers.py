"""Who sent a LeaveGroup, and the shape of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.coordinator.group.classic.membership import Member
from klamm.coordinator.group.consumer.remembered import MemberValue
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def leaves_itself(leaver: MemberIdentity, member: Member | MemberValue, context: Context) -> bool:
    """Whether the member itself sent the request: an administrator names members by instance id, or uses
    another client."""
    return bool(leaver.member_id) and (context.client_id, context.client_host) == (
        member.client_id,
        member.client_host,
    )


def leave_response(
    request: LeaveGroupRequest, leavers: Sequence[MemberIdentity], errors: Sequence[ErrorCode]
) -> LeaveGroupResponse:
    if request.is_single_member:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.group_instance_id, error_code)
            for leaver, error_code in zip(leavers, errors, strict=True)
        ]
    )
