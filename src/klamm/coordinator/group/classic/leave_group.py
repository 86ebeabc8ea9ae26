"""LeaveGroup: members leave, or an administrator removes them by instance id.

Version 3 brings the list of members, 5 the client's reason.
"""

from __future__ import annotations

from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.leavers import leave_response, leaves_itself
from klamm.coordinator.group.classic.membership import (
    ClassicMembership,
    Member,
    Trigger,
    classic_membership,
    triggered_by,
)
from klamm.coordinator.group.classic.notes import PendingForgotten
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.rebalance import prepare_rebalance
from klamm.coordinator.group.classic.signals import JoinCheck
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.mixed.leave_group import leave_consumer_group
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


def leave_group(state: GroupState, request: LeaveGroupRequest, context: Context) -> GroupOutcome:
    """Remove the members one by one, and rebalance once."""
    leavers = (MemberIdentity(request.member_id),) if request.is_single_member else request.members
    group = state.groups.get(request.group_id)
    live = classic_membership(group)
    others = consumer_membership(group)
    if others is not None:
        return leave_consumer_group(state, others, request, leavers, context)
    if live is None:
        return reply(context, leave_response(request, leavers, [ErrorCode.unknown_member_id] * len(leavers)))
    draft = Draft(state, request.group_id, context)
    if live.phase is Phase.DEAD:
        return reply(context, LeaveGroupResponse(error_code=ErrorCode.coordinator_not_available))
    removed: dict[str, Member] = {}
    forgotten: set[str] = set()
    trigger = None
    errors: list[ErrorCode] = []
    for leaver in leavers:
        error_code, member_id = _leave(live, leaver, removed, forgotten)
        errors.append(error_code)
        if member_id in live.members and member_id not in removed:
            member = removed[member_id] = live.members[member_id]
            cause = (
                GroupEventCause.MEMBER_LEFT
                if leaves_itself(leaver, member, context)
                else GroupEventCause.MEMBER_DISMISSED
            )
            draft.remove(live, (member,), cause, leaver.reason or "")
            trigger = trigger or triggered_by(member, cause, leaver.reason)
        elif member_id in live.pending and member_id not in forgotten:
            forgotten.add(member_id)
            draft.notes.append(PendingForgotten(request.group_id, member_id))
            draft.timers.append((live.pending[member_id], None))
            if live.phase is not Phase.EMPTY:  # as in Kafka, although it was no member yet
                trigger = trigger or _left_unused(member_id, leaver, context)
    if trigger is not None and live.phase is not Phase.PREPARING:
        staying = [member for member in live.members.values() if member.member_id not in removed]
        prepare_rebalance(draft, live, trigger, staying)
    elif removed or forgotten:
        draft.then.append(JoinCheck(request.group_id))
    response = leave_response(request, leavers, errors)
    if draft.then:
        # Answered when the record of the empty group is durable, or a crash would bring the member back.
        draft.then = [JoinCheck(request.group_id, ((context.token, response),))]
    else:
        draft.answer(response)
    return draft.outcome()


def _leave(
    live: ClassicMembership, leaver: MemberIdentity, removed: dict[str, Member], forgotten: set[str]
) -> tuple[ErrorCode, str]:
    """The result for one entry of the list, and the member id it means ("" if refused)."""
    member_id, instance_id = leaver.member_id, leaver.group_instance_id
    instance_member_id = None if instance_id is None else live.static_members.get(instance_id)
    if not member_id:  # an administrator names members by instance id
        member_id = instance_member_id or ""
        if not member_id or member_id in removed:
            return ErrorCode.unknown_member_id, ""
        return ErrorCode.none, member_id
    if member_id in live.pending and member_id not in forgotten:
        return ErrorCode.none, member_id
    if instance_member_id in removed:
        return ErrorCode.unknown_member_id, ""  # the instance was removed earlier in this request
    # The instance is checked first: a removed id is fenced by the instance of another member.
    error_code = live.member_error(member_id, instance_id)
    if error_code is NO_ERROR and member_id in removed:
        error_code = ErrorCode.unknown_member_id
    return error_code, "" if error_code is not NO_ERROR else member_id


def _left_unused(member_id: str, leaver: MemberIdentity, context: Context) -> Trigger:
    return Trigger(
        cause=GroupEventCause.MEMBER_LEFT,
        member_id=member_id,
        client_id=context.client_id,
        client_host=context.client_host,
        reason=leaver.reason or "",
    )
