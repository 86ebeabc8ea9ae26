"""Heartbeat of a member of the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

from klamm.coordinator.group.consumer.membership import ClassicMemberSession, consumer_membership
from klamm.coordinator.group.mixed.members import member_error, must_rejoin
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat_in_consumer_group(group: Group, request: HeartbeatRequest, context: Context) -> GroupOutcome:
    """Renew the session, and say whether the member should join again, for which it has limited time."""
    live = consumer_membership(group)
    if live is None:
        return _refuse(context, ErrorCode.unknown_member_id)
    member_id = request.member_id
    error_code = member_error(live, member_id, request.group_instance_id)
    if error_code is not NO_ERROR:
        return _refuse(context, error_code)
    memory = live.memory
    current = memory.current.get(member_id)
    if current is None or request.generation_id != current.epoch:
        return _refuse(context, ErrorCode.illegal_generation)
    session = live.sessions[member_id]
    assert isinstance(session, ClassicMemberSession), f"{member_id} speaks the classic protocol"
    timers: tuple[TimerChange, ...] = ()
    answer = HeartbeatResponse()
    if must_rejoin(memory, member_id):
        answer = HeartbeatResponse(error_code=ErrorCode.rebalance_in_progress)
        if session.rejoin.due_at_ms is None:  # the first answer that says so counts
            timers = ((session.rejoin, context.now_ms + memory.members[member_id].rebalance_timeout_ms),)
    return Outcome(((context.token, answer),), group.memory.registered_until, session, (), timers)


def _refuse(context: Context, error_code: ErrorCode) -> GroupOutcome:
    return reply(context, HeartbeatResponse(error_code=error_code))
