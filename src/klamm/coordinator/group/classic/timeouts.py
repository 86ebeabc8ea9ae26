"""Timeouts: of sessions, of unused member ids, and of the sync phase."""

from __future__ import annotations

from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import classic_of
from klamm.coordinator.group.classic.notes import MembersRemoved, PendingForgotten
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.rebalance import NOTHING, prepare_rebalance, triggered_by
from klamm.coordinator.group.classic.signals import JoinCheck, PendingOver, SessionOver, SyncTimeUp
from klamm.coordinator.group.events import GroupEventCause, MemberRemoved
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context


def session_over(state: GroupState, signal: SessionOver, context: Context) -> GroupOutcome:
    """Remove a member whose session timed out."""
    group = state.groups.get(signal.group_id)
    live = classic_of(group)
    member = live.members.get(signal.member_id)
    if member is None:
        return NOTHING
    is_waiting = member.parked_join is not None or member.parked_sync is not None
    if is_waiting and not member.is_new:
        return NOTHING  # its request is parked; the answer restarts its session
    draft = Draft(state, signal.group_id, context)
    draft.notes.append(MembersRemoved(signal.group_id, (signal.member_id,)))
    cause = GroupEventCause.JOIN_TOO_LONG if is_waiting else GroupEventCause.SESSION_EXPIRED
    draft.say_goodbye(live, (member,), cause)
    if live.phase is Phase.PREPARING:
        draft.then.append(JoinCheck(signal.group_id))
    else:
        staying = [known for known in live.members.values() if known is not member]
        prepare_rebalance(draft, live, triggered_by(member, cause), staying)
    return draft.outcome()


def pending_over(state: GroupState, signal: PendingOver, context: Context) -> GroupOutcome:
    """Drop a member id that was not used."""
    group = state.groups.get(signal.group_id)
    live = classic_of(group)
    if signal.member_id not in live.pending:
        return NOTHING
    draft = Draft(state, signal.group_id, context)
    draft.notes.append(PendingForgotten(signal.group_id, signal.member_id))
    draft.then.append(JoinCheck(signal.group_id))
    draft.events.append(
        MemberRemoved(
            group_id=signal.group_id,
            timestamp_ms=context.timestamp_ms,
            cause=GroupEventCause.ID_UNUSED,
            member_id=signal.member_id,
            group_instance_id=None,
            generation=live.generation,
        )
    )
    return draft.outcome()


def sync_time_up(state: GroupState, signal: SyncTimeUp, context: Context) -> GroupOutcome:
    """Remove the members that did not fetch their assignment, even if they send heartbeats."""
    group = state.groups.get(signal.group_id)
    live = classic_of(group)
    if live.phase not in (Phase.COMPLETING, Phase.STABLE) or not live.pending_sync:
        return NOTHING
    draft = Draft(state, signal.group_id, context)
    silent = [live.members[member_id] for member_id in live.pending_sync]
    draft.notes.append(MembersRemoved(signal.group_id, tuple(live.pending_sync)))
    draft.say_goodbye(live, silent, GroupEventCause.SYNC_MISSED)
    staying = [known for known in live.members.values() if known.member_id not in live.pending_sync]
    prepare_rebalance(draft, live, triggered_by(silent[0], GroupEventCause.SYNC_MISSED), staying)
    return draft.outcome()
