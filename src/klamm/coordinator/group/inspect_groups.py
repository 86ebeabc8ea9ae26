"""InspectGroups, an API of klamm's own: what the coordinator knows of a living group. It changes nothing.

The content is JSON, whose field names carry their units: `..._ms` are durations, `..._timestamp_ms` instants
of the wall clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from klamm.coordinator.group.classic.membership import ClassicMembership, Member, classic_membership
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.consumer.inspecting import inside_of_consumer_group
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.timers import left_ms
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.inspect_groups import (
    InspectedGroup,
    InspectGroupsRequest,
    InspectGroupsResponse,
)
from klamm.protocol.messages.join_group import JoinGroupRequestProtocol

_CONSUMER: Final = "consumer"
_as_text: Final = json.JSONEncoder(ensure_ascii=False).encode


def inspect_groups(state: GroupState, request: InspectGroupsRequest, context: Context) -> GroupOutcome:
    """The inside of the one group of the request, as it is now."""
    (group_id,) = request.groups
    group = state.groups.get(group_id)
    if group is None:
        answer = InspectedGroup(
            error_code=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
        )
        return reply(context, InspectGroupsResponse(groups=[answer]))
    content = _as_text(_inside(state, group, context)).encode()
    answer = InspectedGroup(group_id=group_id, content=content)
    return reply(context, InspectGroupsResponse(groups=[answer]), group.memory.registered_until)


def _inside(state: GroupState, group: Group, context: Context) -> dict[str, Any]:
    membership = group.membership
    live, consumers = classic_membership(group), consumer_membership(group)
    return {
        "group": group.group_id,
        "type": membership.group_type,
        "state": membership.state_name,
        "generation": membership.generation,
        "member_count": membership.member_count,
        **({} if live is None else _members(live, context)),
        **({} if consumers is None else inside_of_consumer_group(state, consumers, context)),
        "offsets": _offsets(group),
        "pending_offsets": _pending(group),
        "topics_not_durable": sum(each.end_offset > state.durable_offset for each in group.staged),
    }


def _members(live: ClassicMembership, context: Context) -> dict[str, Any]:
    now_ms = context.now_ms
    subscribed = live.subscribed_topics
    return {
        "state_since_ms": None
        if live.phase_timestamp_ms is None
        else max(0, context.timestamp_ms - live.phase_timestamp_ms),
        "state_timestamp_ms": live.phase_timestamp_ms,
        "protocol_type": live.protocol_type,
        "protocol": live.protocol_name,
        "votes": dict(live.supported),
        "leader": live.leader_id,
        "subscribed_topics": None if subscribed is None else sorted(subscribed),
        "members": [_member(live, member, now_ms) for member in live.members.values()],
        "static_members": dict(live.static_members),
        "pending_ids": [
            {"member_id": member.member_id, "left_ms": left_ms(member, now_ms)}
            for member in live.pending.values()
        ],
        "awaiting_join": live.awaiting_join,
        "awaiting_sync": list(live.pending_sync),
        "rebalance": _rebalance(live, now_ms),
        "initial_delay": None
        if live.initial_delay is None
        else {
            "left_ms": left_ms(live.join_timer, now_ms),
            "may_be_extended_by_ms": live.initial_delay.remaining_ms,
        },
    }


def _member(live: ClassicMembership, member: Member, now_ms: int) -> dict[str, Any]:
    is_joining = live.phase is Phase.PREPARING
    is_syncing = live.phase is Phase.COMPLETING
    is_parked = member.parked_join is not None or member.parked_sync is not None
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "is_leader": member.member_id == live.leader_id,
        "is_new": member.is_new,
        "has_joined": member.parked_join is not None if is_joining else None,
        "has_synced": member.member_id not in live.pending_sync if is_syncing else None,
        "parked": "JoinGroup" if member.parked_join is not None else "SyncGroup" if is_parked else None,
        "parked_ms": max(0, now_ms - member.parked_at_ms) if is_parked else None,
        "silent_ms": None if is_parked else _silent_ms(member, now_ms),
        "session_timeout_ms": member.session_timeout_ms,
        "session_left_ms": None if is_parked else left_ms(member, now_ms),
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [_protocol(live, offered) for offered in member.protocols],
        "assignment": _assignment(live, member.assignment),
    }


def _silent_ms(member: Member, now_ms: int) -> int | None:
    """Since the last request that kept its session alive."""
    remaining_ms = left_ms(member, now_ms)
    return None if remaining_ms is None else max(0, member.session_timeout_ms - remaining_ms)


def _protocol(live: ClassicMembership, offered: JoinGroupRequestProtocol) -> dict[str, Any]:
    """One assignor that a member offers, with its subscription if that can be read."""
    found: dict[str, Any] = {"name": offered.name, "bytes": len(offered.metadata)}
    if live.protocol_type != _CONSUMER:
        return found
    try:
        subscription = decode_subscription(offered.metadata)
    except DecodeError:
        return found
    return {
        **found,
        "topics": sorted(subscription.topics),
        "owned": _names(subscription.owned),
        "generation": subscription.generation,
        "rack": subscription.rack,
        "user_data": None if not subscription.user_data else subscription.user_data.hex(),
    }


def _assignment(live: ClassicMembership, raw: bytes) -> list[str] | None:
    if not raw or live.protocol_type != _CONSUMER:
        return None
    try:
        return _names(decode_assignment(raw).partitions)
    except DecodeError:
        return None


def _names(partitions: Iterable[object]) -> list[str]:
    return [str(each) for each in partitions]


def _rebalance(live: ClassicMembership, now_ms: int) -> dict[str, Any] | None:
    found = live.rebalance
    if found is None:
        return None
    timer = live.join_timer if live.phase is Phase.PREPARING else live.sync_timer
    return {
        "cause": str(found.trigger.cause),
        "reason": found.trigger.reason,
        "member_id": found.trigger.member_id,
        "client_id": found.trigger.client_id,
        "client_host": found.trigger.client_host,
        "generation_before": found.generation_before,
        "started_ms": max(0, now_ms - found.started_at_ms),
        "joined_ms": None if found.joined_at_ms is None else max(0, now_ms - found.joined_at_ms),
        "left_ms": left_ms(timer, now_ms),
        "dropped": list(found.dropped),
    }


def _offsets(group: Group) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": number,
            "offset": value.offset,
            "leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "commit_timestamp_ms": value.commit_timestamp_ms,
            "expire_timestamp_ms": None if value.expire_timestamp_ms < 0 else value.expire_timestamp_ms,
        }
        for topic, table in sorted(group.memory.offsets.items())
        for number, (_, value) in sorted(table.items())
    ]


def _pending(group: Group) -> list[dict[str, Any]]:
    """Offsets that were committed in transactions which have not ended."""
    return [
        {"producer_id": producer_id, "topic": topic, "partition": number, "offset": value.offset}
        for producer_id, tables in sorted(group.memory.pending.items())
        for topic, table in sorted(tables.items())
        for number, (_, value) in sorted(table.items())
    ]
