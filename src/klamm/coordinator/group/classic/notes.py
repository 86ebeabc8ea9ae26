"""The changes that a restart forgets, and the one door through which they happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never

from klamm.coordinator.group.classic.live import (
    InitialDelay,
    JoinProtocol,
    Live,
    Member,
    Parked,
    Rebalance,
)
from klamm.coordinator.group.classic.phases import NEXT_PHASES, Phase
from klamm.coordinator.group.state import NOBODY, GroupState, StagedCommit
from klamm.coordinator.runtime.timers import Timer
from klamm.records.core import Replaced


class GroupOpened(NamedTuple):
    """Somebody joins a group that nobody was in before."""

    group_id: str
    live: Live


class GroupDropped(NamedTuple):
    """Nothing is left of a group."""

    group_id: str


class IdHandedOut(NamedTuple):
    """A client was told its id and is to come back with it."""

    group_id: str
    member_id: str
    timer: Timer


class PendingForgotten(NamedTuple):
    """An id that was handed out counts no longer."""

    group_id: str
    member_id: str


class MemberAdded(NamedTuple):
    """A member that was not there before, with its parked join."""

    group_id: str
    member: Member
    protocol_type: str


class MemberRejoined(NamedTuple):
    """A member joins again, perhaps with other wishes."""

    group_id: str
    member_id: str
    protocols: tuple[JoinProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    parked: Parked


class MemberReplaced(NamedTuple):
    """A static member came back: the new id takes the place of the old."""

    group_id: str
    old_id: str
    member: Member


class MembersRemoved(NamedTuple):
    """Members went, or were sent away."""

    group_id: str
    member_ids: tuple[str, ...]


class RebalancePrepared(NamedTuple):
    """A join phase begins."""

    group_id: str
    rebalance: Rebalance
    initial_delay: InitialDelay | None
    timestamp_ms: int


class DelayExtended(NamedTuple):
    """Members keep coming to a group that begins: wait for more."""

    group_id: str
    initial_delay: InitialDelay


class GenerationStarted(NamedTuple):
    """The join phase is over, somebody is there."""

    group_id: str
    generation: int
    protocol_name: str
    leader_id: str
    subscribed_topics: frozenset[str] | None
    rebalance: Rebalance | None
    timestamp_ms: int


class GroupEmptied(NamedTuple):
    """The join phase is over, nobody is there."""

    group_id: str
    generation: int
    timestamp_ms: int


class SyncParked(NamedTuple):
    """A member waits for its assignment."""

    group_id: str
    member_id: str
    parked: Parked


class Synced(NamedTuple):
    """A member got its assignment after the others."""

    group_id: str
    member_id: str


class Assigned(NamedTuple):
    """Everybody has an assignment."""

    group_id: str
    assignments: Mapping[str, bytes]
    timestamp_ms: int


class OffsetsStaged(NamedTuple):
    """A commit is on its way to the disk."""

    group_id: str
    replaced: tuple[tuple[str, Replaced], ...]  # by topic


class TxnOffsetsStaged(NamedTuple):
    """A commit in a transaction is on its way to the disk."""

    group_id: str


class MixingReported(NamedTuple):
    """The warning about plain and transactional commits in one group was given."""

    group_id: str


class ExpiryQueued(NamedTuple):
    """Which groups the pass for expired offsets has yet to look at."""

    group_ids: tuple[str, ...]


Note = (
    GroupOpened
    | GroupDropped
    | IdHandedOut
    | PendingForgotten
    | MemberAdded
    | MemberRejoined
    | MemberReplaced
    | MembersRemoved
    | RebalancePrepared
    | DelayExtended
    | GenerationStarted
    | GroupEmptied
    | SyncParked
    | Synced
    | Assigned
    | OffsetsStaged
    | TxnOffsetsStaged
    | MixingReported
    | ExpiryQueued
)


def apply(state: GroupState, note: Note) -> None:
    """Carry out one note. Nothing else changes what is true only now."""
    match note:
        case OffsetsStaged():
            _stage(state, note)
        case MemberAdded() | SyncParked() | IdHandedOut() | MemberRejoined():  # a thousand at a time
            _apply_to_live(state.groups[note.group_id].live, note)
        case GroupOpened():
            state.of(note.group_id).live = note.live
        case GroupDropped():
            _move(state.of(note.group_id).live, Phase.DEAD)
            del state.groups[note.group_id]
        case TxnOffsetsStaged():
            group = state.of(note.group_id)
            group.txn_commit_generation = group.live.generation
        case MixingReported():
            state.of(note.group_id).is_mixing_reported = True
        case ExpiryQueued():
            state.expiry_queue = note.group_ids
        case _:
            _apply_to_live(state.groups[note.group_id].live, note)


def _stage(state: GroupState, note: OffsetsStaged) -> None:
    """Remember what a commit replaces, which was written a moment ago, and forget those that have arrived."""
    group = state.of(note.group_id)
    group.plain_commit_generation = group.live.generation
    durable_offset = state.durable_offset
    if group.staged:
        group.staged = [staged for staged in group.staged if staged.end_offset > durable_offset]
    if state.end_offset > durable_offset:
        group.staged.append(StagedCommit(state.end_offset, note.replaced))


def _apply_to_live(
    live: Live,
    note: IdHandedOut
    | PendingForgotten
    | MemberAdded
    | MemberRejoined
    | MemberReplaced
    | MembersRemoved
    | RebalancePrepared
    | DelayExtended
    | GenerationStarted
    | GroupEmptied
    | SyncParked
    | Synced
    | Assigned,
) -> None:
    assert live is not NOBODY, f"{note} for a group that nobody opened"
    match note:  # the most frequent first
        case MemberAdded():
            _add(live, note.member, note.protocol_type)
        case SyncParked():
            live.members[note.member_id].parked_sync = note.parked
            live.pending_sync.pop(note.member_id, None)
        case IdHandedOut():
            live.pending[note.member_id] = note.timer
        case MemberRejoined():
            _rejoin(live, note)
        case Synced():
            live.pending_sync.pop(note.member_id, None)
        case PendingForgotten():
            del live.pending[note.member_id]
        case MemberReplaced():
            _replace(live, note.old_id, note.member)
        case MembersRemoved():
            _remove(live, note.member_ids)
        case RebalancePrepared():
            _prepare(live, note)
        case DelayExtended():
            live.initial_delay = note.initial_delay
            live.has_new_member = False
        case GenerationStarted():
            _start_generation(live, note)
        case GroupEmptied():
            _move(live, Phase.EMPTY, note.timestamp_ms)
            live.generation = note.generation
            live.protocol_name = None
            live.leader_id = None
            live.subscribed_topics = frozenset()
            live.initial_delay = None
            live.rebalance = None
        case Assigned():
            _move(live, Phase.STABLE, note.timestamp_ms)
            for member in live.members.values():
                member.assignment = note.assignments[member.member_id]
                member.parked_sync = None
            live.rebalance = None
        case _:
            assert_never(note)


def _move(live: Live, phase: Phase, timestamp_ms: int | None = None) -> None:
    assert phase in NEXT_PHASES[live.phase], f"{live.group_id}: {live.phase} does not become {phase}"
    if live is NOBODY:
        return  # shared by all groups that nobody joined
    live.phase = phase
    live.phase_timestamp_ms = timestamp_ms


def _add(live: Live, member: Member, protocol_type: str) -> None:
    if not live.members:
        live.protocol_type = protocol_type
    if live.leader_id is None:
        live.leader_id = member.member_id
    live.members[member.member_id] = member
    live.pending.pop(member.member_id, None)
    if member.group_instance_id is not None:
        live.static_members[member.group_instance_id] = member.member_id
    _count(live, member.protocols, 1)
    live.awaiting_join += member.parked_join is not None
    live.has_new_member = True


def _rejoin(live: Live, note: MemberRejoined) -> None:
    member = live.members[note.member_id]
    if member.protocols != note.protocols:
        _count(live, member.protocols, -1)
        _count(live, note.protocols, 1)
        member.protocols = note.protocols
    member.session_timeout_ms = note.session_timeout_ms
    member.rebalance_timeout_ms = note.rebalance_timeout_ms
    live.awaiting_join += member.parked_join is None
    member.parked_join = note.parked


def _replace(live: Live, old_id: str, member: Member) -> None:
    old = live.members[old_id]
    # The new id stands where the old one stood: the order decides who leads next.
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


def _remove(live: Live, member_ids: Iterable[str]) -> None:
    for member_id in member_ids:
        member = live.members.pop(member_id)
        if member.group_instance_id is not None:
            live.static_members.pop(member.group_instance_id, None)
        _count(live, member.protocols, -1)
        live.awaiting_join -= member.parked_join is not None
        live.pending_sync.pop(member_id, None)
    if live.leader_id not in live.members:
        live.leader_id = next(iter(live.members), None)


def _prepare(live: Live, note: RebalancePrepared) -> None:
    if live.phase is Phase.COMPLETING:
        for member in live.members.values():
            member.assignment = b""
            member.parked_sync = None
    _move(live, Phase.PREPARING, note.timestamp_ms)
    live.pending_sync.clear()
    live.initial_delay = note.initial_delay
    live.has_new_member = False
    live.rebalance = note.rebalance


def _start_generation(live: Live, note: GenerationStarted) -> None:
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


def _count(live: Live, protocols: Iterable[JoinProtocol], change: int) -> None:
    supported = live.supported
    for name in {protocol.name for protocol in protocols}:
        count = supported.get(name, 0) + change
        if count:
            supported[name] = count
        else:
            del supported[name]
