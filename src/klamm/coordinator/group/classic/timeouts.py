"""Timeouts: of sessions, of unused member ids, and of the sync phase."""

from __future__ import annotations

from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import (
    ClassicMembership,
    Member,
    classic_membership,
    triggered_by,
)
from klamm.coordinator.group.classic.notes import PendingForgotten
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.rebalance import NOTHING, prepare_rebalance
from klamm.coordinator.group.classic.signals import JoinCheck, SyncTimeUp
from klamm.coordinator.group.events import GroupEventCause, MemberRemoved
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context


def session_over(state: GroupState, member: Member, context: Context) -> GroupOutcome:
    """Remove a member whose session timed out, or drop its id, which it did not use."""
    group_id, member_id = member.group_id, member.member_id
    live = classic_membership(state.groups.get(group_id))
    if live is None:
        return NOTHING
    if live.members.get(member_id) is not member:
        return _id_unused(state, live, member, context)
    is_waiting = member.parked_join is not None or member.parked_sync is not None
    if is_waiting and not member.is_new:
        return NOTHING  # its request is parked; the answer restarts its session
    draft = Draft(state, group_id, context)
    cause = GroupEventCause.JOIN_TOO_LONG if is_waiting else GroupEventCause.SESSION_EXPIRED
    draft.remove(live, (member,), cause)
    if live.phase is Phase.PREPARING:
        draft.then.append(JoinCheck(group_id))
    else:
        staying = [known for known in live.members.values() if known is not member]
        prepare_rebalance(draft, live, triggered_by(member, cause), staying)
    return draft.outcome()


def _id_unused(state: GroupState, live: ClassicMembership, member: Member, context: Context) -> GroupOutcome:
    group_id, member_id = member.group_id, member.member_id
    if live.pending.get(member_id) is not member:
        return NOTHING
    draft = Draft(state, group_id, context)
    draft.notes.append(PendingForgotten(group_id, member_id))
    draft.then.append(JoinCheck(group_id))
    draft.events.append(
        MemberRemoved(
            group_id=group_id,
            timestamp_ms=context.timestamp_ms,
            cause=GroupEventCause.ID_UNUSED,
            member_id=member_id,
            group_instance_id=None,
            generation=live.generation,
        )
    )
    return draft.outcome()


def sync_time_up(state: GroupState, signal: SyncTimeUp, context: Context) -> GroupOutcome:
    """Remove the members that did not fetch their assignment, even if they send heartbeats."""
    live = classic_membership(state.groups.get(signal.group_id))
    if live is None or live.phase not in (Phase.COMPLETING, Phase.STABLE) or not live.pending_sync:
        return NOTHING
    draft = Draft(state, signal.group_id, context)
    silent = [live.members[member_id] for member_id in live.pending_sync]
    draft.remove(live, silent, GroupEventCause.SYNC_MISSED)
    staying = [known for known in live.members.values() if known.member_id not in live.pending_sync]
    prepare_rebalance(draft, live, triggered_by(silent[0], GroupEventCause.SYNC_MISSED), staying)
    return draft.outcome()
