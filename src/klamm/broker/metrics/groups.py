"""Metrics of groups, with Kafka's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from klamm.broker.metrics.exposition import Family, Kind
from klamm.coordinator.group.classic.membership import classic_membership
from klamm.coordinator.group.classic.phases import COMPLETING, PREPARING, Phase
from klamm.coordinator.group.membership import CLASSIC
from klamm.coordinator.group.remembered import OffsetForgotten, PendedBlock
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.records.layout import CommitBlock

if TYPE_CHECKING:
    from klamm.broker.coordinators.groups import Groups

_MANAGER: Final = "kafka_server_groupmetadatamanager_"
_COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"


@dataclass(slots=True)
class WaitingInGroups:
    """What waits in the group coordinator: Kafka's purgatories of rebalances and heartbeats."""

    rebalances: int = 0  # groups in a rebalance, each with a deadline
    sessions: int = 0  # members, and ids that were given out, each with a deadline
    joins: int = 0  # parked JoinGroups
    syncs: int = 0  # parked SyncGroups
    left_ms: dict[str, int] = field(default_factory=dict)  # by group, until those that are late are removed


def waiting_in_groups(groups: Groups) -> WaitingInGroups:
    """What waits now. Members are looked at one by one only in groups that rebalance."""
    found, now_ms = WaitingInGroups(), groups.now().now_ms
    for group in groups.coordinator.groups():
        found.sessions += group.membership.member_count
        live = classic_membership(group)
        if live is None:
            continue
        found.sessions += len(live.pending)
        if live.phase not in (PREPARING, COMPLETING):
            continue
        found.rebalances += 1
        found.joins += sum(member.parked_join is not None for member in live.members.values())
        found.syncs += sum(member.parked_sync is not None for member in live.members.values())
        timer = live.join_timer if live.phase is PREPARING else live.sync_timer
        if timer.due_at_ms is not None:
            found.left_ms[group.group_id] = max(0, timer.due_at_ms - now_ms)
    return found


def waiting_families(found: WaitingInGroups) -> Iterator[Family]:
    """The requests that are parked, and until when."""
    parked = Family("klamm_group_parked_requests", "gauge", "requests of members that wait for others")
    yield parked.add(found.joins, request="JoinGroup").add(found.syncs, request="SyncGroup")
    left = Family(
        "klamm_group_rebalance_deadline_seconds",
        "gauge",
        "of a rebalance under way: until members that are late are removed",
    )
    for group_id, left_ms in found.left_ms.items():
        left.add(left_ms / 1000, consumergroup=group_id)
    yield left


def group_families(groups: Groups) -> Iterator[Family]:
    """The metrics of this broker's groups; gauges are computed now."""
    states: Counter[str] = Counter()
    types: Counter[str] = Counter({CLASSIC: 0})
    members = offsets = 0
    for group in groups.coordinator.groups():
        membership = group.membership
        states[membership.state_name] += 1
        types[membership.group_type] += 1
        members += membership.member_count
        offsets += sum(map(len, group.memory.offsets.values()))
    yield _one(f"{_MANAGER}numgroups", states.total(), "groups")
    for phase in Phase:
        yield _one(
            f"{_MANAGER}numgroups{phase.value.lower()}", states[phase.value], f"groups that are {phase.value}"
        )
    yield _one(f"{_MANAGER}numoffsets", offsets, "committed offsets")
    count = Family(f"{_COORDINATOR}group_count", "gauge", "groups by protocol")
    for group_type, total in types.items():
        count.add(total, protocol=group_type)
    yield count

    written, expired = groups.coordinator.written, groups.expired_offsets
    deleted = written[OffsetForgotten] - expired
    for name, value, says in (
        ("offset_commit", written[CommitBlock] + written[PendedBlock], "offsets that were committed"),
        ("offset_expiration", expired, "offsets that were removed after their retention time"),
        ("offset_deletion", deleted, "offsets deleted, also with their group or topic"),
        ("group_completed_rebalance", groups.completed_rebalances, "completed rebalances"),
    ):
        yield _one(f"{_COORDINATOR}{name}_count", value, says, "counter")
    statuses = Counter(shard.status for shard in groups.shards)
    partitions = Family(f"{_COORDINATOR}num_partitions", "gauge", "partitions of __consumer_offsets loaded")
    for status in (ShardStatus.LOADING, ShardStatus.ACTIVE, ShardStatus.FAILED):
        partitions.add(statuses[status], state=status.value)
    yield partitions
    if groups.longest_load_ms is not None:
        yield _one(f"{_COORDINATOR}partition_load_time_max", groups.longest_load_ms, "milliseconds")

    yield _one("klamm_group_members", members, "members of all groups")


def _one(name: str, value: float, says: str, kind: Kind = "gauge") -> Family:
    return Family(name, kind, says).add(value)
