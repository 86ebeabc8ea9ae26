"""Changes to the members of a group in the classic protocol. They are not logged.

Notes are not named tuples, which take twice as long to make, nor frozen; nobody changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.coordinator.group.classic.membership import (
    ClassicMembership,
    InitialDelay,
    Member,
    OpenRebalance,
    Trigger,
    are_same,
    rebalance_timeout_ms,
)
from klamm.coordinator.group.classic.phases import NEXT_PHASES, Phase
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


class IdHandedOut:
    """A client got a member id and has to join again with it."""

    __slots__ = ("group_id", "member")

    def __init__(
        self,
        group_id: str,
        member: Member,
    ) -> None:
        self.group_id = group_id
        self.member = member


@dataclass(slots=True)
class PendingForgotten:
    """A member id that was given out is not valid any more."""

    group_id: str
    member_id: str


class MemberAdded:
    """A new member joins, and waits."""

    __slots__ = ("context", "group_id", "member", "request")

    def __init__(
        self,
        group_id: str,
        member: Member,  # a new one, or that of the id that was handed out
        request: JoinGroupRequest,
        context: Context,
    ) -> None:
        self.group_id = group_id
        self.member = member
        self.request = request
        self.context = context


class MemberRejoined:
    """A member joins again, perhaps with other protocols or timeouts."""

    __slots__ = ("context", "group_id", "member", "request")

    def __init__(
        self,
        group_id: str,
        member: Member,
        request: JoinGroupRequest,
        context: Context,
    ) -> None:
        self.group_id = group_id
        self.member = member
        self.request = request
        self.context = context


@dataclass(slots=True)
class MemberReplaced:
    """A static member returned: the new id replaces the old one."""

    group_id: str
    old_id: str
    member: Member


@dataclass(slots=True)
class MembersRemoved:
    """Members left or were removed."""

    group_id: str
    member_ids: tuple[str, ...]
    departure: Trigger


@dataclass(slots=True)
class RebalancePrepared:
    """A join phase begins."""

    group_id: str
    rebalance: OpenRebalance
    initial_delay: InitialDelay | None
    timestamp_ms: int


@dataclass(slots=True)
class DelayExtended:
    """The initial delay is extended, because members keep joining."""

    group_id: str
    initial_delay: InitialDelay


@dataclass(slots=True)
class GenerationStarted:
    """The join phase ended with members."""

    group_id: str
    generation: int
    protocol_name: str
    leader_id: str
    subscribed_topics: frozenset[str] | None
    rebalance: OpenRebalance | None
    timestamp_ms: int


@dataclass(slots=True)
class GroupBecameEmpty:
    """The join phase ended without members."""

    group_id: str
    generation: int
    timestamp_ms: int


class SyncParked:
    """A member waits for its assignment."""

    __slots__ = ("context", "group_id", "member")

    def __init__(
        self,
        group_id: str,
        member: Member,
        context: Context,
    ) -> None:
        self.group_id = group_id
        self.member = member
        self.context = context


@dataclass(slots=True)
class Synced:
    """A member of a stable group got its assignment."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class Assigned:
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
    note.member.parked_sync = note.context.token
    note.member.parked_at_ms = note.context.now_ms
    live.pending_sync.pop(note.member.member_id, None)


def _hand_out(live: ClassicMembership, note: IdHandedOut) -> None:
    live.pending[note.member.member_id] = note.member


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
    member, request, context = note.member, note.request, note.context
    member_id = member.member_id
    member.client_id, member.client_host = context.client_id, context.client_host
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.protocols = request.protocols
    member.parked_join = context.token
    member.parked_at_ms = context.now_ms
    if not live.members:
        live.protocol_type = request.protocol_type
    if live.leader_id is None:
        live.leader_id = member_id
    live.members[member_id] = member
    live.pending.pop(member_id, None)
    if request.group_instance_id is not None:
        member.group_instance_id = request.group_instance_id
        live.static_members[request.group_instance_id] = member_id
    _count(live, request.protocols, 1)
    live.awaiting_join += 1
    live.has_new_member = True


def _rejoin(live: ClassicMembership, note: MemberRejoined) -> None:
    member, request = note.member, note.request
    if not are_same(member.protocols, request.protocols):
        _count(live, member.protocols, -1)
        _count(live, request.protocols, 1)
    member.protocols = request.protocols
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    live.awaiting_join += member.parked_join is None
    member.parked_join = note.context.token
    member.parked_at_ms = note.context.now_ms


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
    live.departure = note.departure


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


def _count(live: ClassicMembership, protocols: Sequence[JoinGroupRequestProtocol], change: int) -> None:
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


def _in_group(change: Callable[[ClassicMembership, Any], None]) -> Callable[[GroupState, Any], None]:
    def apply(state: GroupState, note: ClassicNote) -> None:
        live = state.groups[note.group_id].membership
        assert type(live) is ClassicMembership, f"{note}: the group has no members in the classic protocol"
        change(live, note)

    return apply


CLASSIC_CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = {
    note: _in_group(change) for note, change in _CHANGES.items()
}
