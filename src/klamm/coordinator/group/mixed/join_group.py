"""JoinGroup of a member of the classic protocol in a group of the consumer protocol.

It reports what the member owns, and is answered at once with the member's epoch as generation. There is no
leader: the coordinator has assigned by then, and SyncGroup fetches what this member has been granted.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from klamm.assignors.server import AssignorFailure
from klamm.coordinator.group.append_errors import registration_error
from klamm.coordinator.group.classic.membership import rebalance_timeout_ms
from klamm.coordinator.group.consumer.draft import ConsumerDraft, Departure
from klamm.coordinator.group.consumer.membership import (
    CONSUMER,
    ClassicMemberSession,
    ConsumerGroupMembership,
)
from klamm.coordinator.group.consumer.notes import SessionOpened, SessionPeriodSet
from klamm.coordinator.group.consumer.progress import progress
from klamm.coordinator.group.consumer.remembered import ConsumerMemory, MemberValue
from klamm.coordinator.group.consumer.static_members import Holder
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.mixed.downgrade import as_classic, downgraded, goes_back, handed_over
from klamm.coordinator.group.mixed.members import classic_part, subscription_of
from klamm.coordinator.group.mixed.signals import JoinRefused
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.consumer_protocol import Subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


class ClassicJoin(NamedTuple):
    """Who joins, in whose place, and what it says."""

    holder: Holder
    member_id: str
    subscription: Subscription


def join_consumer_group(
    state: GroupState, live: ConsumerGroupMembership, request: JoinGroupRequest, context: Context
) -> GroupOutcome:
    """Decide the join of a group that has members, at least one of them in the consumer protocol."""
    joining = _joining(state, live.memory, request, context)
    if isinstance(joining, JoinGroupResponse):
        return reply(context, joining)
    draft = ConsumerDraft(state, live.group_id, context, live.memory, live)
    draft.if_refused = JoinRefused
    before = live.memory.members.get(joining.holder.member_id) or MemberValue()
    member = _described(before, joining.subscription, request, context)
    if joining.holder.is_replaced and before.classic is None:
        back = _back_to_classic(draft, joining, member)
        if back is not None:
            return back
    current = progress(draft, joining.holder, joining.member_id, member, _owned(state, joining.subscription))
    if isinstance(current, AssignorFailure):
        return _refuse(context, ErrorCode.unknown_server_error)
    _open_session(draft, joining.member_id, member)
    draft.answer(_accepted(joining.member_id, current.epoch, request.protocols[0].name))
    return draft.outcome()


def join_refused(state: GroupState, signal: JoinRefused, context: Context) -> GroupOutcome:
    """The log rejected what the join changes: the group is as it was."""
    return _refuse(context, registration_error(signal.error_code))


def _refuse(context: Context, error_code: ErrorCode) -> GroupOutcome:
    return reply(context, JoinGroupResponse(error_code=error_code))


def _accepted(member_id: str, generation: int, protocol_name: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation, protocol_type=CONSUMER, protocol_name=protocol_name, member_id=member_id
    )


def _joining(
    state: GroupState, memory: ConsumerMemory, request: JoinGroupRequest, context: Context
) -> ClassicJoin | JoinGroupResponse:
    """Who joins, or why it may not. Checks in Kafka's order."""
    member_id, instance_id = request.member_id, request.group_instance_id
    known_id = None if instance_id is None else memory.instances.get(instance_id)
    is_known = member_id in memory.members or known_id is not None
    if not is_known and len(memory.members) >= state.config.group_consumer_max_size:
        return JoinGroupResponse(error_code=ErrorCode.group_max_size_reached)
    if not _has_common_protocol(memory, request):
        return JoinGroupResponse(error_code=ErrorCode.inconsistent_group_protocol)
    fresh_id = f"{context.client_id if instance_id is None else instance_id}-{context.fresh_id}"
    if not member_id and instance_id is None and request.must_know_member_id:
        return JoinGroupResponse(error_code=ErrorCode.member_id_required, member_id=fresh_id)
    holder = Holder(member_id or fresh_id)
    if instance_id is not None and member_id:
        if known_id is None:
            return JoinGroupResponse(error_code=ErrorCode.unknown_member_id)
        if known_id != member_id:
            return JoinGroupResponse(error_code=ErrorCode.fenced_instance_id)
    elif known_id is not None:
        holder = Holder(known_id, is_replaced=True)
    subscription = subscription_of(request.protocols[0].metadata)
    if subscription is None:  # as in Kafka
        return JoinGroupResponse(error_code=ErrorCode.unknown_server_error)
    if not is_known and subscription.owned:
        # It was removed, and does not know yet that others have its partitions.
        return JoinGroupResponse(error_code=ErrorCode.unknown_member_id)
    return ClassicJoin(holder, member_id or fresh_id, subscription)


