"""A group of the consumer protocol after a load: sessions and revocations run from now."""

from __future__ import annotations

from klamm.coordinator.group.consumer.membership import ClassicMemberSession, ConsumerSession
from klamm.coordinator.group.consumer.notes import ConsumerGroupOpened, ConsumerNote, SessionOpened
from klamm.coordinator.group.consumer.remembered import ConsumerMemory, ReconciliationState
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.timers import TimerChange


def reopened(
    state: GroupState, group_id: str, memory: ConsumerMemory, context: Context
) -> tuple[list[ConsumerNote], list[TimerChange]]:
    """What opens a group that was loaded. Its topics are compared at the next heartbeat."""
    notes: list[ConsumerNote] = [ConsumerGroupOpened(group_id)]
    timers: list[TimerChange] = []
    for member_id, member in memory.members.items():
        if member.classic is not None:  # what it has to do, it hears with its next heartbeat
            own_ms = member.classic.session_timeout_ms
            classic = ClassicMemberSession(group_id, member_id, own_ms)
            notes.append(SessionOpened(group_id, classic))
            timers.append((classic, context.now_ms + own_ms))
            continue
        timeout_ms = state.consumer_settings(group_id).session_timeout_ms
        session = ConsumerSession(group_id, member_id, timeout_ms)
        notes.append(SessionOpened(group_id, session))
        timers.append((session, context.now_ms + timeout_ms))
        current = memory.current.get(member_id)
        if current is not None and current.state == ReconciliationState.UNREVOKED:
            timers.append((session.revocation, context.now_ms + member.rebalance_timeout_ms))
    return notes, timers
