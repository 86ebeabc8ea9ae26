"""What the log remembers of a group in the consumer protocol: one record type per key, and what they build.

A value replaces what its key had, None removes it. What follows from the values (who owns a partition, how
many read a topic) is kept beside them, and changes with them alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from klamm.coordinator.runtime.fields import Fields
from klamm.groups.consumer_log import (
    NOTHING_HELD,
    ClassicPart,
    CurrentValue,
    EpochValue,
    Holding,
    MemberValue,
    Partitions,
    ReconciliationState,
    RegexValue,
    TargetEpochValue,
)

__all__ = [
    "LEFT_FOR_A_WHILE",
    "NOTHING_HELD",
    "ClassicPart",
    "ConsumerCurrent",
    "ConsumerGroupEpoch",
    "ConsumerMember",
    "ConsumerMemory",
    "ConsumerRecord",
    "ConsumerRegex",
    "ConsumerTarget",
    "ConsumerTargetEpoch",
    "ConsumerTopicMetadata",
    "CurrentValue",
    "EpochValue",
    "Holding",
    "MemberValue",
    "Partitions",
    "ReconciliationState",
    "RegexValue",
    "TargetEpochValue",
    "replay_consumer",
]

LEFT_FOR_A_WHILE = -2  # the epoch of a static member that will come back


# --- records -----------------------------------------------------------------------------------------


class ConsumerGroupEpoch(NamedTuple):
    """Key type 3. None removes the group."""

    group_id: str
    value: EpochValue | None


class ConsumerTopicMetadata(NamedTuple):
    """Key type 4, of Kafka 4.0 only: its content is not used. klamm writes only its tombstone."""

    group_id: str
    is_tombstone: bool = True


class ConsumerMember(NamedTuple):
    """Key type 5."""

    group_id: str
    member_id: str
    value: MemberValue | None


class ConsumerTargetEpoch(NamedTuple):
    """Key type 6."""

    group_id: str
    value: TargetEpochValue | None


class ConsumerTarget(NamedTuple):
    """Key type 7."""

    group_id: str
    member_id: str
    value: Partitions | None


class ConsumerCurrent(NamedTuple):
    """Key type 8."""

    group_id: str
    member_id: str
    value: CurrentValue | None


class ConsumerRegex(NamedTuple):
    """Key type 16."""

    group_id: str
    regex: str
    value: RegexValue | None


ConsumerRecord = (
    ConsumerGroupEpoch
    | ConsumerTopicMetadata
    | ConsumerMember
    | ConsumerTargetEpoch
    | ConsumerTarget
    | ConsumerCurrent
    | ConsumerRegex
)


# --- state -------------------------------------------------------------------------------------------


class ConsumerMemory(Fields):
    """One group. `replay_consumer` alone changes it."""

    __slots__ = (
        "current", "epoch", "instances", "members", "metadata_hash", "owners", "readers", "regex_users",
        "regexes", "settled", "target_epoch", "target_ms", "targets", "topics_written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_ms: int | None = None  # wall clock of the target
        self.members: dict[str, MemberValue] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, CurrentValue] = {}
        self.regexes: dict[str, RegexValue] = {}
        self.topics_written = False  # a record of type 4 is in the log
        # What follows from these:
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.readers: Counter[str] = Counter()  # topic -> members that name it
        self.regex_users: Counter[str] = Counter()
        self.owners: dict[bytes, dict[int, str]] = {}  # topic id -> partition -> who has it, pending or not
        self.settled = 0  # members that have reached the target

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def is_settled(self, member_id: str) -> bool:
        current = self.current.get(member_id)
        return (
            current is not None
            and current.state == ReconciliationState.STABLE
            and current.epoch == self.target_epoch
            and member_id in self.members
        )

    def subscribed(self) -> set[str]:
        """The topics that members name, or that match their regular expressions; not all need exist."""
        topics = set(self.readers)
        for regex in self.regex_users:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics.update(resolved.topics)
        return topics

    def subscribed_after(
        self,
        removed: Iterable[MemberValue],
        added: Iterable[MemberValue],
        resolved: Mapping[str, RegexValue],
    ) -> set[str]:
        """The same, when these members are gone, those there, and this is what expressions match."""
        removed, added = tuple(removed), tuple(added)
        topics = Counter(self.readers)
        for members, change in ((removed, -1), (added, 1)):
            for member in members:
                for topic in member.topics:
                    topics[topic] += change
        regexes = self.regexes_after(removed, added)
        found = {topic for topic, count in topics.items() if count > 0}
        for regex, count in regexes.items():
            matched = resolved.get(regex) or self.regexes.get(regex)
            if count > 0 and matched is not None:
                found.update(matched.topics)
        return found

    def regexes_after(self, removed: Iterable[MemberValue], added: Iterable[MemberValue]) -> Counter[str]:
        """How many members use each regular expression, when these members are gone and those there."""
        regexes = Counter(self.regex_users)
        for members, change in ((removed, -1), (added, 1)):
            for member in members:
                if member.regex:
                    regexes[member.regex] += change
        return regexes

    def topics_of(self, member: MemberValue) -> frozenset[str]:
        """The topics of one member."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return frozenset(member.topics if resolved is None else (*member.topics, *resolved.topics))