def _has_common_protocol(memory: ConsumerMemory, request: JoinGroupRequest) -> bool:
    """Whether the members of the classic protocol could go on with one assignor, if the others left."""
    if request.protocol_type != CONSUMER:
        return False
    offers = [
        {name for name, _ in member.classic.protocols}
        for member in memory.members.values()
        if member.classic is not None
    ]
    counts = Counter(name for names in offers for name in names)
    return any(counts[offered.name] == len(offers) for offered in request.protocols)


def _described(
    before: MemberValue, subscription: Subscription, request: JoinGroupRequest, context: Context
) -> MemberValue:
    return MemberValue(
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack or before.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        classic=classic_part(request.session_timeout_ms, request.protocols),
    )


def _owned(state: GroupState, subscription: Subscription) -> dict[bytes, set[int]]:
    """What the member has; those of a protocol that stops all of them, or is too old to say, have nothing."""
    owned: dict[bytes, set[int]] = {}
    for topic, number in subscription.owned:
        known = None if state.topics is None else state.topics.by_name(topic)
        if known is not None:
            owned.setdefault(known.topic_id, set()).add(number)
    return owned


def _back_to_classic(draft: ConsumerDraft, joining: ClassicJoin, member: MemberValue) -> GroupOutcome | None:
    """The group of the classic protocol, if the member takes the place of the last one of the other."""
    memory, replaced_id = draft.memory, joining.holder.member_id
    back = ConsumerDraft(draft.state, draft.group_id, draft.context, memory, draft.live)
    back.if_refused = draft.if_refused
    replaced = back.gone[replaced_id] = memory.members[replaced_id]
    back.updated[joining.member_id] = member
    back.heirs[joining.member_id] = replaced_id
    if not goes_back(back):
        return None
    live = as_classic(back)
    # Not the first protocol that it offers: the next SyncGroup is one of a group that has chosen another.
    back.answer(_accepted(joining.member_id, live.generation, live.protocol_name))
    departure = Departure(replaced_id, GroupEventCause.STATIC_MEMBER_RETURNED)
    is_same = (member.topics, member.regex) == (replaced.topics, replaced.regex)
    others = memory.members.keys() - {replaced_id}
    is_settled = memory.epoch == memory.target_epoch and all(map(memory.is_settled, others))
    # A member that has still to fetch its assignment names the protocol that it was told.
    is_told = all(live.members[each].protocols[0].name == live.protocol_name for each in others)
    go_back = handed_over if is_same and is_settled and is_told else downgraded
    return go_back(back, live, departure)


def _open_session(draft: ConsumerDraft, member_id: str, member: MemberValue) -> None:
    """The member has answered the call to join; it has to fetch its assignment in time."""
    assert draft.live is not None, "the group has members"
    assert member.classic is not None, f"{member_id} speaks the classic protocol"
    now_ms, timeout_ms = draft.context.now_ms, member.classic.session_timeout_ms
    session = draft.live.sessions.get(member_id)
    if not isinstance(session, ClassicMemberSession):
        if session is not None:  # it spoke the consumer protocol until now
            draft.timers += [(timer, None) for timer in session.timers()]
        session = ClassicMemberSession(draft.group_id, member_id, timeout_ms)
        draft.notes.append(SessionOpened(draft.group_id, session))
    elif session.session_timeout_ms != timeout_ms:
        draft.notes.append(SessionPeriodSet(draft.group_id, session, timeout_ms))
    draft.timers += [
        (session, now_ms + timeout_ms),
        (session.rejoin, None),
        (session.sync, now_ms + member.rebalance_timeout_ms),
    ]
