"""How far groups are behind: what the cluster tells, as rows of `klamm.groups.lag`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import CommittedOffset, GroupDescription
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.errors import KlammError, UnknownTopicOrPartitionError, UnsupportedVersionError
from klamm.groups.lag import (
    LagStatus,
    LogRange,
    PartitionLag,
    TotalLag,
    are_members_hidden,
    partition_lags,
    topics_to_read,
    total_lag,
)
from klamm.groups.sinks import is_decision
from klamm.protocol.types import TopicPartition

COLUMNS: Final = ("topic", "partition", "committed", "start", "end", "lag", "owner", "client", "host")


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group and its partitions."""

    group: GroupDescription
    partitions: Sequence[PartitionLag]
    errors: dict[TopicPartition, KlammError]  # why the start or the end of a log is not known
    hidden: dict[str, KlammError]  # topics that its members read, and that this user may not describe

    @property
    def are_owners_known(self) -> bool:
        """Whether the cluster tells who owns what: not during a rebalance, nor of groups of other kinds."""
        members = self.group.members
        return not members or all(member.assignment is not None for member in members)

    @property
    def total(self) -> TotalLag:
        is_complete = not self.hidden and not are_members_hidden(self.group.state)
        return total_lag(self.partitions, is_complete=is_complete)

    def owner(self, row: PartitionLag) -> tuple[str, str, str]:
        """The owner of a partition as text: member, client and host."""
        for member in self.group.members:
            if member.member_id == row.owner:
                return member.member_id, member.client_id, member.client_host
        return "nobody" if self.are_owners_known else "unknown", "-", "-"

    def row(self, item: PartitionLag) -> tuple[object, ...]:
        """A row of a table: COLUMNS."""
        log = item.log
        return (
            *item.partition,
            "-" if item.committed is None else item.committed,
            *(("?", "?") if log is None else (log.start, log.end)),
            _LAG_TEXTS.get(item.status, item.lag),
            *self.owner(item),
        )

    def as_json(self) -> dict[str, Any]:
        group, total = self.group, self.total
        return {
            "group": group.group_id,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "assignor": group.protocol,
            "coordinator": group.coordinator_id,
            "members": len(group.members),
            "lag": total.lag,
            "known_lag": total.known,
            "lag_limit": total.limit,
            "partitions_of_unknown_lag": total.unknown,
            "owners_known": self.are_owners_known,
            "partitions": [self._row_as_json(item) for item in self.partitions],
        }

    def _row_as_json(self, item: PartitionLag) -> dict[str, Any]:
        _, client, host = self.owner(item)
        return {
            "topic": item.partition.topic,
            "partition": item.partition.partition,
            "committed": item.committed,
            "start": item.log.start if item.log else None,
            "end": item.log.end if item.log else None,
            "lag": item.lag,
            "lag_status": item.status.value,
            "member": item.owner,
            "client": client if item.owner else None,
            "host": host if item.owner else None,
        }


_LAG_TEXTS: Final = {
    LagStatus.NOTHING_COMMITTED: "nothing committed",
    LagStatus.BEFORE_START: "OUT OF RANGE (before start)",
    LagStatus.BEYOND_END: "OUT OF RANGE (beyond end)",
    LagStatus.LOG_UNKNOWN: "unknown",
    LagStatus.SINK: "-",
}


def lag_text(total: TotalLag) -> str:
    """A total in a few words."""
    if total.lag is not None:
        return str(total.lag)
    if total.is_complete and not total.counted:
        return "not known: nothing is committed, and no member tells what it reads"
    if not total.is_complete:
        # During a rebalance no cluster tells subscriptions; and a user may not see all topics.
        return f"unknown: not all that it reads is known, {total.known} on partitions with a committed offset"
    partitions = f"not known on {total.unknown} partition(s)"
    if total.limit is None:
        return f"unknown: {total.known} or more, {partitions}"
    return f"unknown: {total.known} to {total.limit}, {partitions}"


def lag_of(admin: Admin, group: GroupDescription) -> GroupLag:
    """One group and its partitions."""
    return lags_of(admin, [group])[0]


