"""ConsumerGroupHeartbeat: join, stay, report what is owned, get an assignment, leave.

Version 1 brings member ids made by clients, and subscriptions by regular expression.
"""

from __future__ import annotations

from klamm.assignors.server import AssignorFailure
from klamm.coordinator.group.append_errors import registration_error
from klamm.coordinator.group.consumer.computing import soon_ms
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.leaving import leave
from klamm.coordinator.group.consumer.membership import (
    ConsumerGroupMembership,
    ConsumerSession,
    consumer_membership,
)
from klamm.coordinator.group.consumer.notes import SessionOpened, SessionPeriodSet
from klamm.coordinator.group.consumer.opening import opened
from klamm.coordinator.group.consumer.progress import progress
from klamm.coordinator.group.consumer.reconciliation import Owned, owned_partitions
from klamm.coordinator.group.consumer.regexes import regex_problem
from klamm.coordinator.group.consumer.remembered import (
    CurrentValue,
    MemberValue,
    ReconciliationState,
)
from klamm.coordinator.group.consumer.signals import HeartbeatRefused
from klamm.coordinator.group.consumer.static_members import Holder, find_member
from klamm.coordinator.group.consumer.validation import JOIN, refused_heartbeat
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def consumer_group_heartbeat(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, context: Context
) -> GroupOutcome:
    """Decide a heartbeat whose shape is valid."""
    group = state.groups.get(request.group_id)
    live = consumer_membership(group)
    if group is not None and live is not None:
        session = live.sessions.get(request.member_id)
        if session is not None and _only_keeps_alive(state, live, request, context):
            interval_ms = state.consumer_settings(request.group_id).heartbeat_interval_ms
            if live.computing is not None:
                interval_ms = soon_ms(live.memory, interval_ms)
            epoch = request.member_epoch
            response = ConsumerGroupHeartbeatResponse(0, 0, None, request.member_id, epoch, interval_ms, None)
            if session.session_timeout_ms == state.consumer_settings(request.group_id).session_timeout_ms:
                return Outcome(((context.token, response),), group.memory.registered_until, session)
    if request.member_epoch != JOIN and live is None:
        problem = "not found" if group is None else "is not a consumer group"
        message = f"Group {request.group_id} {problem}."
        return _refuse(context, ErrorCode.group_id_not_found, message)
    if request.member_epoch < JOIN:
        assert live is not None
        return leave(ConsumerDraft(state, request.group_id, context, live.memory, live), request)
    draft = opened(state, request, context)
    if not isinstance(draft, ConsumerDraft):
        return reply(context, draft)
    return _join_or_stay(draft, request)


def heartbeat_refused(state: GroupState, signal: HeartbeatRefused, context: Context) -> GroupOutcome:
    """The log rejected what the heartbeat changes: the group is as it was."""
    return _refuse(context, registration_error(signal.error_code))


def _only_keeps_alive(
    state: GroupState,
    live: ConsumerGroupMembership,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
) -> bool:
    """Whether nothing is to be done but to renew the session, as for nearly all heartbeats."""
    memory = live.memory
    current = memory.current.get(request.member_id)
    if (
        current is None
        or request.member_epoch != current.epoch
        or current.epoch != memory.target_epoch
        or (memory.target_epoch != memory.epoch and live.computing is None)
        or current.state != ReconciliationState.STABLE
        or memory.regex_users
        or request.topic_partitions is not None
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.rebalance_timeout_ms != -1
        or request.rack_id is not None
        or request.server_assignor is not None
    ):
        return False
    topics = state.topics
    member = memory.members[request.member_id]
    return (
        (topics is None or live.checked_version == topics.version)
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and member.client_id == context.client_id
        and member.client_host == context.client_host
        and member.classic is None
    )


def _refuse(context: Context, error_code: ErrorCode, message: str | None = None) -> GroupOutcome:
    return reply(context, refused_heartbeat(error_code, message))


def _join_or_stay(draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest) -> GroupOutcome:
    """In this order: the member, the group's epoch, its target, the member's next step."""
    context, memory = draft.context, draft.memory
    member_id = request.member_id or context.fresh_id
    owned = _owned(request)
    holder = find_member(draft, request, member_id, owned)
    if not isinstance(holder, Holder):
        return reply(context, holder)
    regex = request.subscribed_topic_regex
    if regex and regex not in memory.regex_users:
        problem = regex_problem(regex)
        if problem is not None:
            return _refuse(context, ErrorCode.invalid_regular_expression, problem)
    member = _described(memory.members.get(holder.member_id) or MemberValue(), request, context)
    current = progress(draft, holder, member_id, member, owned)
    if isinstance(current, AssignorFailure):
        return _refuse(context, ErrorCode.unknown_server_error, current.reason)
    return _answered(draft, request, holder, member_id, member, current)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return owned_partitions([(each.topic_id, each.partitions) for each in request.topic_partitions])


def _described(before: MemberValue, request: ConsumerGroupHeartbeatRequest, context: Context) -> MemberValue:
    """The member as it describes itself now; what a request leaves out is unchanged."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return MemberValue(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        context.client_id,
        context.client_host,
        before.topics if names is None else tuple(sorted(set(names))),
        before.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.assignor if request.server_assignor is None else request.server_assignor,
    )


def _answered(
    draft: ConsumerDraft,
    request: ConsumerGroupHeartbeatRequest,
    holder: Holder,
    member_id: str,
    member: MemberValue,
    current: CurrentValue,
) -> GroupOutcome:
    context = draft.context
    settings = draft.state.consumer_settings(draft.group_id)
    session = known = None if draft.live is None else draft.live.sessions.get(member_id)
    before = draft.memory.current.get(member_id)
    if type(session) is not ConsumerSession:
        if session is not None:  # it spoke the classic protocol until now
            draft.timers += [(timer, None) for timer in session.timers()]
        session = ConsumerSession(draft.group_id, member_id, settings.session_timeout_ms)
        draft.notes.append(SessionOpened(draft.group_id, session))
        draft.timers.append((session, context.now_ms + settings.session_timeout_ms))
    elif session.session_timeout_ms != settings.session_timeout_ms:
        draft.notes.append(SessionPeriodSet(draft.group_id, session, settings.session_timeout_ms))
        draft.timers.append((session, context.now_ms + settings.session_timeout_ms))
    else:
        draft.renewed = session
    if current is not before or session is not known:
        draft.arm(session, current, member)
    is_full = (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )
    held_before = None if before is None else before.assigned
    interval_ms = settings.heartbeat_interval_ms
    has_news = request.member_epoch == JOIN or is_full or current.assigned != held_before
    draft.answer(
        ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=soon_ms(draft.memory, interval_ms) if draft.is_computing else interval_ms,
            assignment=_assignment(current) if has_news else None,
        )
    )
    return draft.outcome()


def _assignment(current: CurrentValue) -> Assignment:
    return Assignment(
        [TopicPartitions(topic_id, list(held)) for topic_id, held in current.assigned.items() if held]
    )
