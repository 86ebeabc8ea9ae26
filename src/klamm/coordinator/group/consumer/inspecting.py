"""What the coordinator knows of a living group in the consumer protocol, as InspectGroups tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from klamm.coordinator.group.consumer.assigning import preferred_assignor
from klamm.coordinator.group.consumer.membership import (
    ClassicMemberSession,
    ConsumerGroupMembership,
    ConsumerSession,
    MemberSession,
    is_away,
)
from klamm.coordinator.group.consumer.remembered import CurrentValue, ReconciliationState
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.timers import left_ms

_NOTHING = CurrentValue(0, -1)


def inside_of_consumer_group(
    state: GroupState, live: ConsumerGroupMembership, context: Context
) -> dict[str, Any]:
    """Its epochs, and each member with its deadlines, what it has, and what it is to give up and to get."""
    memory = live.memory
    return {
        "epoch": memory.epoch,
        "target_epoch": memory.target_epoch,
        "target_timestamp_ms": memory.target_ms,
        "assignor": preferred_assignor(state, memory.members).name,
        "is_computing": live.computing is not None,
        "is_resolving": live.is_resolving,
        "regexes": {regex: list(found.topics) for regex, found in memory.regexes.items()},
        # As the time at which the last member went: the target without members was computed then.
        "state_timestamp_ms": None if memory.members else memory.target_ms,
        "subscribed_topics": sorted(memory.subscribed()),
        "static_members": dict(memory.instances),
        "members": [_member(state, live, member_id, context.now_ms) for member_id in memory.members],
    }


def _member(state: GroupState, live: ConsumerGroupMembership, member_id: str, now_ms: int) -> dict[str, Any]:
    memory = live.memory
    member = memory.members[member_id]
    current = memory.current.get(member_id, _NOTHING)
    target = memory.targets.get(member_id, {})
    has = _pairs(current.assigned) | _pairs(current.pending)
    wanted = _pairs(target)
    session = live.sessions.get(member_id)
    session_left_ms = None if session is None else left_ms(session, now_ms)
    return {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack_id,
        "protocol": "consumer" if member.classic is None else "classic",
        "epoch": current.epoch,
        "previous_epoch": current.previous_epoch,
        "state": _STATES.get(current.state, "unknown"),
        "is_away": is_away(current),
        "has_joined": None,
        "has_synced": None,
        "topics": list(member.topics),
        "regex": member.regex or None,
        "assignor": member.assignor,
        "assigned": _names(state, has),
        "target": _names(state, wanted),
        "to_give_up": _names(state, has - wanted),
        "to_get": [
            {"partition": name, "owner": memory.owners.get(topic_id, {}).get(number)}
            for topic_id, number in sorted(wanted - has)
            if (name := _name(state, topic_id, number)) is not None
        ],
        **_deadlines(session, now_ms),
        "silent_ms": None
        if session is None or session_left_ms is None
        else max(0, session.session_timeout_ms - session_left_ms),
        "session_left_ms": session_left_ms,
        "session_timeout_ms": None if session is None else session.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


_STATES: Mapping[int, str] = {
    ReconciliationState.STABLE: "has what it gets",
    ReconciliationState.UNREVOKED: "gives up partitions",
    ReconciliationState.UNRELEASED: "waits for partitions of others",
}


def _deadlines(session: MemberSession | None, now_ms: int) -> dict[str, int | None]:
    """What is left of the times within which it must do what a rebalance asks of it; None: nothing."""
    give_up = session.revocation if isinstance(session, ConsumerSession) else None
    rejoin, sync = (
        (session.rejoin, session.sync) if isinstance(session, ClassicMemberSession) else (None, None)
    )
    return {
        "give_up_left_ms": None if give_up is None else left_ms(give_up, now_ms),
        "rejoin_left_ms": None if rejoin is None else left_ms(rejoin, now_ms),
        "sync_left_ms": None if sync is None else left_ms(sync, now_ms),
    }


def _pairs(held: Mapping[bytes, Collection[int]]) -> set[tuple[bytes, int]]:
    return {(topic_id, number) for topic_id, partitions in held.items() for number in partitions}


def _names(state: GroupState, pairs: Collection[tuple[bytes, int]]) -> list[str]:
    """Topics that were deleted meanwhile have no name, and are left out."""
    names = (_name(state, topic_id, number) for topic_id, number in sorted(pairs))
    return [name for name in names if name is not None]


def _name(state: GroupState, topic_id: bytes, number: int) -> str | None:
    known = None if state.topics is None else state.topics.by_id(topic_id)
    return None if known is None else f"{known.name}-{number}"