def lags_of(admin: Admin, groups: Sequence[GroupDescription]) -> list[GroupLag]:
    """The groups with their partitions; each log is asked for once."""
    committed = committed_offsets(admin, [group.group_id for group in groups])
    topics = set().union(*map(_topics, groups, committed)) if groups else set()
    partitions, hidden = _partitions_of(admin, topics)
    needed = {key for found in committed for key in found} | {
        key for keys in partitions.values() for key in keys
    }
    logs, errors = _logs(admin, needed)
    return [
        _group_lag(group, found, partitions, logs, errors, hidden)
        for group, found in zip(groups, committed, strict=True)
    ]


def committed_offsets(admin: Admin, group_ids: Sequence[str]) -> list[dict[TopicPartition, CommittedOffset]]:
    """What each of these groups has committed."""
    operations = admin._operations
    if len(group_ids) > 1:
        try:
            of_all = operations._offsets_of_groups(group_ids).result()
            return [of_all[group_id] for group_id in group_ids]
        except UnsupportedVersionError:
            pass  # brokers before Kafka 3.0 answer for one group at a time
    pending = [operations.list_group_offsets(group_id) for group_id in group_ids]
    return [found.result() for found in pending]


def _topics(group: GroupDescription, committed: Collection[TopicPartition]) -> set[str]:
    return topics_to_read(
        {topic for member in group.members for topic in member.subscribed_topics or ()},
        (key.topic for key in committed),
        protocol_type=group.protocol_type,
        has_members=bool(group.members),
    )


def _partitions_of(
    admin: Admin, topics: Iterable[str]
) -> tuple[dict[str, list[TopicPartition]], dict[str, KlammError]]:
    """The partitions of topics, and the topics of which they are not known. One that is gone has none."""
    wanted = sorted(topics)
    if not wanted:
        return {}, {}
    found = admin.describe_topics(wanted, raise_errors=False)
    partitions = {
        name: [TopicPartition(name, item.partition) for item in topic.partitions]
        for name, topic in found.successes.items()
    }
    return partitions, {
        name: error
        for name, error in found.errors.items()
        if not isinstance(error, UnknownTopicOrPartitionError)
    }


def _logs(
    admin: Admin, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, LogRange], dict[TopicPartition, KlammError]]:
    if not partitions:
        return {}, {}
    starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST), raise_errors=False)
    # Asked for later than the start, the end is not before it.
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST), raise_errors=False)
    logs = {
        key: LogRange(found.offset, ends.successes[key].offset)
        for key, found in starts.successes.items()
        if key in ends.successes
    }
    return logs, {**ends.errors, **starts.errors}


def _group_lag(
    group: GroupDescription,
    committed: dict[TopicPartition, CommittedOffset],
    partitions: dict[str, list[TopicPartition]],
    logs: dict[TopicPartition, LogRange],
    errors: dict[TopicPartition, KlammError],
    hidden: dict[str, KlammError],
) -> GroupLag:
    topics = _topics(group, committed)
    rows = partition_lags(
        committed={key: item.offset for key, item in committed.items()},
        logs=logs,
        subscribed=[key for topic in topics for key in partitions.get(topic, ())],
        owners={key: member.member_id for member in group.members for key in member.assignment or ()},
        decisions={key for key, item in committed.items() if is_decision(group.group_id, item.metadata)},
    )
    mine = {row.partition: errors[row.partition] for row in rows if row.partition in errors}
    return GroupLag(group, rows, mine, {name: hidden[name] for name in sorted(topics) if name in hidden})


def unreachable(lags: Iterable[GroupLag]) -> dict[TopicPartition | str, KlammError]:
    """Errors other than that a topic is deleted, which its rows show."""
    found: dict[TopicPartition | str, KlammError] = {}
    for lag in lags:
        found.update(lag.hidden)
        found.update(
            (key, error)
            for key, error in lag.errors.items()
            if not isinstance(error, UnknownTopicOrPartitionError)
        )
    return found
