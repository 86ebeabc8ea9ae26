"""SyncGroup: the leader sends the assignments, every member gets its own.

Version 3 brings the instance id, 5 protocol type and name in both directions.
"""

from __future__ import annotations

from functools import partial

from klamm.coordinator.group.append_errors import registration_error
from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import ClassicMembership, classic_membership, triggered_by
from klamm.coordinator.group.classic.notes import Assigned, Synced, SyncParked
from klamm.coordinator.group.classic.phases import COMPLETING, DEAD, PREPARING, STABLE
from klamm.coordinator.group.classic.rebalance import NOTHING, prepare_rebalance
from klamm.coordinator.group.classic.registration import registration
from klamm.coordinator.group.classic.signals import AssignmentDurable, AssignmentRefused
from klamm.coordinator.group.events import GroupEventCause, RebalanceCompleted
from klamm.coordinator.group.mixed.sync_group import sync_in_consumer_group
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(state: GroupState, request: SyncGroupRequest, context: Context) -> GroupOutcome:
    """Answer with the member's assignment, park the request until there is one, or refuse it."""
    group = state.groups.get(request.group_id)
    live = classic_membership(group)
    if group is None or live is None:
        return sync_in_consumer_group(group, state.topics, request, context)
    registration = group.memory.registration
    is_way_back = registration is not None and registration.is_way_back
    error_code = _sync_error(live, request, is_way_back=is_way_back)
    if error_code is not NO_ERROR:
        return reply(context, SyncGroupResponse(error_code=error_code))
    member_id = request.member_id
    member = live.members[member_id]
    timers: tuple[TimerChange, ...] = ()
    if len(live.pending_sync) == 1 and member_id in live.pending_sync:
        timers = ((live.sync_timer, None),)  # the last missing member
    seen_offset = group.memory.registered_until
    replies: tuple[Reply, ...] = ()
    if live.phase is STABLE:
        assigned = SyncGroupResponse(0, 0, live.protocol_type, live.protocol_name, member.assignment)
        replies = ((context.token, assigned),)
        timers += ((member, context.now_ms + member.session_timeout_ms),)
        return Outcome(replies, seen_offset, None, (Synced(request.group_id, member_id),), timers)
    if member.parked_sync is not None:
        # The member has given up the older request; it still gets an answer.
        again = SyncGroupResponse(error_code=ErrorCode.rebalance_in_progress)
        replies = ((member.parked_sync, again),)
    parked = SyncParked(request.group_id, member, context)
    outcome: GroupOutcome = Outcome(replies, seen_offset, None, (parked,), timers)
    return _register(outcome, group, live, request, context) if live.leader_id == member_id else outcome


def _sync_error(live: ClassicMembership, request: SyncGroupRequest, *, is_way_back: bool) -> ErrorCode:
    """Checks in Kafka's order."""
    if live.phase is DEAD:
        return ErrorCode.coordinator_not_available
    error_code = live.member_error(request.member_id, request.group_instance_id)
    if error_code is not NO_ERROR:
        return error_code
    if request.generation_id != live.generation:
        return ErrorCode.illegal_generation
    if live.phase is PREPARING and is_way_back:
        # Within the consumer group each member had the protocol that it offers first.
        return ErrorCode.rebalance_in_progress
    if request.protocol_type is not None and request.protocol_type != live.protocol_type:
        return ErrorCode.inconsistent_group_protocol
    if request.protocol_name is not None and request.protocol_name != live.protocol_name:
        return ErrorCode.inconsistent_group_protocol
    if live.phase is PREPARING:
        return ErrorCode.rebalance_in_progress
    return NO_ERROR


def _register(
    outcome: GroupOutcome, group: Group, live: ClassicMembership, request: SyncGroupRequest, context: Context
) -> GroupOutcome:
    """Write the leader's assignments; members get theirs when the record is durable."""
    given = {assigned.member_id: assigned.assignment for assigned in request.assignments}
    previous = group.memory.registration
    before = {} if previous is None else {known.member_id: known.assignment for known in previous.members}
    outcome.records = (
        registration(
            live, live.members.values(), given, leader_id=live.leader_id, timestamp_ms=context.timestamp_ms
        ),
    )
    outcome.once_durable = (AssignmentDurable(live.group_id, live.generation, before),)
    outcome.if_refused = partial(AssignmentRefused, live.group_id, live.generation)
    return outcome


def assignment_durable(state: GroupState, signal: AssignmentDurable, context: Context) -> GroupOutcome:
    """Send the assignments, unless a new rebalance has begun meanwhile."""
    group = state.groups.get(signal.group_id)
    live = classic_membership(group)
    if group is None or live is None or not _still_completing(live, signal.generation):
        return NOTHING
    written = group.memory.registration
    assert written is not None
    assignments = {known.member_id: known.assignment for known in written.members}
    draft = Draft(state, signal.group_id, context)
    draft.notes.append(Assigned(signal.group_id, assignments, context.timestamp_ms))
    now_ms, protocol_type, protocol_name = context.now_ms, live.protocol_type, live.protocol_name
    for member in live.members.values():
        if member.parked_sync is not None:
            draft.timers.append((member, now_ms + member.session_timeout_ms))
            assigned = SyncGroupResponse(0, 0, protocol_type, protocol_name, assignments[member.member_id])
            draft.replies.append((member.parked_sync, assigned))
    rebalance = live.rebalance
    if rebalance is not None and rebalance.joined_at_ms is not None:
        trigger = rebalance.trigger
        draft.events.append(
            RebalanceCompleted(
                group_id=live.group_id,
                timestamp_ms=context.timestamp_ms,
                cause=trigger.cause,
                member_id=trigger.member_id,
                client_id=trigger.client_id,
                client_host=trigger.client_host,
                reason=trigger.reason,
                generation_before=rebalance.generation_before,
                generation_after=live.generation,
                join_phase_ms=rebalance.joined_at_ms - rebalance.started_at_ms,
                sync_phase_ms=context.now_ms - rebalance.joined_at_ms,
                leader_id=live.leader_id or "",
                protocol_name=live.protocol_name or "",
                member_count=len(live.members),
                dropped=rebalance.dropped,
                before=signal.before,
                after=assignments,
            )
        )
    return draft.outcome()


def assignment_refused(state: GroupState, signal: AssignmentRefused, context: Context) -> GroupOutcome:
    """The log rejected the assignments: answer the parked requests, and rebalance."""
    live = classic_membership(state.groups.get(signal.group_id))
    error_code = registration_error(signal.error_code)
    if live is None or not _still_completing(live, signal.generation):
        return reply(context, SyncGroupResponse(error_code=error_code))
    assert live.leader_id is not None, "only a leader's assignments are written"
    leader = live.members[live.leader_id]
    draft = Draft(state, signal.group_id, context)
    draft.answer(SyncGroupResponse(error_code=error_code))
    trigger = triggered_by(leader, GroupEventCause.ASSIGNMENT_NOT_WRITTEN, signal.error_code.name)
    prepare_rebalance(draft, live, trigger, live.members.values(), sync_error=error_code)
    return draft.outcome()


def _still_completing(live: ClassicMembership, generation: int) -> bool:
    return live.phase is COMPLETING and live.generation == generation
