"""What is wrong with groups, by the rules of `klamm groups diagnose`, as far as their broker can tell.

The broker has the present: members, offsets, the partitions that it leads. Rules that need the past, or
partitions of other brokers, do not apply here; so a group without a verdict is not surely well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from klamm.broker.metrics.exposition import PAUSE, Sample, labels
from klamm.coordinator.group.classic.membership import CONSUMER, ClassicMembership, classic_membership
from klamm.coordinator.group.classic.phases import EMPTY
from klamm.groups.diagnosis.finding import FINE, GroupVerdict
from klamm.groups.diagnosis.rules import diagnose
from klamm.groups.lag import LogRange, PartitionLag, topics_to_read
from klamm.groups.sinks import is_decision
from klamm.groups.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.broker.services import Services
    from klamm.coordinator.group.state import Group

Unread = Mapping[tuple[str, str, int], int]  # timestamps of first unread records
_SILENT: Final = FINE | {GroupVerdict.NOT_KNOWN}
_WORK: Final = 10  # lines of the page that take as long as one verdict


def verdicts(services: Services, unread_ms: Unread) -> Iterator[Sample]:
    """A sample for each group with a problem."""
    for group in list(services.groups.coordinator.groups()):
        for _ in range(_WORK + group.membership.member_count):
            yield PAUSE
        found = diagnose(_snapshot(services, group, unread_ms)).verdict.verdict
        if found not in _SILENT:
            yield "", labels(consumergroup=group.group_id, verdict=found.value), 1


def _snapshot(services: Services, group: Group, unread_ms: Unread) -> GroupSnapshot:
    membership = group.membership
    live = classic_membership(group)
    owners = _owners(live)
    is_empty = live is not None and live.phase is EMPTY
    return GroupSnapshot(
        group_id=group.group_id,
        state=membership.state_name,
        taken_at_ms=services.clock.timestamp_ms(),
        window_ms=0,
        protocol_type=membership.protocol_type or "",
        members=[
            MemberSnapshot(member_id=each.member_id, client_id=each.client_id, client_host=each.client_host)
            for each in live.members.values()
        ]
        if live is not None
        else [_HIDDEN] * membership.member_count,
        partitions=list(_partitions(services, group, owners or {}, unread_ms)),
        are_owners_known=owners is not None,
        retention_ms=services.config.offsets_retention_minutes * 60_000,
        empty_since_ms=live.phase_timestamp_ms if live is not None and is_empty else None,
    )


_HIDDEN: Final = MemberSnapshot(member_id="", client_id="", client_host="")  # of another protocol: counted


def _owners(live: ClassicMembership | None) -> dict[TopicPartition, str] | None:
    """Who has which partition; None if the broker cannot read that."""
    if live is None or live.protocol_type not in (CONSUMER, None):
        return None
    found: dict[TopicPartition, str] = {}
    for member in live.members.values():
        if member.assignment:
            try:
                found.update(dict.fromkeys(decode_assignment(member.assignment).partitions, member.member_id))
            except DecodeError:
                return None
    return found


def topics_of(group: Group) -> set[str]:
    """The topics that a group reads, as far as its broker knows."""
    membership = group.membership
    return topics_to_read(
        # None: members whose subscription is not a consumer's. Only what they commit is known.
        membership.subscribed_topics,
        group.memory.offsets,
        protocol_type=membership.protocol_type,
        has_members=membership.member_count > 0,
    )


def _partitions(
    services: Services, group: Group, owners: Mapping[TopicPartition, str], unread_ms: Unread
) -> Iterator[PartitionSnapshot]:
    """Those that the group has committed or subscribes to, and that this broker leads."""
    offsets, topics = group.memory.offsets, services.image.topics
    subscribed = topics_of(group)
    for topic in sorted({*offsets, *subscribed}):
        described = topics.get(topic)
        table = dict(offsets[topic].items()) if topic in offsets else {}
        for number in range(0 if described is None else len(described.partitions)):
            stored = table.get(number)
            committed = None if stored is None else stored[1]
            if committed is None and topic not in subscribed:
                continue
            if committed is not None and is_decision(group.group_id, committed.metadata):
                continue
            log = _range(services, topic, number)
            if log is None:
                continue
            key = TopicPartition(topic, number)
            row = PartitionLag(key, None if committed is None else committed.offset, log, owners.get(key))
            since_ms = unread_ms.get((group.group_id, topic, number))
            # Without knowing since when there is something to read, a group that rests would seem to stand.
            is_dated = committed is not None and (not row.lag or since_ms is not None)
            yield PartitionSnapshot(
                row=row,
                is_subscribed=topic in subscribed,
                unread_since_ms=since_ms,
                committed_at_ms=committed.commit_timestamp_ms if committed is not None and is_dated else None,
            )


def _range(services: Services, topic: str, number: int) -> LogRange | None:
    partition = services.partitions.get(topic, number)
    if partition is None:
        return None
    try:
        log = partition.log
        return LogRange(log.log_start_offset, log.high_watermark)
    except LogError:
        return None
