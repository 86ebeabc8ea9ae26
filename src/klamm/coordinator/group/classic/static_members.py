"""Static members: a restart with the same instance id replaces the member, mostly without a rebalance."""

from __future__ import annotations

from functools import partial

from klamm.coordinator.group.append_errors import registration_error
from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import (
    NEW_MEMBER_TIMEOUT_MS,
    ClassicMembership,
    Member,
    classic_membership,
    rebalance_timeout_ms,
    triggered_by,
)
from klamm.coordinator.group.classic.notes import MemberReplaced
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.rebalance import members_list, prepare_rebalance
from klamm.coordinator.group.classic.registration import registration
from klamm.coordinator.group.classic.signals import JoinCheck, ReplacementRefused
from klamm.coordinator.group.classic.vote import vote
from klamm.coordinator.group.events import GroupEventCause, MemberFenced
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupResponse


def replace_static_member(draft: Draft, live: ClassicMembership, request: JoinGroupRequest) -> GroupOutcome:
    """Replace a static member by its new instance."""
    assert request.group_instance_id is not None
    context = draft.context
    old = live.members[live.static_members[request.group_instance_id]]
    new_id = f"{request.group_instance_id}-{context.fresh_id}"
    member = Member(live.group_id, new_id)
    member.group_instance_id = request.group_instance_id
    member.client_id, member.client_host = context.client_id, context.client_host
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.protocols = request.protocols
    member.assignment, member.is_new = old.assignment, old.is_new
    _fence(draft, live, old, new_id)
    draft.arm(member, NEW_MEMBER_TIMEOUT_MS if member.is_new else None)
    members = [member if known is old else known for known in live.members.values()]
    if live.phase is Phase.STABLE:
        leader = member if live.leader_id == old.member_id else live.members[live.leader_id or ""]
        if vote(members, leader) == live.protocol_name:
            return _carry_on(draft, live, old, member, members, request)
    member.parked_join = context.token
    member.parked_at_ms = context.now_ms
    draft.notes.append(MemberReplaced(live.group_id, old.member_id, member))
    if live.phase is Phase.PREPARING:
        draft.then.append(JoinCheck(live.group_id))
    else:
        trigger = triggered_by(member, GroupEventCause.STATIC_MEMBER_RETURNED, request.reason)
        prepare_rebalance(draft, live, trigger, members)
    return draft.outcome()


def _fence(draft: Draft, live: ClassicMembership, old: Member, new_id: str) -> None:
    """Refuse the old id from now on, and answer its parked requests."""
    draft.timers.append((old, None))
    if old.parked_join is not None:
        draft.answer(
            JoinGroupResponse(error_code=ErrorCode.fenced_instance_id, member_id=old.member_id),
            old.parked_join,
        )
    if old.parked_sync is not None:
        draft.answer(SyncGroupResponse(error_code=ErrorCode.fenced_instance_id), old.parked_sync)
    draft.events.append(
        MemberFenced(
            group_id=live.group_id,
            timestamp_ms=draft.context.timestamp_ms,
            cause=GroupEventCause.STATIC_MEMBER_RETURNED,
            member_id=old.member_id,
            client_id=old.client_id,
            client_host=old.client_host,
            group_instance_id=old.group_instance_id or "",
            new_member_id=new_id,
            generation=live.generation,
        )
    )


def _carry_on(
    draft: Draft,
    live: ClassicMembership,
    old: Member,
    member: Member,
    members: list[Member],
    request: JoinGroupRequest,
) -> GroupOutcome:
    """No rebalance, even if the subscription changed: the generation continues with the new id."""
    is_leader = live.leader_id == old.member_id
    leader_id = live.leader_id or ""
    draft.notes.append(MemberReplaced(live.group_id, old.member_id, member))
    response = JoinGroupResponse(
        generation_id=live.generation,
        protocol_type=live.protocol_type,
        protocol_name=live.protocol_name or None,
        # Without the flag, a restarted leader would assign again.
        leader=member.member_id if is_leader and request.knows_skip_assignment else leader_id,
        skip_assignment=is_leader and request.knows_skip_assignment,
        member_id=member.member_id,
    )
    if is_leader and request.knows_skip_assignment:
        response.members = members_list(members, live.protocol_name)
    draft.answer(response)
    outcome = draft.outcome()
    outcome.records = (
        registration(
            live,
            members,
            {known.member_id: known.assignment for known in members},
            leader_id=member.member_id if is_leader else leader_id,
            timestamp_ms=draft.context.timestamp_ms,
        ),
    )
    outcome.if_refused = partial(ReplacementRefused, live.group_id)
    return outcome


def replacement_refused(state: GroupState, signal: ReplacementRefused, context: Context) -> GroupOutcome:
    """The old id stays valid."""
    live = classic_membership(state.groups.get(signal.group_id))
    response = JoinGroupResponse(error_code=registration_error(signal.error_code))
    if live is not None:
        response.generation_id = live.generation
        response.protocol_type = live.protocol_type
        response.protocol_name = live.protocol_name or None
        response.leader = live.leader_id or ""
    return reply(context, response)
