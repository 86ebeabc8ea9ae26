"""LeaveGroup in a group of the consumer protocol: members of either protocol leave, or are removed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from klamm.coordinator.group.append_errors import registration_error
from klamm.coordinator.group.classic.leavers import leave_response, leaves_itself
from klamm.coordinator.group.consumer.draft import ConsumerDraft, Departure
from klamm.coordinator.group.consumer.leaving import departed
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership
from klamm.coordinator.group.consumer.remembered import ConsumerMemory
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.mixed.signals import LeaveRefused
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def leave_consumer_group(
    state: GroupState,
    live: ConsumerGroupMembership,
    request: LeaveGroupRequest,
    leavers: Sequence[MemberIdentity],
    context: Context,
) -> GroupOutcome:
    """Remove the members; the epoch rises once. As in Kafka, one may be named twice."""
    memory = live.memory
    departures: dict[str, Departure] = {}
    errors: list[ErrorCode] = []
    for leaver in leavers:
        error_code, member_id = _leaver(memory, leaver)
        errors.append(error_code)
        if error_code is NO_ERROR and member_id not in departures:
            is_own = leaves_itself(leaver, memory.members[member_id], context)
            cause = GroupEventCause.MEMBER_LEFT if is_own else GroupEventCause.MEMBER_DISMISSED
            departures[member_id] = Departure(member_id, cause, leaver.reason or "")
    response = leave_response(request, leavers, errors)
    if not departures:
        return reply(context, response)
    draft = ConsumerDraft(state, live.group_id, context, memory, live)
    draft.remove(departures.values())
    draft.if_refused = partial(LeaveRefused, response)
    draft.answer(response)
    return departed(draft, next(iter(departures.values())))


def leave_refused(state: GroupState, signal: LeaveRefused, context: Context) -> GroupOutcome:
    """The log rejected the removals: the members are still there. Refused entries keep their own error."""
    error_code, response = registration_error(signal.error_code), signal.response
    members = [
        MemberResponse(each.member_id, each.group_instance_id, each.error_code or error_code)
        for each in response.members
    ]
    is_single = not members
    return reply(context, LeaveGroupResponse(error_code=error_code if is_single else 0, members=members))


def _leaver(memory: ConsumerMemory, leaver: MemberIdentity) -> tuple[ErrorCode, str]:
    """The member that an entry of the list means, or why it means none."""
    member_id, instance_id = leaver.member_id, leaver.group_instance_id
    if instance_id is None:
        return (NO_ERROR if member_id in memory.members else ErrorCode.unknown_member_id), member_id
    known_id = memory.instances.get(instance_id)
    if known_id is None:
        return ErrorCode.unknown_member_id, ""
    if member_id and member_id != known_id:
        return ErrorCode.fenced_instance_id, ""
    return NO_ERROR, known_id
