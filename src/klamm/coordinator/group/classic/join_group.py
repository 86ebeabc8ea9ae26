"""JoinGroup: become or stay a member; the answer waits until the join phase is over.

Version 1 brings the rebalance timeout, 4 the two steps (an id first, then a join with it), 5 static members,
7 the protocol type in the answer, 8 the client's reason, 9 the leader that need not assign.
"""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.classic.capacity import has_room, turn_away
from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import (
    NEW_MEMBER_TIMEOUT_MS,
    ClassicMembership,
    Member,
    Trigger,
    are_same,
    classic_membership,
    rebalance_timeout_ms,
    triggered_by,
)
from klamm.coordinator.group.classic.notes import IdHandedOut, MemberAdded, MemberRejoined
from klamm.coordinator.group.classic.phases import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from klamm.coordinator.group.classic.rebalance import (
    longest_rebalance_ms,
    members_list,
    prepare_rebalance,
)
from klamm.coordinator.group.classic.signals import JoinCheck
from klamm.coordinator.group.classic.static_members import replace_static_member
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.consumer.remembered import ConsumerMemory
from klamm.coordinator.group.consumer.tombstones import forget_consumer_group
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.membership import NOBODY
from klamm.coordinator.group.mixed.join_group import join_consumer_group
from klamm.coordinator.group.mixed.signals import JoinRefused
from klamm.coordinator.group.notes import GroupOpened, Note
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_ID_REQUIRED: Final = ErrorCode.member_id_required


def join_group(state: GroupState, request: JoinGroupRequest, context: Context) -> GroupOutcome:
    """Add or update a member and park its request, or refuse it."""
    config = state.config
    member_id, timeout_ms = request.member_id, request.session_timeout_ms
    if not config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms:
        return _refuse(request, context, ErrorCode.invalid_session_timeout)
    group = state.groups.get(request.group_id)
    if group is None and member_id:
        return _refuse(request, context, ErrorCode.unknown_member_id)
    others = consumer_membership(group)
    if others is not None and others.member_count:
        return join_consumer_group(state, others, request, context)
    live = _to_join(group, request.group_id)
    if live is None:
        return _refuse(request, context, ErrorCode.inconsistent_group_protocol)
    if not has_room(live, member_id, config.group_max_size):
        return turn_away(Draft(state, request.group_id, context), live, member_id)
    error_code = _join_error(live, request)
    if error_code is not NO_ERROR:
        outcome = _refuse(request, context, error_code)
        if group is None:
            # As in Kafka, a refused first join creates the group too.
            outcome.notes = (GroupOpened(request.group_id, live),)
        return outcome
    if others is not None:
        return _changed_protocol(
            _opened(state, group, live, request, context), request.group_id, others.memory
        )
    return _opened(state, group, live, request, context)


def _opened(
    state: GroupState,
    group: Group | None,
    live: ClassicMembership,
    request: JoinGroupRequest,
    context: Context,
) -> GroupOutcome:
    """A join that may be. It opens the group if there is none of the classic protocol yet."""
    member_id = request.member_id
    if not member_id and request.group_instance_id is None and request.must_know_member_id:
        return _hand_out_id(group, live, request, context)
    if live.phase is PREPARING and (member_id in live.pending or member_id in live.members):
        return _join_others(group, live, request, context)
    draft = Draft(state, request.group_id, context)
    if group is None or live is not group.membership:
        draft.notes.append(GroupOpened(request.group_id, live))
    if member_id in live.members:
        return _rejoin(draft, live, request)
    if not member_id and request.group_instance_id in live.static_members:
        return replace_static_member(draft, live, request)
    return _add(draft, live, request)


def _to_join(group: Group | None, group_id: str) -> ClassicMembership | None:
    """The members to join, opened for the first one; None if they use another protocol."""
    if group is None or group.membership is NOBODY or consumer_membership(group) is not None:
        return ClassicMembership(group_id)
    return classic_membership(group)


def _changed_protocol(outcome: GroupOutcome, group_id: str, memory: ConsumerMemory) -> GroupOutcome:
    """The group had no members, so it becomes one of the classic protocol, whatever the policy."""
    outcome.records = forget_consumer_group(group_id, memory)
    outcome.if_refused = JoinRefused
    return outcome


def _refuse(request: JoinGroupRequest, context: Context, error_code: ErrorCode) -> GroupOutcome:
    # Kafka echoes no member id with this error.
    member_id = "" if error_code is ErrorCode.unknown_server_error else request.member_id
    return reply(context, JoinGroupResponse(error_code=error_code, member_id=member_id))


def _join_error(live: ClassicMembership, request: JoinGroupRequest) -> ErrorCode:
    """Checks in Kafka's order, after the capacity check."""
    if live.phase is DEAD:
        return ErrorCode.coordinator_not_available
    if not _offers_a_common_protocol(live, request):
        return ErrorCode.inconsistent_group_protocol
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id:
        return NO_ERROR
    if member_id in live.pending:
        # Static members never get an id to rejoin with.
        return NO_ERROR if instance_id is None else ErrorCode.unknown_server_error
    if instance_id is not None:
        known_id = live.static_members.get(instance_id)
        if known_id is None:
            return ErrorCode.unknown_member_id
        if known_id != member_id:
            return ErrorCode.fenced_instance_id
    return NO_ERROR if member_id in live.members else ErrorCode.unknown_member_id