def replay_consumer(memory: ConsumerMemory, record: ConsumerRecord) -> None:
    """Apply one record; what it names need not be there."""
    match record:
        case ConsumerGroupEpoch(value=EpochValue() as value):
            memory.epoch, memory.metadata_hash = value
        case ConsumerTopicMetadata():
            memory.topics_written = not record.is_tombstone
        case ConsumerMember():
            _member(memory, record.member_id, record.value)
        case ConsumerTargetEpoch():
            memory.target_epoch, memory.target_ms = record.value or (0, None)
            memory.settled = sum(map(memory.is_settled, memory.current))
        case ConsumerTarget():
            if record.value:
                memory.targets[record.member_id] = record.value
            else:
                memory.targets.pop(record.member_id, None)
        case ConsumerCurrent():
            _current(memory, record.member_id, record.value)
        case ConsumerRegex():
            if record.value is None:
                memory.regexes.pop(record.regex, None)
            else:
                memory.regexes[record.regex] = record.value


def _member(memory: ConsumerMemory, member_id: str, value: MemberValue | None) -> None:
    was_settled = memory.is_settled(member_id)
    before = memory.members.pop(member_id, None)
    if before is not None:
        if before.instance_id is not None and memory.instances.get(before.instance_id) == member_id:
            del memory.instances[before.instance_id]
        _count(memory, before, -1)
    if value is not None:
        memory.members[member_id] = value
        if value.instance_id is not None:
            memory.instances[value.instance_id] = member_id
        _count(memory, value, 1)
    memory.settled += memory.is_settled(member_id) - was_settled


def _count(memory: ConsumerMemory, member: MemberValue, change: int) -> None:
    for topic in member.topics:
        _add(memory.readers, topic, change)
    if member.regex:
        _add(memory.regex_users, member.regex, change)


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:
        del counter[name]


def _current(memory: ConsumerMemory, member_id: str, value: CurrentValue | None) -> None:
    was_settled = memory.is_settled(member_id)
    before = memory.current.pop(member_id, None)
    owners = memory.owners
    for held in () if before is None else (before.assigned, before.pending):
        for topic_id, partitions in held.items():
            known = owners.get(topic_id, {})
            for partition in partitions:
                if known.get(partition) == member_id:
                    del known[partition]
            if not known:
                owners.pop(topic_id, None)
    if value is not None:
        memory.current[member_id] = value
        for held in (value.assigned, value.pending):
            for topic_id, partitions in held.items():
                if partitions:
                    owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))
    memory.settled += memory.is_settled(member_id) - was_settled
