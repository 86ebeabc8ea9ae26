"""What is known of one group at one moment, for `klamm.groups.diagnosis`.

Any cluster tells the state, the members, the committed offsets and the ends of the logs. Its log of commits
(`__consumer_offsets`) has their history, where it may be read. klamm alone records events and shows what a
rebalance waits for. None, everywhere: not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from klamm.groups.lag import PartitionLag
from klamm.protocol.types import TopicPartition


class Commit(NamedTuple):
    """An offset as it was committed."""

    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    """A transaction that one partition has open."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    transactional_id: str | None  # None: no coordinator has this producer
    started_at_ms: int | None = None  # as its coordinator says
    timeout_ms: int | None = None  # after which its coordinator aborts it


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSnapshot:
    """One partition that the group is to read."""

    row: PartitionLag
    is_subscribed: bool = True  # by a member of now; or nobody tells
    last_stable: int | None = None  # readers of committed records stop here
    ended_at_start: int | None = None  # where the log ended when the window began
    unread_since_ms: int | None = None  # timestamp of the first record that is not read
    commits: Sequence[Commit] = ()  # within the window, oldest first
    committed_at_ms: int | None = None  # when the committed offset was committed
    transactions: Sequence[PartitionTransaction] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """One member; what follows `gives_up` is shown by klamm only."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    gives_up: Sequence[TopicPartition] = ()  # in a consumer group: what it has and should not have
    give_up_left_ms: int | None = None  # until it is removed, unless it has given that up
    has_joined: bool | None = None  # its JoinGroup waits for the others
    has_synced: bool | None = None  # its SyncGroup waits for the leader, or it has its assignment
    silent_ms: int | None = None  # since its last heartbeat, commit or join
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceUnderWay:
    """The rebalance under way."""

    started_ms: int | None = None  # ago
    left_ms: int | None = None  # until those who have not joined are removed
    cause: str | None = None
    leader_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredGeneration:
    """A generation as the log of commits has it: registered by the leader's assignment, or empty."""

    timestamp_ms: int
    generation: int
    clients: frozenset[str]  # client ids of its members
    members: frozenset[str]  # their member ids


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """One group."""

    group_id: str
    state: str
    taken_at_ms: int  # wall clock
    window_ms: int  # how far the history goes back
    protocol_type: str = "consumer"
    protocol: str = ""
    coordinator_id: int = -1
    members: Sequence[MemberSnapshot] = ()
    partitions: Sequence[PartitionSnapshot] = ()
    are_owners_known: bool = True
    hidden_topics: Sequence[str] = ()  # that its members read, and that this user may not describe
    rebalance: RebalanceUnderWay | None = None
    generations: Sequence[RegisteredGeneration] = ()  # within the window, oldest first
    events: Sequence[Mapping[str, Any]] | None = None  # None: this cluster records none
    has_history: bool = False  # whether the log of commits was read
    retention_ms: int | None = None  # offsets.retention.minutes
    empty_since_ms: int | None = None  # when the last member left
    held_back: Mapping[TopicPartition, Sequence[str]] = field(default_factory=dict)  # other groups, there

    @property
    def is_rebalancing(self) -> bool:
        return self.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.is_rebalancing

    def client_of(self, member_id: str | None) -> str:
        """A member by the names that people know it by."""
        for member in self.members:
            if member.member_id == member_id:
                return f"{member.client_id} at {member.client_host.lstrip('/')}"
        return str(member_id)
