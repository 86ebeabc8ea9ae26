"""SyncGroup of a member of the classic protocol in a consumer group: it fetches what it has been granted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.coordinator.group.consumer.membership import (
    CONSUMER,
    ClassicMemberSession,
    ConsumerGroupMembership,
    consumer_membership,
)
from klamm.coordinator.group.consumer.remembered import CurrentValue, ReconciliationState
from klamm.coordinator.group.mixed.members import member_error
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.consumer_protocol import HIGHEST_VERSION, Assignment, encode_assignment
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.types import TopicPartition


def sync_in_consumer_group(
    group: Group | None, topics: TopicDirectory | None, request: SyncGroupRequest, context: Context
) -> GroupOutcome:
    """Answer with what the member has been granted; it never waits for others."""
    live = consumer_membership(group)
    if group is None or live is None:
        return _refuse(context, ErrorCode.unknown_member_id)
    member_id = request.member_id
    error_code = member_error(live, member_id, request.group_instance_id)
    if error_code is not NO_ERROR:
        return _refuse(context, error_code)
    session, member = live.sessions[member_id], live.memory.members[member_id]
    assert isinstance(session, ClassicMemberSession), f"{member_id} speaks the classic protocol"
    assert member.classic is not None, f"{member_id} speaks the classic protocol"
    name, metadata = member.classic.protocols[0]
    current = live.memory.current.get(member_id, CurrentValue(0, -1))
    error_code = _sync_error(live, request, current, name)
    if error_code is not NO_ERROR:
        timers: tuple[TimerChange, ...] = ()
        if error_code is ErrorCode.rebalance_in_progress:
            timers = ((session.sync, None),)
            if session.rejoin.due_at_ms is None:
                timers += ((session.rejoin, context.now_ms + member.rebalance_timeout_ms),)
        refused = SyncGroupResponse(error_code=error_code)
        return Outcome(((context.token, refused),), group.memory.registered_until, timers=timers)
    answer = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(topics, current.assigned, metadata),
    )
    renewed = session, context.now_ms + session.session_timeout_ms
    timers = ((session.sync, None), renewed)
    return Outcome(((context.token, answer),), group.memory.registered_until, timers=timers)


def _refuse(context: Context, error_code: ErrorCode) -> GroupOutcome:
    return reply(context, SyncGroupResponse(error_code=error_code))


def _sync_error(
    live: ConsumerGroupMembership, request: SyncGroupRequest, current: CurrentValue, protocol_name: str
) -> ErrorCode:
    """Checks in Kafka's order."""
    if request.generation_id != current.epoch:
        return ErrorCode.illegal_generation
    if request.protocol_type is not None and request.protocol_type != CONSUMER:
        return ErrorCode.inconsistent_group_protocol
    if request.protocol_name is not None and request.protocol_name != protocol_name:
        return ErrorCode.inconsistent_group_protocol
    if live.memory.target_epoch > current.epoch and current.state != ReconciliationState.UNREVOKED:
        return ErrorCode.rebalance_in_progress
    return NO_ERROR


def assignment_bytes(
    topics: TopicDirectory | None, held: Mapping[bytes, Iterable[int]], metadata: bytes
) -> bytes:
    """Partitions as the member reads them: in the version of its own metadata, without deleted topics."""
    partitions = []
    for topic_id, numbers in held.items():
        known = None if topics is None else topics.by_id(topic_id)
        if known is not None:
            partitions += [TopicPartition(known.name, number) for number in numbers]
    version = min(int.from_bytes(metadata[:2], "big"), HIGHEST_VERSION)
    return encode_assignment(Assignment(tuple(partitions)), version)
