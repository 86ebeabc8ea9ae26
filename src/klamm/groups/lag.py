"""How far a group is behind, partition by partition: a number only where it is known.

Kafka's tools subtract a committed offset from the end of the log, whatever the two are. The difference says
nothing where nothing is committed, or where the committed offset is outside of the log: its consumers will
not go on there, but where auto.offset.reset sends them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from klamm.protocol.types import TopicPartition


class LagStatus(StrEnum):
    """What is known about the lag of a group in one partition."""

    KNOWN = "known"
    NOTHING_COMMITTED = "nothing committed"
    BEFORE_START = "before start"  # out of range: these records are deleted
    BEYOND_END = "beyond end"  # out of range: the topic was made anew, or lost records
    LOG_UNKNOWN = "log unknown"  # the topic is deleted, or its leader does not answer
    SINK = "sink"  # no position at all: a decision of an exactly-once sink


def are_members_hidden(state: str) -> bool:
    """Whether no cluster tells what the members of a group in this state read: during a rebalance."""
    return state in ("PreparingRebalance", "CompletingRebalance")


def topics_to_read(
    subscribed: Collection[str] | None,
    committed: Iterable[str],
    *,
    protocol_type: str | None,
    has_members: bool,
) -> set[str]:
    """The topics of which a group is to read every partition: what its members are subscribed to.

    One without members had subscribed to topics, too, if it had members of a consumer's kind. Which ones
    nobody tells any more: those of which something is committed are surely among them.
    """
    if not has_members and protocol_type == "consumer":
        return set(committed)
    return set(subscribed or ())


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets of a partition that can be read: from `start` up to, but not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group."""

    partition: TopicPartition
    committed: int | None
    log: LogRange | None
    owner: str | None  # the id of a member; None: nobody reads this partition
    is_decision: bool = False
    status: LagStatus = field(init=False)  # whether the lag is known, and why it is not
    # The records between the committed offset and the end; None if it is not known, or is none.
    lag: int | None = field(init=False)

    def __post_init__(self) -> None:
        # Once: the rules of a diagnosis look at both again and again.
        status = self._status()
        lag = None
        if status is LagStatus.KNOWN and self.log is not None:
            lag = 0 if self.committed is None else self.log.end - self.committed
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "lag", lag)

    def _status(self) -> LagStatus:
        if self.is_decision:
            return LagStatus.SINK
        if self.log is None:
            return LagStatus.LOG_UNKNOWN
        if self.committed is None:
            # Whatever auto.offset.reset is, there is nothing to read in an empty log.
            is_empty = self.log.start == self.log.end
            return LagStatus.KNOWN if is_empty else LagStatus.NOTHING_COMMITTED
        if self.committed < self.log.start:
            return LagStatus.BEFORE_START
        if self.committed > self.log.end:
            return LagStatus.BEYOND_END
        return LagStatus.KNOWN

    @property
    def is_out_of_range(self) -> bool:
        """Whether the committed offset is outside of the log."""
        return self.status in (LagStatus.BEFORE_START, LagStatus.BEYOND_END)

    @property
    def lag_limit(self) -> int | None:
        """The largest lag that is possible: with auto.offset.reset=earliest where the lag is not known."""
        if self.log is None or self.is_decision:
            return None
        return self.log.end - self.log.start if self.lag is None else self.lag


@dataclass(frozen=True, slots=True)
class TotalLag:
    """The lag of several partitions."""

    known: int  # the sum over those whose lag is known
    unknown: int  # the number of those whose lag is not known
    limit: int | None  # the largest sum that is possible; None where a log is not known
    counted: int  # the number of partitions, but for decisions of a sink
    is_complete: bool = True  # whether all partitions are known that the group is to read

    @property
    def lag(self) -> int | None:
        """The sum over all of them; None if it is not known, or if there is no partition to read."""
        return self.known if self.counted and not self.unknown and self.is_complete else None


def partition_lags(
    *,
    committed: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogRange],
    subscribed: Iterable[TopicPartition] = (),
    owners: Mapping[TopicPartition, str] | None = None,
    decisions: Collection[TopicPartition] = (),
) -> list[PartitionLag]:
    """Every partition that a group has committed, owns or is subscribed to, in order.

    `subscribed` has all partitions of the subscribed topics, `logs` those whose start and end are known, and
    `decisions` those whose committed offset is none (see `klamm.groups.sinks`).
    """
    owned = owners or {}
    return [
        PartitionLag(key, committed.get(key), logs.get(key), owned.get(key), key in decisions)
        for key in sorted({*committed, *owned, *subscribed})
    ]


def total_lag(rows: Sequence[PartitionLag], *, is_complete: bool = True) -> TotalLag:
    """The sum, which is not known if a part of it is not.

    Rows are not complete during a rebalance, when a cluster does not tell what the members subscribe to.
    """
    counted = [row for row in rows if not row.is_decision]
    limits = [row.lag_limit for row in counted]
    known_limits = [limit for limit in limits if limit is not None]
    return TotalLag(
        known=sum(row.lag for row in counted if row.lag is not None),
        unknown=sum(row.lag is None for row in counted),
        limit=sum(known_limits) if is_complete and len(known_limits) == len(counted) else None,
        counted=len(counted),
        is_complete=is_complete,
    )
