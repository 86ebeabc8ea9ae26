"""How far a group is behind, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import GroupDescription, ListedOffset, MemberDescription
from klamm.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group; None where no offset is committed or the topic does not exist."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "committed": self.committed,
            "end": self.end,
            "lag": self.lag,
            "member": self.member.member_id if self.member else None,
            "client": self.member.client_id if self.member else None,
            "host": self.member.client_host if self.member else None,
        }

    def row(self) -> tuple[object, ...]:
        member = self.member
        return (
            self.partition.topic,
            self.partition.partition,
            _shown(self.committed),
            _shown(self.end),
            _shown(self.lag),
            member.member_id if member else "-",
            member.client_id if member else "-",
            member.client_host if member else "-",
        )


def _shown(number: int | None) -> object:
    return "-" if number is None else number


def lag_of(admin: Admin, group: GroupDescription) -> list[PartitionLag]:
    """All partitions that the group has committed or owns."""
    committed = admin.list_group_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment or ()}
    partitions = sorted(set(committed) | set(owners))
    ends = admin.list_offsets(partitions, "latest", raise_errors=False).successes if partitions else {}
    return [
        PartitionLag(
            partition,
            committed[partition].offset if partition in committed else None,
            _end(ends.get(partition)),
            owners.get(partition),
        )
        for partition in partitions
    ]


def total_lag(lags: Sequence[PartitionLag]) -> int | None:
    """The sum over the partitions whose lag is known; None when none is."""
    known = [item.lag for item in lags if item.lag is not None]
    return sum(known) if known else None


def lag_text(lags: Sequence[PartitionLag]) -> str:
    """The total as text, with the number of partitions that have no committed offset."""
    total = total_lag(lags)
    unknown = sum(item.lag is None for item in lags)
    if total is None:
        return "unknown"
    return f"{total} + {unknown} partition(s) without a committed offset" if unknown else str(total)


def _end(found: ListedOffset | None) -> int | None:
    return None if found is None else found.offset
