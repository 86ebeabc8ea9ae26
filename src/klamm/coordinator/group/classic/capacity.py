"""The limit on the members of a group (`group.max.size`)."""

from __future__ import annotations

from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import ClassicMembership, Trigger, classic_membership
from klamm.coordinator.group.classic.notes import PendingForgotten
from klamm.coordinator.group.classic.phases import COMPLETING, PREPARING, STABLE
from klamm.coordinator.group.classic.rebalance import NOTHING, prepare_rebalance
from klamm.coordinator.group.classic.signals import JoinCheck, OverCapacity
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse


def has_room(live: ClassicMembership, member_id: str, max_size: int) -> bool:
    """Whether a member may join. Unused member ids do not count."""
    phase = live.phase
    if phase is PREPARING:
        if live.awaiting_join < max_size:
            return True
        member = live.members.get(member_id)
        return member is not None and member.parked_join is not None
    if phase is COMPLETING or phase is STABLE:
        return member_id in live.members or len(live.members) < max_size
    return True


def turn_away(draft: Draft, live: ClassicMembership, member_id: str) -> GroupOutcome:
    """Refuse a join, and remove the member if it was known: the last to rejoin are refused."""
    member = live.members.get(member_id)
    if member is not None:
        draft.remove(live, (member,), GroupEventCause.GROUP_FULL)
        draft.then.append(JoinCheck(live.group_id))
    timer = live.pending.get(member_id)
    if timer is not None:
        draft.notes.append(PendingForgotten(live.group_id, member_id))
        draft.timers.append((timer, None))
        draft.then.append(JoinCheck(live.group_id))
    draft.answer(JoinGroupResponse(error_code=ErrorCode.group_max_size_reached))
    return draft.outcome()


def over_capacity(state: GroupState, signal: OverCapacity, context: Context) -> GroupOutcome:
    """Rebalance a group that is too large: the last members to rejoin are refused."""
    group = state.groups.get(signal.group_id)
    live = classic_membership(group)
    if live is None or live.phase is not STABLE:
        return NOTHING
    draft = Draft(state, signal.group_id, context)
    trigger = Trigger(cause=GroupEventCause.GROUP_FULL)
    prepare_rebalance(draft, live, trigger, live.members.values())
    return draft.outcome()