def _offers_a_common_protocol(live: ClassicMembership, request: JoinGroupRequest) -> bool:
    if live.phase is EMPTY:
        return bool(request.protocol_type and request.protocols)
    if request.protocol_type != live.protocol_type:
        return False
    member_count = len(live.members)
    for offered in request.protocols:  # noqa: SIM110 - a generator is slower
        if live.supported.get(offered.name, 0) == member_count:
            return True
    return False


def _hand_out_id(
    group: Group | None, live: ClassicMembership, request: JoinGroupRequest, context: Context
) -> GroupOutcome:
    """Two steps (KIP-394), so that a client that repeats an unanswered join adds no second member."""
    group_id = request.group_id
    member_id = f"{context.client_id}-{context.fresh_id}"
    member = Member(group_id, member_id)
    notes: tuple[Note, ...] = (IdHandedOut(group_id, member),)
    if group is None or live is not group.membership:
        notes = (GroupOpened(group_id, live), *notes)
    response = JoinGroupResponse(0, _ID_REQUIRED, -1, None, None, "", False, member_id)
    return Outcome(
        ((context.token, response),),
        None if group is None else group.memory.registered_until,
        None,
        notes,
        ((member, context.now_ms + request.session_timeout_ms),),
    )


def _join_others(
    group: Group | None, live: ClassicMembership, request: JoinGroupRequest, context: Context
) -> GroupOutcome:
    """A member with an id joins, or joins again, while the group waits for its members."""
    assert group is not None
    group_id, member_id = request.group_id, request.member_id
    replies: tuple[Reply, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    note: Note
    member = live.members.get(member_id)
    if member is None:
        member = live.pending[member_id]
        note = MemberAdded(group_id, member, request, context)
        timers = ((member, context.now_ms + NEW_MEMBER_TIMEOUT_MS),)
        is_last = live.awaiting_join == len(live.members) and len(live.pending) == 1
    else:
        if member.parked_join is not None:
            replies = (_given_up(member),)
        note = MemberRejoined(group_id, member, request, context)
        is_last = live.awaiting_join >= len(live.members) - 1 and not live.pending
    then = (JoinCheck(group_id),) if is_last else ()  # no other member is expected
    return Outcome(replies, group.memory.registered_until, None, (note,), timers, then)


def _given_up(member: Member) -> Reply:
    """The member has given up the older request; it still gets an answer."""
    return member.parked_join, JoinGroupResponse(
        error_code=ErrorCode.rebalance_in_progress, member_id=member.member_id
    )


def _add(draft: Draft, live: ClassicMembership, request: JoinGroupRequest) -> GroupOutcome:
    context = draft.context
    member = live.pending.get(request.member_id)
    if member is None:
        prefix = context.client_id if request.group_instance_id is None else request.group_instance_id
        member = Member(request.group_id, request.member_id or f"{prefix}-{context.fresh_id}")
    draft.notes.append(MemberAdded(request.group_id, member, request, context))
    draft.arm(member, NEW_MEMBER_TIMEOUT_MS)
    if live.phase is PREPARING:
        if live.awaiting_join == len(live.members) and not live.pending:
            draft.then.append(JoinCheck(request.group_id))  # no other member is expected
    else:
        trigger = Trigger(
            cause=GroupEventCause.MEMBER_JOINED,
            member_id=member.member_id,
            client_id=context.client_id,
            client_host=context.client_host,
            reason=request.reason or "",
        )
        members = live.members.values()
        longest_ms = max(rebalance_timeout_ms(request), longest_rebalance_ms(members))
        prepare_rebalance(draft, live, trigger, [*members, member], timeout_ms=longest_ms)
    return draft.outcome()


def _rejoin(draft: Draft, live: ClassicMembership, request: JoinGroupRequest) -> GroupOutcome:
    """A member joins again while no join phase is open."""
    member = live.members[request.member_id]
    is_leader = live.leader_id == member.member_id
    is_same = are_same(member.protocols, request.protocols)
    if is_same and (live.phase is COMPLETING or (live.phase is STABLE and not is_leader)):
        # The answer may have been lost: repeat it without a rebalance.
        draft.answer(
            JoinGroupResponse(
                generation_id=live.generation,
                protocol_type=live.protocol_type,
                protocol_name=live.protocol_name or None,
                leader=live.leader_id or "",
                member_id=member.member_id,
                members=members_list(live.members.values(), live.protocol_name) if is_leader else (),
            )
        )
        return draft.outcome()
    draft.notes.append(MemberRejoined(request.group_id, member, request, draft.context))
    cause = GroupEventCause.LEADER_REJOINED if is_same else GroupEventCause.METADATA_CHANGED
    trigger = triggered_by(member, cause, request.reason)
    others = [known for known in live.members.values() if known is not member]
    longest_ms = max(rebalance_timeout_ms(request), longest_rebalance_ms(others))
    prepare_rebalance(draft, live, trigger, live.members.values(), timeout_ms=longest_ms)
    return draft.outcome()
