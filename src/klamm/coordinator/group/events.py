"""What happened to groups, and why.

No decision depends on them. The broker writes them as JSON to a topic of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final

from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition


class GroupEventCause(StrEnum):
    """What caused an event."""

    MEMBER_JOINED = "a member joined"
    METADATA_CHANGED = "a member rejoined with other metadata"
    LEADER_REJOINED = "the leader rejoined"
    STATIC_MEMBER_RETURNED = "a static member returned"
    MEMBER_LEFT = "a member left"
    MEMBER_DISMISSED = "an administrator removed a member"
    SESSION_EXPIRED = "a member was silent for its session timeout"
    JOIN_MISSED = "a member did not rejoin in time"
    SYNC_MISSED = "members did not fetch their assignments in time"
    JOIN_TOO_LONG = "a new member waited too long for the others"
    ID_UNUSED = "a member id was assigned and never used"
    GROUP_FULL = "the group has as many members as it may have"
    ASSIGNMENT_NOT_WRITTEN = "the leader's assignment could not be written"
    GROUP_DELETED = "the group was deleted"
    RETENTION_OVER = "the retention time is over"
    TOPIC_DELETED = "the topic was deleted"
    COMMITS_MIXED = "plain and transactional commits are mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """Something that happened to a group."""

    group_id: str
    timestamp_ms: int
    cause: str
    member_id: str = ""  # the member that caused it, or that it happened to
    client_id: str = ""
    client_host: str = ""
    reason: str = ""  # as the client states it

    @property
    def key(self) -> str:
        return self.group_id

    @property
    def is_warning(self) -> bool:
        return type(self) in WARNINGS

    def as_json(self) -> dict[str, object]:
        """The event as JSON's own types; field names carry their units."""
        return _as_json(self)

    def line(self) -> str:
        """The event as a line of the log, in the words that operators of Kafka search for."""
        return _line(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(GroupEvent):
    """All members must join again."""

    generation: int
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted(GroupEvent):
    """All members have an assignment again; cause and member are those of its start."""

    generation_before: int
    generation_after: int
    join_phase_ms: int
    sync_phase_ms: int
    leader_id: str
    protocol_name: str
    member_count: int
    dropped: tuple[str, ...] = ()  # members that did not rejoin
    before: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # assignments by member
    after: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def moved(self) -> tuple[TopicPartition, ...] | None:
        """Partitions that another member has now; None when the assignments cannot be read.

        Computed on demand, not while the members wait for their answers.
        """
        known: dict[bytes, Sequence[TopicPartition]] = {}
        owners_before, owners_after = _owners(self.before, known), _owners(self.after, known)
        if owners_before is None or owners_after is None:
            return None
        return tuple(
            sorted(
                partition
                for partition in owners_before.keys() | owners_after.keys()
                if owners_before.get(partition) != owners_after.get(partition)
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEmptied(GroupEvent):
    """The last member left."""

    generation_before: int
    generation_after: int
    join_phase_ms: int
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRemoved(GroupEvent):
    """A member was removed."""

    group_instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFenced(GroupEvent):
    """A static member returned with a new id; requests with the old one are refused."""

    group_instance_id: str
    new_member_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRemoved(GroupEvent):
    """Committed offsets were removed."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsMixed(GroupEvent):
    """Plain and transactional commits in one generation: reported once per group."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved(GroupEvent):
    """The group was removed."""

    generation: int


NAMES: Final[Mapping[type[GroupEvent], str]] = {
    RebalanceStarted: "rebalance_started",
    RebalanceCompleted: "rebalance_completed",
    GroupEmptied: "group_emptied",
    MemberRemoved: "member_removed",
    MemberFenced: "member_fenced",
    OffsetsRemoved: "offsets_removed",
    CommitsMixed: "commits_mixed",
    GroupRemoved: "group_removed",
}

_FIELDS: Final = {
    kind: tuple(each.name for each in fields(kind) if each.name not in {"before", "after", "dropped"})
    for kind in NAMES
}
_MAX_LISTED: Final = 1_000  # partitions and members named one by one


def _as_json(event: GroupEvent) -> dict[str, object]:
    written: dict[str, object] = {"type": NAMES[type(event)]}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        written[name] = str(value) if isinstance(value, GroupEventCause) else value
    if isinstance(event, RebalanceCompleted | GroupEmptied):
        written["dropped"] = list(event.dropped[:_MAX_LISTED])
        written["dropped_count"] = len(event.dropped)
    if isinstance(event, RebalanceCompleted):
        moved = event.moved()
        written["moved"] = None if moved is None else [str(partition) for partition in moved[:_MAX_LISTED]]
        written["moved_count"] = None if moved is None else len(moved)
    return written


WARNINGS: Final = frozenset({CommitsMixed})  # logged at WARNING, all others at INFO


def _line(event: GroupEvent) -> str:
    group, member = event.group_id, event.member_id
    why = f"{event.cause}: {event.reason}" if event.reason else str(event.cause)
    match event:
        case RebalanceStarted():
            old = event.generation
            return f"Preparing to rebalance group {group} with old generation {old} ({why}; {member})"
        case RebalanceCompleted():
            return (
                f"Assignment received from leader {event.leader_id}: stabilized group {group} generation "
                f"{event.generation_after} with {event.member_count} members after {event.join_phase_ms} ms "
                f"to join and {event.sync_phase_ms} ms to sync ({why})"
            )
        case GroupEmptied():
            return f"Group {group} with generation {event.generation_after} is now empty ({why})"
        case MemberRemoved():
            return f"Member {member} in group {group} has been removed ({why})"
        case MemberFenced():
            return (
                f"Static member {event.group_instance_id} of group {group} is now {event.new_member_id}; "
                f"{member} is fenced ({why})"
            )
        case OffsetsRemoved():
            return f"Removed {event.count} expired offsets in group {group} ({why})"
        case CommitsMixed():
            return (
                f"Group {group} has received offset commits from consumers as well as transactional "
                f"producers in generation {event.generation} ({why}; {member}). The later commit overrides "
                f"the earlier one: commit either with the consumer or in transactions, not both"
            )
        case GroupRemoved():
            return f"Group {group} transitioned to Dead in generation {event.generation} ({why})"
        case _:
            return f"Group {group}: {why}"


def _owners(
    assignments: Mapping[str, bytes], known: dict[bytes, Sequence[TopicPartition]]
) -> dict[TopicPartition, str] | None:
    """The owner of each partition; `known` caches decoded assignments, most of which do not change."""
    owners: dict[TopicPartition, str] = {}
    for member_id, raw in assignments.items():
        if not raw:
            continue  # nothing assigned
        partitions = known.get(raw)
        if partitions is None:
            try:
                partitions = known[raw] = decode_assignment(raw).partitions
            except DecodeError:
                return None
        for partition in partitions:
            owners[partition] = member_id
    return owners
