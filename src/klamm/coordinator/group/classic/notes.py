"""Changes to the members of a group in the classic protocol. They are not logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from klamm.coordinator.group.classic.membership import (
    ClassicMembership,
    InitialDelay,
    JoinProtocol,
    Member,
    OpenRebalance,
    ParkedRequest,
)
from klamm.coordinator.group.classic.phases import NEXT_PHASES, Phase
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.timers import Timer


class IdHandedOut(NamedTuple):
    """A client got a member id and has to join again with it."""

    group_id: str
    member_id: str
    timer: Timer


class PendingForgotten(NamedTuple):
    """A member id that was given out is not valid any more."""

    group_id: str
    member_id: str


class MemberAdded(NamedTuple):
    """A new member, with its parked join."""

    group_id: str
    member: Member
    protocol_type: str


class MemberRejoined(NamedTuple):
    """A member joins again, perhaps with other protocols or timeouts."""

    group_id: str
    member_id: str
    protocols: tuple[JoinProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    parked: ParkedRequest


class MemberReplaced(NamedTuple):
    """A static member returned: the new id replaces the old one."""

    group_id: str
    old_id: str
    member: Member


class MembersRemoved(NamedTuple):
    """Members left or were removed."""

    group_id: str
    member_ids: tuple[str, ...]


class RebalancePrepared(NamedTuple):
    """A join phase begins."""

    group_id: str
    rebalance: OpenRebalance
    initial_delay: InitialDelay | None
    timestamp_ms: int


class DelayExtended(NamedTuple):
    """The initial delay is extended, because members keep joining."""

    group_id: str
    initial_delay: InitialDelay


class GenerationStarted(NamedTuple):
    """The join phase ended with members."""

    group_id: str
    generation: int
    protocol_name: str
    leader_id: str
    subscribed_topics: frozenset[str] | None
    rebalance: OpenRebalance | None
    timestamp_ms: int


class GroupBecameEmpty(NamedTuple):
    """The join phase ended without members."""

    group_id: str
    generation: int
    timestamp_ms: int


class SyncParked(NamedTuple):
    """A member waits for its assignment."""

    group_id: str
    member_id: str
    parked: ParkedRequest


class Synced(NamedTuple):
    """A member of a stable group got its assignment."""

    group_id: str
    member_id: str


class Assigned(NamedTuple):
    """The leader's assignments take effect."""

    group_id: str
    assignments: Mapping[str, bytes]
    timestamp_ms: int


ClassicNote = (
    IdHandedOut
    | PendingForgotten
    | MemberAdded
    | MemberRejoined
    | MemberReplaced
    | MembersRemoved
    | RebalancePrepared
    | DelayExtended
    | GenerationStarted
    | GroupBecameEmpty
    | SyncParked
    | Synced
    | Assigned
)


def _park_sync(live: ClassicMembership, note: SyncParked) -> None:
    live.members[note.member_id].parked_sync = note.parked
    live.pending_sync.pop(note.member_id, None)


def _hand_out(live: ClassicMembership, note: IdHandedOut) -> None:
    live.pending[note.member_id] = note.timer


def _sync(live: ClassicMembership, note: Synced) -> None:
    live.pending_sync.pop(note.member_id, None)


def _forget_pending(live: ClassicMembership, note: PendingForgotten) -> None:
    del live.pending[note.member_id]


def _extend_delay(live: ClassicMembership, note: DelayExtended) -> None:
    live.initial_delay = note.initial_delay
    live.has_new_member = False


def _empty(live: ClassicMembership, note: GroupBecameEmpty) -> None:
    _move(live, Phase.EMPTY, note.timestamp_ms)
    live.generation = note.generation
    live.protocol_name = None
    live.leader_id = None
    live.subscribed_topics = frozenset()
    live.initial_delay = None
    live.rebalance = None


def _assign(live: ClassicMembership, note: Assigned) -> None:
    _move(live, Phase.STABLE, note.timestamp_ms)
    for member in live.members.values():
        member.assignment = note.assignments[member.member_id]
        member.parked_sync = None
    live.rebalance = None


def _move(live: ClassicMembership, phase: Phase, timestamp_ms: int) -> None:
    assert phase in NEXT_PHASES[live.phase], f"{live.group_id}: cannot move from {live.phase} to {phase}"
    live.phase = phase
    live.phase_timestamp_ms = timestamp_ms


