"""A group of the classic protocol becomes one of the consumer protocol, with its members."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.coordinator.group.classic.membership import ClassicMembership, Member
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import (
    CONSUMER,
    ClassicMemberSession,
    ConsumerGroupMembership,
)
from klamm.coordinator.group.consumer.notes import ConsumerGroupOpened, SessionOpened
from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemory,
    ConsumerRecord,
    ConsumerTarget,
    ConsumerTargetEpoch,
    CurrentValue,
    EpochValue,
    MemberValue,
    Partitions,
    ReconciliationState,
    TargetEpochValue,
    replay_consumer,
)
from klamm.coordinator.group.consumer.topics_hash import topics_hash
from klamm.coordinator.group.events import GroupConverted, GroupEventCause
from klamm.coordinator.group.mixed.members import classic_part, subscription_of
from klamm.coordinator.group.remembered import GroupForgotten
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.consumer_protocol import Assignment, Subscription, decode_assignment
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupResponse
from klamm.protocol.types import TopicPartition


def _problem(state: GroupState, live: ClassicMembership) -> str | None:
    """What keeps the group as a whole from becoming one of the consumer protocol; None: nothing."""
    if not state.consumer_settings(live.group_id).migration_policy.allows_upgrade:
        return "the online upgrade is disabled"
    if live.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(live.members) > state.config.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


class UpgradeRefusedError(Exception):
    """A group cannot become one of the consumer protocol."""


def upgraded(
    state: GroupState, group: Group, live: ClassicMembership, context: Context, newcomer_id: str
) -> ConsumerDraft:
    """A draft about the group as it will be, for the member that joins. Raises UpgradeRefusedError."""
    problem = _problem(state, live)
    if problem is not None:
        raise UpgradeRefusedError(f"{_refused(live)} because {problem}.")
    group_id = live.group_id
    memory = ConsumerMemory()
    records = _records(state.topics, live)
    for record in records:
        replay_consumer(memory, record)
    membership = ConsumerGroupMembership(group_id, memory)
    draft = ConsumerDraft(state, group_id, context, memory, membership)
    draft.is_upgrade = True
    if group.memory.registration is not None:
        draft.records.append(GroupForgotten(group_id))
    draft.records += records
    draft.notes.append(ConsumerGroupOpened(group_id))
    draft.timers += [(live.join_timer, None), (live.sync_timer, None)]
    draft.timers += [(pending, None) for pending in live.pending.values()]
    for member in live.members.values():
        session = ClassicMemberSession(group_id, member.member_id, member.session_timeout_ms)
        membership.sessions[member.member_id] = session
        draft.notes.append(SessionOpened(group_id, session))
        draft.timers += [(member, None), (session, context.now_ms + member.session_timeout_ms)]
        _tell_to_rejoin(draft, member)
    draft.events.append(
        GroupConverted(
            group_id=group_id,
            timestamp_ms=context.timestamp_ms,
            cause=GroupEventCause.CONSUMER_JOINED,
            member_id=newcomer_id,
            client_id=context.client_id,
            client_host=context.client_host,
            type_before="classic",
            type_after="consumer",
            generation=memory.epoch,
            member_count=len(memory.members),
        )
    )
    return draft


def _refused(live: ClassicMembership) -> str:
    return f"Cannot upgrade classic group {live.group_id} to consumer group"


def _tell_to_rejoin(draft: ConsumerDraft, member: Member) -> None:
    """Requests that wait for the end of a rebalance are answered: there is none to wait for any more."""
    error_code = ErrorCode.rebalance_in_progress
    if member.parked_join is not None:
        join = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
        draft.replies.append((member.parked_join, join))
    if member.parked_sync is not None:
        draft.replies.append((member.parked_sync, SyncGroupResponse(error_code=error_code)))


def _records(topics: TopicDirectory | None, live: ClassicMembership) -> list[ConsumerRecord]:
    """The members with what they were assigned last: it is their target too, until the epoch rises."""
    group_id, epoch = live.group_id, live.generation
    read = {member_id: _read(live, member) for member_id, member in live.members.items()}
    owners: set[TopicPartition] = set()
    for _, assignment in read.values():
        if not owners.isdisjoint(assignment.partitions):
            raise UpgradeRefusedError(f"{_refused(live)} because it assigns a partition to several members.")
        owners.update(assignment.partitions)
    members = {
        member_id: _value(live.members[member_id], subscription)
        for member_id, (subscription, _) in read.items()
    }
    targets = {
        member_id: _by_id(topics, assignment.partitions) for member_id, (_, assignment) in read.items()
    }
    subscribed = {topic for member in members.values() for topic in member.topics}
    records: list[ConsumerRecord] = [ConsumerMember(group_id, *each) for each in members.items()]
    records.append(ConsumerGroupEpoch(group_id, EpochValue(epoch, topics_hash(topics, subscribed))))
    records += [ConsumerTarget(group_id, *each) for each in targets.items()]
    records.append(ConsumerTargetEpoch(group_id, TargetEpochValue(epoch)))
    for member_id, (subscription, _) in read.items():
        held = {topic_id: dict.fromkeys(each, epoch) for topic_id, each in targets[member_id].items()}
        # A cooperative member that its leader has taken partitions from has them until it joins again.
        kept = _by_id(topics, [each for each in subscription.owned if each not in owners])
        pending = {topic_id: dict.fromkeys(each, epoch) for topic_id, each in kept.items()}
        owners.update(subscription.owned)
        step = ReconciliationState.UNREVOKED if pending else ReconciliationState.STABLE
        current = CurrentValue(epoch, epoch, step, held, pending)
        records.append(ConsumerCurrent(group_id, member_id, current))
    return records


def _read(live: ClassicMembership, member: Member) -> tuple[Subscription, Assignment]:
    """What a member said, and was assigned. In the first rebalance of a group no protocol is chosen yet."""
    metadata = member.metadata(live.protocol_name) or member.protocols[0].metadata
    subscription = subscription_of(metadata)
    try:
        assignment = decode_assignment(member.assignment) if member.assignment else Assignment()
    except DecodeError:
        subscription = None
    if subscription is None:
        raise UpgradeRefusedError(f"{_refused(live)} because the embedded consumer protocol is malformed.")
    if assignment.user_data:
        raise UpgradeRefusedError(
            f"{_refused(live)} because an unsupported custom assignor is in use. Please refer to the "
            "documentation or switch to a default assignor before re-attempting the upgrade."
        )
    return subscription, assignment


def _value(member: Member, subscription: Subscription) -> MemberValue:
    return MemberValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_part(member.session_timeout_ms, member.protocols),
    )


def _by_id(topics: TopicDirectory | None, partitions: Iterable[TopicPartition]) -> Partitions:
    """By topic id; topics that do not exist any more are left out."""
    found: dict[bytes, set[int]] = {}
    for topic, number in partitions:
        known = None if topics is None else topics.by_name(topic)
        if known is not None:
            found.setdefault(known.topic_id, set()).add(number)
    return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}
