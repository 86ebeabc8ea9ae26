"""The join phase: its start, its end, and the generation that follows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from klamm.coordinator.group import events
from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import (
    ClassicMembership,
    InitialDelay,
    Member,
    OpenRebalance,
    Trigger,
    classic_membership,
    triggered_by,
)
from klamm.coordinator.group.classic.notes import (
    DelayExtended,
    GenerationStarted,
    GroupBecameEmpty,
    RebalancePrepared,
)
from klamm.coordinator.group.classic.phases import COMPLETING, EMPTY, PREPARING
from klamm.coordinator.group.classic.signals import EmptyingRefused, JoinCheck, JoinTimeUp
from klamm.coordinator.group.classic.vote import topics_of, vote, with_metadata
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupRegistered
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from klamm.protocol.messages.sync_group import SyncGroupResponse

NOTHING: GroupOutcome = Outcome()  # nothing to do
# A client joins again as soon as it has its id. An initial delay shorter than this would end in between, and
# the group would rebalance a second time.
ID_USED_AFTER_MS: Final = 10


def longest_rebalance_ms(members: Collection[Member]) -> int:
    """The longest rebalance timeout of these members."""
    return max((member.rebalance_timeout_ms for member in members), default=0)


def prepare_rebalance(
    draft: Draft,
    live: ClassicMembership,
    trigger: Trigger,
    members: Collection[Member],
    *,
    timeout_ms: int | None = None,  # when it is about to change for one of them
    sync_error: ErrorCode = ErrorCode.rebalance_in_progress,
) -> None:
    """Begin a join phase for these members: those in the group once the notes so far are applied."""
    now_ms = draft.context.now_ms
    if timeout_ms is None:
        timeout_ms = longest_rebalance_ms(members)
    initial_delay = None
    if live.phase is COMPLETING:
        for member in members:
            if member.parked_sync is not None:
                draft.arm(member)  # its session did not run while the request was parked
                draft.answer(SyncGroupResponse(error_code=sync_error), member.parked_sync)
    if live.phase is EMPTY:
        has_unused_ids = len(live.pending) > sum(member.member_id in live.pending for member in members)
        wait_ms, is_for_ids = _next_wait(draft.state.config, has_unused_ids)
        initial_delay = InitialDelay(wait_ms, max(timeout_ms - wait_ms, 0), is_for_ids)
        timeout_ms = wait_ms
    else:
        draft.then.append(JoinCheck(live.group_id))
    draft.timers.append((live.sync_timer, None))
    draft.timers.append((live.join_timer, now_ms + timeout_ms))
    rebalance = OpenRebalance(trigger=trigger, generation_before=live.generation, started_at_ms=now_ms)
    draft.notes.append(RebalancePrepared(live.group_id, rebalance, initial_delay, draft.context.timestamp_ms))
    draft.events.append(
        events.RebalanceStarted(
            group_id=live.group_id,
            timestamp_ms=draft.context.timestamp_ms,
            cause=trigger.cause,
            member_id=trigger.member_id,
            client_id=trigger.client_id,
            client_host=trigger.client_host,
            reason=trigger.reason,
            generation=live.generation,
            member_count=len(members),
        )
    )


def check_join(state: GroupState, signal: JoinCheck, context: Context) -> GroupOutcome:
    """End the join phase early when all members have joined and no unused id is left."""
    group = state.groups.get(signal.group_id)
    live = classic_membership(group)
    if group is None or live is None:
        return Outcome(replies=signal.replies)
    delay = live.initial_delay
    is_over = (
        live.phase is PREPARING
        and (delay is None or delay.is_for_ids)
        and live.awaiting_join == len(live.members)
        and not live.pending
    )
    if is_over:
        return complete_join(state, live, context, signal.replies)
    if not signal.replies:
        return NOTHING
    return Outcome(replies=signal.replies, seen_offset=group.memory.registered_until)


def join_time_up(state: GroupState, signal: JoinTimeUp, context: Context) -> GroupOutcome:
    """End the join phase, or extend the initial delay while members keep joining."""
    live = classic_membership(state.groups.get(signal.group_id))
    if live is None or live.phase is not PREPARING:
        return NOTHING
    delay = live.initial_delay
    if delay is None or delay.remaining_ms == 0:
        return complete_join(state, live, context)
    wait_ms, is_for_ids = _next_wait(state.config, bool(live.pending))
    if not live.has_new_member and (delay.is_for_ids or not is_for_ids):
        return complete_join(state, live, context)
    wait_ms = min(wait_ms, delay.remaining_ms)
    longer = InitialDelay(wait_ms, max(delay.remaining_ms - delay.wait_ms, 0), is_for_ids)
    return Outcome(
        notes=(DelayExtended(live.group_id, longer),),
        timers=((live.join_timer, context.now_ms + wait_ms),),
    )


def _next_wait(config: GroupConfig, has_unused_ids: bool) -> tuple[int, bool]:
    """How long the initial delay goes on, and whether only because of ids that are not used yet."""
    wait_ms = config.group_initial_rebalance_delay_ms
    is_for_ids = has_unused_ids and wait_ms < ID_USED_AFTER_MS
    return (ID_USED_AFTER_MS, True) if is_for_ids else (wait_ms, False)


def complete_join(
    state: GroupState, live: ClassicMembership, context: Context, replies: tuple[Reply, ...] = ()
) -> GroupOutcome:
    """End the join phase: with a generation of the members that joined, or an empty group."""
    draft = Draft(state, live.group_id, context)
    draft.replies += replies
    draft.timers.append((live.join_timer, None))
    staying: list[Member] = []
    gone: list[Member] = []
    for member in live.members.values():
        # A static member may be restarting: its session timeout decides, not this phase.
        is_expected = member.parked_join is not None or member.group_instance_id is not None
        (staying if is_expected else gone).append(member)
    if gone:
        draft.remove(live, gone, GroupEventCause.JOIN_MISSED)
    if not staying:
        return _emptied(draft, live, gone, replies)
    if live.awaiting_join == 0:
        # Only static members, none of which has joined: their sessions decide.
        draft.timers.append((live.join_timer, context.now_ms + longest_rebalance_ms(staying)))
        return draft.outcome()
    return _next_generation(draft, live, staying, gone)


def _emptied(
    draft: Draft, live: ClassicMembership, gone: Sequence[Member], replies: tuple[Reply, ...]
) -> GroupOutcome:
    context = draft.context
    registration = GroupRegistered(
        group_id=live.group_id,
        protocol_type=live.protocol_type or "",
        generation=live.generation + 1,
        protocol_name=None,
        leader_id=None,
        state_timestamp_ms=context.timestamp_ms,
    )
    draft.notes.append(GroupBecameEmpty(live.group_id, registration.generation, context.timestamp_ms))
    rebalance = live.rebalance
    assert rebalance is not None, "a join phase has a beginning"
    # Not what began the rebalance: that may be another member, which joined.
    last = triggered_by(gone[-1], GroupEventCause.JOIN_MISSED) if gone else live.departure
    trigger = last or rebalance.trigger
    draft.events.append(
        events.GroupEmptied(
            group_id=live.group_id,
            timestamp_ms=context.timestamp_ms,
            cause=trigger.cause,
            member_id=trigger.member_id,
            client_id=trigger.client_id,
            client_host=trigger.client_host,
            reason=trigger.reason,
            generation_before=rebalance.generation_before,
            generation_after=registration.generation,
            join_phase_ms=context.now_ms - rebalance.started_at_ms,
            dropped=tuple([member.member_id for member in gone]),
        )
    )
    outcome = draft.outcome()
    outcome.records = (registration,)
    outcome.if_refused = partial(EmptyingRefused, live.group_id, replies)
    return outcome


def emptying_refused(state: GroupState, signal: EmptyingRefused, context: Context) -> GroupOutcome:
    """The group is empty nevertheless; after a restart the old registration would return."""
    live = classic_membership(state.groups.get(signal.group_id))
    if live is None or live.phase is not PREPARING or live.awaiting_join:
        return Outcome(replies=signal.replies)  # members have joined before this was decided
    outcome = complete_join(state, live, context, signal.replies)
    outcome.records = ()
    return outcome


def _next_generation(
    draft: Draft, live: ClassicMembership, staying: Sequence[Member], gone: Sequence[Member]
) -> GroupOutcome:
    context = draft.context
    leader = live.members[live.leader_id] if live.leader_id is not None else staying[0]
    if leader.parked_join is None:
        leader = next(member for member in staying if member.parked_join is not None)
    protocol_name = vote(staying, leader)
    generation = live.generation + 1
    rebalance = live.rebalance
    assert rebalance is not None, "a join phase has a beginning"
    draft.notes.append(
        GenerationStarted(
            live.group_id,
            generation,
            protocol_name,
            leader.member_id,
            topics_of(live.protocol_type, protocol_name, staying),
            OpenRebalance(
                trigger=rebalance.trigger,
                generation_before=rebalance.generation_before,
                started_at_ms=rebalance.started_at_ms,
                joined_at_ms=context.now_ms,
                dropped=tuple([member.member_id for member in gone]),
            ),
            context.timestamp_ms,
        )
    )
    now_ms, leader_id = context.now_ms, leader.member_id
    draft.timers += [(member, now_ms + member.session_timeout_ms) for member in staying]
    alike = 0, 0, generation, live.protocol_type, protocol_name or None, leader_id, False
    for member in staying:
        if member.parked_join is not None:
            response = JoinGroupResponse(*alike, member.member_id)
            if member is leader:
                response.members = members_list(staying, protocol_name)
            draft.replies.append((member.parked_join, response))
    draft.timers.append((live.sync_timer, context.now_ms + longest_rebalance_ms(staying)))
    return draft.outcome()


def members_list(members: Collection[Member], protocol_name: str | None) -> list[JoinGroupResponseMember]:
    """The members and their metadata, for the leader."""
    return [
        JoinGroupResponseMember(member.member_id, member.group_instance_id, metadata)
        for member, metadata in with_metadata(members, protocol_name)
    ]
