"""A group of the consumer protocol becomes one of the classic protocol, when it has no other members left."""

from __future__ import annotations

from klamm.coordinator.group.classic.draft import Draft
from klamm.coordinator.group.classic.membership import (
    CONSUMER,
    ClassicMembership,
    Member,
    Trigger,
    classic_membership,
)
from klamm.coordinator.group.classic.phases import STABLE
from klamm.coordinator.group.classic.rebalance import prepare_rebalance
from klamm.coordinator.group.classic.registration import registration
from klamm.coordinator.group.classic.signals import RebalanceUnfinished
from klamm.coordinator.group.classic.vote import topics_of, vote
from klamm.coordinator.group.consumer.draft import ConsumerDraft, Departure
from klamm.coordinator.group.consumer.remembered import MemberValue
from klamm.coordinator.group.consumer.tombstones import forget_consumer_group
from klamm.coordinator.group.events import GroupConverted, GroupEventCause
from klamm.coordinator.group.mixed.sync_group import assignment_bytes
from klamm.coordinator.group.notes import GroupOpened
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupRegistered
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.messages.join_group import JoinGroupRequestProtocol

_NOTHING: GroupOutcome = Outcome()  # nothing to do


def goes_back(draft: ConsumerDraft) -> bool:
    """Whether the group keeps only members of the classic protocol, and may become one of that protocol."""
    gone = draft.gone.keys()
    staying = [each for known_id, each in draft.memory.members.items() if known_id not in gone]
    if draft.live is None or not all(
        each.classic is not None for each in (*staying, *draft.updated.values())
    ):
        return False
    state, count = draft.state, len(staying) + len(draft.updated)
    policy = state.consumer_settings(draft.group_id).migration_policy
    return 0 < count <= state.config.group_max_size and policy.allows_downgrade


def downgraded(draft: ConsumerDraft, live: ClassicMembership, departure: Departure) -> GroupOutcome:
    """The members join again: what they have been assigned is what they should have, not what they have."""
    back = _converted(draft, live, departure)
    back.records = [
        *forget_consumer_group(draft.group_id, draft.memory),
        _record(draft, live, leader_id=None),
    ]
    trigger = Trigger(cause=departure.cause, member_id=departure.member_id, reason=departure.reason)
    prepare_rebalance(back, live, trigger, live.members.values())
    return back.outcome()


def handed_over(draft: ConsumerDraft, live: ClassicMembership, departure: Departure) -> GroupOutcome:
    """The members go on: all have what they should have, and one took the place of the last other one."""
    back = _converted(draft, live, departure)
    records = forget_consumer_group(draft.group_id, draft.memory)
    back.records = [*records, _record(draft, live, leader_id=live.leader_id)]
    return back.outcome()


def rebalance_unfinished(state: GroupState, signal: RebalanceUnfinished, context: Context) -> GroupOutcome:
    """After a load: the group went back to the classic protocol, and nobody has assigned since then."""
    live = classic_membership(state.groups.get(signal.group_id))
    if live is None or live.phase is not STABLE:
        return _NOTHING
    draft = Draft(state, signal.group_id, context)
    trigger = Trigger(cause=GroupEventCause.LAST_CONSUMER_GONE)
    prepare_rebalance(draft, live, trigger, live.members.values())
    return draft.outcome()


def _converted(draft: ConsumerDraft, live: ClassicMembership, departure: Departure) -> Draft:
    """What ends for members of the consumer protocol, and begins for those of the classic one."""
    assert draft.live is not None, "a new group has no members to go back with"
    back = Draft(draft.state, draft.group_id, draft.context)
    back.replies, back.if_refused = draft.replies, draft.if_refused
    back.timers += draft.timers
    for session in draft.live.sessions.values():
        back.timers += [(timer, None) for timer in session.timers()]
    back.notes.append(GroupOpened(draft.group_id, live))
    for member in live.members.values():
        back.arm(member)
    back.events += draft.events
    back.events.append(
        GroupConverted(
            group_id=draft.group_id,
            timestamp_ms=draft.context.timestamp_ms,
            cause=GroupEventCause.LAST_CONSUMER_GONE,
            member_id=departure.member_id,
            reason=departure.reason,
            type_before="consumer",
            type_after="classic",
            generation=live.generation,
            member_count=len(live.members),
        )
    )
    return back


def as_classic(draft: ConsumerDraft) -> ClassicMembership:
    """Its members, stable in the generation that is the epoch of the group: leaving does not raise it."""
    live = ClassicMembership(draft.group_id, STABLE)
    live.phase_timestamp_ms = draft.context.timestamp_ms
    live.generation = draft.memory.epoch
    live.protocol_type = CONSUMER
    for member_id, value in draft.members().items():
        member = live.members[member_id] = _member(draft.group_id, member_id, value)
        if value.instance_id is not None:
            live.static_members[value.instance_id] = member_id
        for name in {offered.name for offered in member.protocols}:
            live.supported[name] = live.supported.get(name, 0) + 1
    members = list(live.members.values())
    live.protocol_name = vote(members, members[0])
    live.leader_id = members[0].member_id
    live.subscribed_topics = topics_of(CONSUMER, live.protocol_name, members)
    for member in members:
        target = draft.memory.targets.get(draft.heirs.get(member.member_id, member.member_id), {})
        metadata = member.metadata(live.protocol_name)
        member.assignment = assignment_bytes(draft.state.topics, target, metadata)
    return live


def _record(draft: ConsumerDraft, live: ClassicMembership, leader_id: str | None) -> GroupRegistered:
    """The generation. One without a leader was never assigned by one: a load begins a rebalance."""
    given = {member_id: member.assignment for member_id, member in live.members.items()}
    return registration(
        live, live.members.values(), given, leader_id=leader_id, timestamp_ms=draft.context.timestamp_ms
    )


def _member(group_id: str, member_id: str, value: MemberValue) -> Member:
    assert value.classic is not None, f"{member_id} speaks the classic protocol"
    member = Member(group_id, member_id)
    member.group_instance_id = value.instance_id
    member.client_id, member.client_host = value.client_id, value.client_host
    member.session_timeout_ms = value.classic.session_timeout_ms
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.protocols = [JoinGroupRequestProtocol(*offered) for offered in value.classic.protocols]
    member.is_new = False
    return member
