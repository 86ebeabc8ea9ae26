"""Groups step by step: each time a coordinator wrote one, what had changed since the time before.

All records of a group are in one partition of the log, in order. So one pass over the partition knows, at
each record, the step before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from klamm.spark.decode.record_tables import NamedRow, Row
from klamm.spark.decode.rows import LogPlace

Owned = tuple[str, int]  # topic and partition


@dataclass(slots=True, kw_only=True)
class GroupStep:
    """A group as one record left it: a generation, an epoch, or nothing."""

    place: LogPlace
    generation: int | None
    member_count: int
    is_tombstone: bool
    # Of the classic protocol. A static member keeps its instance id over restarts: that is its name.
    ids: frozenset[str] = frozenset()
    subscriptions: frozenset[tuple[str, ...]] = frozenset()
    leader: str | None = None
    protocol: str | None = None
    owners: dict[Owned, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Standing:
    """What the last record about a group says."""

    group_type: str
    generation: int | None
    member_count: int | None
    since_us: int
    is_tombstone: bool


@dataclass(slots=True)
class _ConsumerGroup:
    """A group with the consumer protocol: what has changed since its last epoch."""

    members: dict[str, Row] = field(default_factory=dict)
    member_count: int = 0
    joined: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    is_resubscribed: bool = False
    change: int = 0
    before: GroupStep | None = None


class GroupSteps:
    """The groups of one partition of the log. Records come in order."""

    def __init__(self, log_partition: int) -> None:
        self._log_partition = log_partition
        self._before: dict[str, GroupStep] = {}
        self._consumer: dict[str, _ConsumerGroup] = {}
        self.standings: dict[str, Standing] = {}

    def add(self, place: LogPlace, rows: Sequence[NamedRow]) -> Iterator[NamedRow]:
        """Rows of `rebalances`, without their causes, of `stickiness` and of `assignments`."""
        table, row = rows[0]
        if table == "group_registrations":
            yield from self._registered(
                place, row, [member for name, member in rows if name == "group_members"]
            )
        elif table == "consumer_members":
            self._member(row)
        elif table == "consumer_groups" and row["kind"] == "group":
            yield from self._epoch(place, row)

    def _registered(self, place: LogPlace, row: Row, members: Sequence[Row]) -> Iterator[NamedRow]:
        group_id = row["group_id"]
        step = _classic_step(place, row, members)
        before_any = self._before.get(group_id)
        self._before[group_id] = step
        self.standings[group_id] = Standing(
            group_type="classic",
            generation=step.generation,
            member_count=row["member_count"],
            since_us=place.time_us if row["state_ts"] is None else row["state_ts"],
            is_tombstone=step.is_tombstone,
        )
        yield from _assignments(group_id, members)
        if step.is_tombstone:
            return
        before = None if before_any is None or before_any.is_tombstone else before_any
        if before is None:
            # Kafka writes a new group before a member has joined: that is not a rebalance.
            is_rebalance = step.member_count > 0
        else:
            is_rebalance = (step.generation, step.member_count, step.ids) != (
                before.generation,
                before.member_count,
                before.ids,
            )
        if not is_rebalance:
            return
        earlier = before or GroupStep(place=place, generation=None, member_count=0, is_tombstone=True)
        yield (
            "rebalances",
            {
                **self._rebalance(group_id, "classic", before, step),
                "joined": sorted(step.ids - earlier.ids),
                "left": sorted(earlier.ids - step.ids),
                "leader_changed": step.leader != earlier.leader,
                "protocol_changed": step.protocol != earlier.protocol,
                "subscriptions_changed": before is None or step.subscriptions != before.subscriptions,
            },
        )
        if before is not None and before.member_count and step.member_count:
            yield from _stickiness(group_id, before, step)

    def _member(self, row: Row) -> None:
        group = self._consumer.setdefault(row["group_id"], _ConsumerGroup())
        member_id, is_there = row["member_id"], not row["is_tombstone"]
        before = group.members.get(member_id)
        was_there = before is not None and not before["is_tombstone"]
        if is_there and not was_there:
            group.change += 1
            group.joined.add(member_id)
        elif was_there and not is_there:
            group.change -= 1
            group.left.add(member_id)
        elif before is not None and is_there:
            subscribed = ("subscribed_topics", "subscribed_regex")
            group.is_resubscribed |= any(row[name] != before[name] for name in subscribed)
        group.members[member_id] = row

    def _epoch(self, place: LogPlace, row: Row) -> Iterator[NamedRow]:
        """Records of members that joined or left come before that of the epoch which they made necessary."""
        group_id = row["group_id"]
        group = self._consumer.setdefault(group_id, _ConsumerGroup())
        group.member_count += group.change
        step = GroupStep(
            place=place,
            generation=row["epoch"],
            member_count=group.member_count,
            is_tombstone=row["is_tombstone"],
        )
        before = None if group.before is None or group.before.is_tombstone else group.before
        self.standings[group_id] = Standing(
            group_type="consumer",
            generation=step.generation,
            member_count=step.member_count,
            since_us=place.time_us,
            is_tombstone=step.is_tombstone,
        )
        is_rebalance = step.member_count > 0 if before is None else step.generation != before.generation
        if is_rebalance and not step.is_tombstone:
            yield (
                "rebalances",
                {
                    **self._rebalance(group_id, "consumer", before, step),
                    "joined": sorted(group.joined),
                    "left": sorted(group.left),
                    "leader_changed": False,
                    "protocol_changed": False,
                    "subscriptions_changed": group.is_resubscribed,
                },
            )
        group.before = step
        group.change, group.joined, group.left, group.is_resubscribed = 0, set(), set(), False

    def _rebalance(self, group_id: str, group_type: str, before: GroupStep | None, step: GroupStep) -> Row:
        assert step.generation is not None
        gap = 0
        if before is not None and before.generation is not None:
            gap = step.generation - before.generation
        return {
            "group_id": group_id,
            "group_type": group_type,
            "from_generation": before and before.generation,
            "to_generation": step.generation,
            "at": step.place.time_us,
            "since_previous_ms": before and _ms(step.place.time_us) - _ms(before.place.time_us),
            "members_before": before.member_count if before else 0,
            "members_after": step.member_count,
            "is_gap": gap > 1,
            "log_partition": self._log_partition,
            "log_offset": step.place.log_offset,
            "from_log_offset": before and before.place.log_offset,
        }


def _ms(time_us: int) -> int:
    return time_us // 1000


def _classic_step(place: LogPlace, row: Row, members: Sequence[Row]) -> GroupStep:
    if row["is_tombstone"]:
        return GroupStep(place=place, generation=None, member_count=0, is_tombstone=True)
    return GroupStep(
        place=place,
        generation=row["generation"],
        member_count=row["member_count"],
        is_tombstone=False,
        ids=frozenset(_name(member) for member in members),
        subscriptions=frozenset(
            tuple(sorted(member["subscribed_topics"]))
            for member in members
            if member["subscribed_topics"] is not None
        ),
        leader=row["leader"],
        protocol=row["protocol"],
        owners={
            (item["topic"], item["partition"]): _name(member)
            for member in members
            for item in member["assigned"] or ()
        },
    )


def _name(member: Row) -> str:
    found: str = member["member_id"] if member["instance_id"] is None else member["instance_id"]
    return found


def _assignments(group_id: str, members: Sequence[Row]) -> Iterator[NamedRow]:
    for member in members:
        for item in member["assigned"] or ():
            yield (
                "assignments",
                {
                    "group_id": group_id,
                    "generation": member["generation"],
                    **item,
                    "member_id": member["member_id"],
                    "client_id": member["client_id"],
                },
            )


def _stickiness(group_id: str, before: GroupStep, step: GroupStep) -> Iterator[NamedRow]:
    """How many partitions stayed where they were, and how many of the moves could not be avoided.

    A move is forced if the old owner has left, or had more than its share of the new generation.
    """
    if not before.owners and not step.owners:
        return
    held: dict[str, int] = {}
    moved: dict[str, int] = {}
    common = 0
    for partition, old in before.owners.items():
        new = step.owners.get(partition)
        if new is None:
            continue
        common += 1
        held[old] = held.get(old, 0) + 1
        if new != old:
            moved[old] = moved.get(old, 0) + 1
    share = -(-len(step.owners) // step.member_count)
    forced = sum(
        min(count, max(0, held[owner] - share)) if owner in step.ids else count
        for owner, count in moved.items()
    )
    all_moved = sum(moved.values())
    row: dict[str, Any] = {
        "group_id": group_id,
        "from_generation": before.generation,
        "to_generation": step.generation,
        "at": step.place.time_us,
        "common": common,
        "kept": common - all_moved,
        "moved": all_moved,
        "added": len(step.owners) - common,
        "removed": len(before.owners) - common,
        "stickiness": (common - all_moved) / common if common else None,
        "forced_moves": forced,
        "excess_moves": all_moved - forced,
    }
    yield "stickiness", row
