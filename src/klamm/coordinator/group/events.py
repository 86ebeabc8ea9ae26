"""What happened to groups, and why.

No decision depends on them. The broker writes them as JSON to a topic of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from klamm.groups.causes import GroupEventCause as GroupEventCause  # noqa: PLC0414 - what decisions name
from klamm.groups.story import log_line
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition


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
        return log_line(_fields(self))


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
class GroupEpochBumped(GroupEvent):
    """A group of the consumer protocol gets a new target."""

    generation: int  # the epoch
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorFailed(GroupEvent):
    """A group of the consumer protocol keeps its last target."""

    assignor: str
    generation: int  # the epoch that has no target


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted(GroupEvent):
    """A group with members changes its protocol; the members stay, and the offsets."""

    type_before: str
    type_after: str
    generation: int  # the last of the one, and the epoch of the other; or the other way round
    member_count: int


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
    """Committed offsets were removed; of those that expired, also how old the last commit of them was, and
    how long they are kept."""

    count: int
    last_commit_age_ms: int | None = None
    retention_ms: int | None = None


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
    GroupEpochBumped: "group_epoch_bumped",
    AssignorFailed: "assignor_failed",
    GroupConverted: "group_converted",
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


def _fields(event: GroupEvent) -> dict[str, object]:
    """All but what takes long to compute."""
    written: dict[str, object] = {"type": NAMES[type(event)]}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        written[name] = str(value) if isinstance(value, GroupEventCause) else value
    return written


def _as_json(event: GroupEvent) -> dict[str, object]:
    written = _fields(event)
    if isinstance(event, RebalanceCompleted | GroupEmptied):
        written["dropped"] = list(event.dropped[:_MAX_LISTED])
        written["dropped_count"] = len(event.dropped)
    if isinstance(event, RebalanceCompleted):
        moved = event.moved()
        written["moved"] = None if moved is None else [str(partition) for partition in moved[:_MAX_LISTED]]
        written["moved_count"] = None if moved is None else len(moved)
    return written


WARNINGS: Final = frozenset({AssignorFailed, CommitsMixed})  # logged at WARNING, all others at INFO


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