def _add(live: ClassicMembership, note: MemberAdded) -> None:
    member = note.member
    if not live.members:
        live.protocol_type = note.protocol_type
    if live.leader_id is None:
        live.leader_id = member.member_id
    live.members[member.member_id] = member
    live.pending.pop(member.member_id, None)
    if member.group_instance_id is not None:
        live.static_members[member.group_instance_id] = member.member_id
    _count(live, member.protocols, 1)
    live.awaiting_join += member.parked_join is not None
    live.has_new_member = True


def _rejoin(live: ClassicMembership, note: MemberRejoined) -> None:
    member = live.members[note.member_id]
    if member.protocols != note.protocols:
        _count(live, member.protocols, -1)
        _count(live, note.protocols, 1)
        member.protocols = note.protocols
    member.session_timeout_ms = note.session_timeout_ms
    member.rebalance_timeout_ms = note.rebalance_timeout_ms
    live.awaiting_join += member.parked_join is None
    member.parked_join = note.parked


def _replace(live: ClassicMembership, note: MemberReplaced) -> None:
    old_id, member = note.old_id, note.member
    old = live.members[old_id]
    # The new id keeps the place of the old one: the order decides which member leads next.
    live.members = {
        (member.member_id if known_id == old_id else known_id): (member if known is old else known)
        for known_id, known in live.members.items()
    }
    assert member.group_instance_id is not None
    live.static_members[member.group_instance_id] = member.member_id
    _count(live, old.protocols, -1)
    _count(live, member.protocols, 1)
    live.awaiting_join += (member.parked_join is not None) - (old.parked_join is not None)
    if live.leader_id == old_id:
        live.leader_id = member.member_id
    if old_id in live.pending_sync:
        del live.pending_sync[old_id]
        live.pending_sync[member.member_id] = None


def _remove(live: ClassicMembership, note: MembersRemoved) -> None:
    for member_id in note.member_ids:
        member = live.members.pop(member_id)
        if member.group_instance_id is not None:
            live.static_members.pop(member.group_instance_id, None)
        _count(live, member.protocols, -1)
        live.awaiting_join -= member.parked_join is not None
        live.pending_sync.pop(member_id, None)
    if live.leader_id not in live.members:
        live.leader_id = next(iter(live.members), None)


def _prepare(live: ClassicMembership, note: RebalancePrepared) -> None:
    if live.phase is Phase.COMPLETING:
        for member in live.members.values():
            member.assignment = b""
            member.parked_sync = None
    _move(live, Phase.PREPARING, note.timestamp_ms)
    live.pending_sync.clear()
    live.initial_delay = note.initial_delay
    live.has_new_member = False
    live.rebalance = note.rebalance


def _start_generation(live: ClassicMembership, note: GenerationStarted) -> None:
    _move(live, Phase.COMPLETING, note.timestamp_ms)
    live.generation = note.generation
    live.protocol_name = note.protocol_name
    live.leader_id = note.leader_id
    live.subscribed_topics = note.subscribed_topics
    live.initial_delay = None
    live.rebalance = note.rebalance
    live.awaiting_join = 0
    for member in live.members.values():
        member.parked_join = None
        member.is_new = False
    live.pending_sync = dict.fromkeys(live.members)


def _count(live: ClassicMembership, protocols: Iterable[JoinProtocol], change: int) -> None:
    supported = live.supported
    for name in {protocol.name for protocol in protocols}:
        count = supported.get(name, 0) + change
        if count:
            supported[name] = count
        else:
            del supported[name]


# Any: each function takes the type under which it is listed.
_CHANGES: Final[Mapping[type[ClassicNote], Callable[[ClassicMembership, Any], None]]] = {
    IdHandedOut: _hand_out,
    PendingForgotten: _forget_pending,
    MemberAdded: _add,
    MemberRejoined: _rejoin,
    MemberReplaced: _replace,
    MembersRemoved: _remove,
    RebalancePrepared: _prepare,
    DelayExtended: _extend_delay,
    GenerationStarted: _start_generation,
    GroupBecameEmpty: _empty,
    SyncParked: _park_sync,
    Synced: _sync,
    Assigned: _assign,
}


def _change(state: GroupState, note: ClassicNote) -> None:
    membership = state.groups[note.group_id].membership
    assert type(membership) is ClassicMembership, f"{note}: the group has no members in the classic protocol"
    _CHANGES[type(note)](membership, note)


CLASSIC_CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = dict.fromkeys(_CHANGES, _change)
