"""Members leave, for good or for a while, or are removed because they were silent or too slow."""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.coordinator.group.consumer.draft import ConsumerDraft, Departure
from klamm.coordinator.group.consumer.membership import (
    ClassicMemberSession,
    ConsumerSession,
    MemberSession,
    consumer_membership,
)
from klamm.coordinator.group.consumer.remembered import (
    LEFT_FOR_A_WHILE,
    NOTHING_HELD,
    CurrentValue,
    ReconciliationState,
)
from klamm.coordinator.group.consumer.signals import (
    RejoinTimeUp,
    RemovalRefused,
    RevocationTimeUp,
    SyncMissed,
)
from klamm.coordinator.group.consumer.static_members import fenced_instance, unknown_member
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.mixed.downgrade import as_classic, downgraded, goes_back
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

RETRY_MS: Final = 1_000


def leave(draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest) -> GroupOutcome:
    """The member goes: for good (-1), or, as a static member, until it comes back (-2)."""
    memory, member_id, instance_id = draft.memory, request.member_id, request.instance_id
    if instance_id is not None:
        known_id = memory.instances.get(instance_id)
        if known_id is None:
            return reply(draft.context, unknown_member(draft.group_id, member_id))
        if known_id != member_id:
            return reply(draft.context, fenced_instance(member_id, instance_id))
    elif member_id not in memory.members:
        return reply(draft.context, unknown_member(draft.group_id, member_id))
    departure = Departure(member_id, GroupEventCause.MEMBER_LEFT)
    if request.member_epoch == LEFT_FOR_A_WHILE:
        _go_away(draft, member_id)
    else:
        draft.remove([departure])
    draft.answer(ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch))
    return departed(draft, departure) if draft.gone else draft.outcome()


def departed(draft: ConsumerDraft, first: Departure) -> GroupOutcome:
    """The group without them: if only members of the classic protocol stay, it may go back to that one."""
    if goes_back(draft):
        return downgraded(draft, as_classic(draft), first)
    draft.bump_after(first)
    return draft.outcome()


def _go_away(draft: ConsumerDraft, member_id: str) -> None:
    """It keeps what it has been granted; what it had to give up is free."""
    before = draft.memory.current.get(member_id, CurrentValue(0, -1))
    held = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in before.assigned.items()}
    after = CurrentValue(LEFT_FOR_A_WHILE, before.epoch, ReconciliationState.STABLE, held, NOTHING_HELD)
    if before.epoch != LEFT_FOR_A_WHILE:
        draft.grant(member_id, after)
    assert draft.live is not None
    session = draft.live.sessions.get(member_id)
    if session is not None:
        draft.timers += [(timer, None) for timer in session.timers() if timer is not session]


def session_over(state: GroupState, session: MemberSession, context: Context) -> GroupOutcome:
    """Remove a member that was silent for its session timeout."""
    live = consumer_membership(state.groups.get(session.group_id))
    if live is None or live.sessions.get(session.member_id) is not session:
        return Outcome()
    return _removed(state, session, context, GroupEventCause.SESSION_EXPIRED)


def rejoin_time_up(state: GroupState, signal: RejoinTimeUp, context: Context) -> GroupOutcome:
    """Remove a member of the classic protocol that was told to join again, and did not in time."""
    return _overdue(state, signal, context, GroupEventCause.JOIN_MISSED)


def sync_missed(state: GroupState, signal: SyncMissed, context: Context) -> GroupOutcome:
    """Remove a member of the classic protocol that has not fetched its assignment in time."""
    return _overdue(state, signal, context, GroupEventCause.SYNC_MISSED)


def _overdue(
    state: GroupState, signal: RejoinTimeUp | SyncMissed, context: Context, cause: GroupEventCause
) -> GroupOutcome:
    live = consumer_membership(state.groups.get(signal.group_id))
    session = None if live is None else live.sessions.get(signal.member_id)
    if type(session) is not ClassicMemberSession:
        return Outcome()
    return _removed(state, session, context, cause)


def revocation_time_up(state: GroupState, signal: RevocationTimeUp, context: Context) -> GroupOutcome:
    """Remove a member that has not given up its partitions within its rebalance timeout."""
    live = consumer_membership(state.groups.get(signal.group_id))
    session = None if live is None else live.sessions.get(signal.member_id)
    if live is None or type(session) is not ConsumerSession:
        return Outcome()
    current = live.memory.current.get(signal.member_id)
    if current is None or current.state != ReconciliationState.UNREVOKED:
        return Outcome()
    return _removed(state, session, context, GroupEventCause.REVOCATION_TOO_LONG)


def _removed(
    state: GroupState, session: MemberSession, context: Context, cause: GroupEventCause
) -> GroupOutcome:
    live = consumer_membership(state.groups.get(session.group_id))
    assert live is not None
    draft = ConsumerDraft(state, session.group_id, context, live.memory, live)
    departure = Departure(session.member_id, cause)
    draft.remove([departure])
    draft.if_refused = partial(RemovalRefused, session.group_id, session.member_id)
    return departed(draft, departure)


def removal_refused(state: GroupState, signal: RemovalRefused, context: Context) -> GroupOutcome:
    """The log rejected the removal: try again later, unless the member is heard of until then."""
    live = consumer_membership(state.groups.get(signal.group_id))
    session = None if live is None else live.sessions.get(signal.member_id)
    return Outcome() if session is None else Outcome(timers=((session, context.now_ms + RETRY_MS),))
