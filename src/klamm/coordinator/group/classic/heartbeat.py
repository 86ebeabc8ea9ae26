"""Heartbeat: renew a member's session. Version 3 brings the instance id."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.classic.membership import ClassicMembership
from klamm.coordinator.group.classic.phases import DEAD, PREPARING, STABLE
from klamm.coordinator.group.mixed.heartbeat import heartbeat_in_consumer_group
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

_ALIVE: Final = HeartbeatResponse()
_REJOIN: Final = HeartbeatResponse(error_code=ErrorCode.rebalance_in_progress)


def heartbeat(state: GroupState, request: HeartbeatRequest, context: Context) -> GroupOutcome:
    """Renew the member's session."""
    group = state.groups.get(request.group_id)
    if group is None:
        return _refuse(context, ErrorCode.unknown_member_id)
    if type(group.membership) is not ClassicMembership:
        return heartbeat_in_consumer_group(group, request, context)
    live = group.membership
    response = _ALIVE
    if live.phase is not STABLE:
        if live.phase is DEAD:
            return _refuse(context, ErrorCode.coordinator_not_available)
        if live.phase is PREPARING:
            response = _REJOIN
    # `live.member_error`, written out: this path is taken more often than all others together.
    if request.group_instance_id is not None:
        known_id = live.static_members.get(request.group_instance_id)
        if known_id is None:
            return _refuse(context, ErrorCode.unknown_member_id)
        if known_id != request.member_id:
            return _refuse(context, ErrorCode.fenced_instance_id)
    member = live.members.get(request.member_id)
    if member is None:
        return _refuse(context, ErrorCode.unknown_member_id)
    if request.generation_id != live.generation:
        return _refuse(context, ErrorCode.illegal_generation)
    # Renew during a rebalance too: the member needs that time to rejoin.
    return Outcome(((context.token, response),), group.memory.registered_until, member)


def _refuse(context: Context, error_code: ErrorCode) -> GroupOutcome:
    return reply(context, HeartbeatResponse(error_code=error_code))
