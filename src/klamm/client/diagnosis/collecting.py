"""Snapshots of groups: what `klamm.groups.diagnosis` judges, from any cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import GroupDescription, Resource
from klamm.client.admin.offsets import LATEST
from klamm.client.consumer.consumer import Consumer
from klamm.client.diagnosis.history import GroupHistory, OffsetsHistory, read_history
from klamm.client.diagnosis.inside import UNKNOWN, Inside, ask_inside, inside_of
from klamm.client.diagnosis.lag import GroupLag, lags_of
from klamm.client.diagnosis.reading import begin_at, events_since
from klamm.client.diagnosis.transactions import open_transactions, with_their_times
from klamm.client.diagnosis.unread import unread_since
from klamm.errors import BrokerError, KlammError
from klamm.groups.lag import PartitionLag, are_members_hidden
from klamm.groups.snapshot import (
    GroupSnapshot,
    MemberSnapshot,
    PartitionSnapshot,
    PartitionTransaction,
    RebalanceUnderWay,
)
from klamm.protocol.types import TopicPartition

_RETENTION: Final = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What the groups share."""

    now_ms: int
    window_ms: int
    stable: Mapping[TopicPartition, int]
    ended_at_start: Mapping[TopicPartition, int]
    transactions: Mapping[TopicPartition, Sequence[PartitionTransaction]]
    unread_ms: Mapping[TopicPartition, Mapping[int, int]]  # timestamps of first unread records, by offset
    history: OffsetsHistory | None
    events: Mapping[str, list[Mapping[str, Any]]] | None
    retention_ms: int | None
    inside: Mapping[str, Inside]  # by group; without those whose coordinator does not show it
    waiting_at: Mapping[tuple[TopicPartition, int], Sequence[str]]  # groups by partition and committed offset


def snapshots(
    admin: Admin,
    reader: Consumer,
    groups: Sequence[GroupDescription],
    *,
    now_ms: int,
    window_ms: int,
    timeout: float,
) -> list[GroupSnapshot]:
    """The groups as they are now, with what is known of the time before. Raises KlammError."""
    asked = ask_inside(admin, [group.group_id for group in groups])
    lags = lags_of(admin, groups)
    logs = {row.partition: row.log for lag in lags for row in lag.partitions if row.log is not None}
    partitions = sorted(logs)
    stable = _offsets(admin, partitions)
    behind = [key for key in partitions if key in stable and stable[key] < logs[key].end]
    transactions = defaultdict(list)
    for item in with_their_times(admin, open_transactions(admin, behind)):
        transactions[item.partition].append(item)
    waiting: defaultdict[tuple[TopicPartition, int], list[str]] = defaultdict(list)
    for lag in lags:
        for row in lag.partitions:
            if row.committed is not None and row.lag:
                waiting[row.partition, row.committed].append(lag.group.group_id)
    since_ms = now_ms - window_ms
    ends = {key: log.end for key, log in logs.items()}
    found = _Found(
        now_ms=now_ms,
        window_ms=window_ms,
        stable=stable,
        ended_at_start=begin_at(admin, ends, since_ms) if ends else {},
        transactions=transactions,
        unread_ms=unread_since(reader, waiting, ends, min(timeout, 2.0)),
        history=_history(admin, reader, groups, since_ms, timeout),
        events=_events(admin, reader, since_ms, timeout),
        retention_ms=_retention_ms(admin, groups),
        inside=inside_of(asked),
        waiting_at=waiting,
    )
    return [_snapshot(lag, found) for lag in lags]


def _offsets(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where readers of committed records stop, as far as the leaders tell."""
    wanted = dict.fromkeys(partitions, LATEST)
    if not wanted:
        return {}
    listed = admin.list_offsets(wanted, read_committed=True, raise_errors=False)
    return {key: item.offset for key, item in listed.successes.items()}


def _history(
    admin: Admin, reader: Consumer, groups: Sequence[GroupDescription], since_ms: int, timeout: float
) -> OffsetsHistory | None:
    try:
        return read_history(admin, reader, [group.group_id for group in groups], since_ms, timeout)
    except BrokerError:
        return None  # this user may not read the topic


def _events(
    admin: Admin, reader: Consumer, since_ms: int, timeout: float
) -> dict[str, list[Mapping[str, Any]]] | None:
    try:
        found = events_since(admin, reader, since_ms, timeout)
    except BrokerError:
        return None
    if found is None:
        return None
    by_group: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in found:
        if "group_id" in event:
            by_group[event["group_id"]].append(event)
    for events in by_group.values():
        events.sort(key=lambda event: int(event["timestamp_ms"]))
    return by_group


def _retention_ms(admin: Admin, groups: Sequence[GroupDescription]) -> int | None:
    """For how long a coordinator keeps the offsets of an empty group; asked for only if there is one."""
    empty = next((group for group in groups if not group.members), None)
    if empty is None:
        return None
    try:
        found = admin.describe_configs(Resource.BROKER, empty.coordinator_id, keys=[_RETENTION])
        (settings,) = found.values()
        value = settings[_RETENTION].value
    except (KlammError, KeyError):
        return None  # this user may not see settings
    return None if value is None else int(value) * 60_000


def _snapshot(lag: GroupLag, found: _Found) -> GroupSnapshot:
    group = lag.group
    history = None if found.history is None else found.history.groups.get(group.group_id, GroupHistory())
    events = None if found.events is None else found.events.get(group.group_id, [])
    generations = [] if history is None else history.generations
    empty_since_ms = None
    if generations and not generations[-1].members and not group.members:
        empty_since_ms = generations[-1].timestamp_ms
    inside = found.inside.get(group.group_id, UNKNOWN)
    if inside.empty_since_ms is not None:
        empty_since_ms = inside.empty_since_ms
    window_ms = found.window_ms
    if found.history is not None:
        window_ms = found.now_ms - found.history.since_ms
    since_ms = found.now_ms - window_ms
    subscribed = {topic for member in group.members for topic in member.subscribed_topics or ()}
    if are_members_hidden(group.state):
        subscribed = {row.partition.topic for row in lag.partitions}
    partitions = [
        _partition(row, row.partition.topic in subscribed, history, inside, found, since_ms)
        for row in lag.partitions
    ]
    held_back = {
        key: [name for name in found.waiting_at.get((key, found.stable[key]), ()) if name != group.group_id]
        for key in found.transactions
        if key in found.stable
    }
    return GroupSnapshot(
        group_id=group.group_id,
        state=group.state,
        taken_at_ms=found.now_ms,
        window_ms=window_ms,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        coordinator_id=group.coordinator_id,
        members=[
            MemberSnapshot(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                group_instance_id=member.group_instance_id,
                gives_up=sorted(set(member.assignment or ()) - set(member.target))
                if member.target is not None
                else (),
                **inside.members.get(member.member_id, {}),
            )
            for member in group.members
        ],
        partitions=partitions,
        are_owners_known=lag.are_owners_known,
        hidden_topics=tuple(lag.hidden),
        rebalance=inside.rebalance or _rebalance(group, events, found.now_ms),
        generations=[each for each in generations if each.timestamp_ms >= since_ms],
        events=events,
        has_history=history is not None,
        retention_ms=found.retention_ms,
        empty_since_ms=empty_since_ms,
        held_back=held_back,
    )


def _partition(
    row: PartitionLag,
    is_subscribed: bool,
    history: GroupHistory | None,
    inside: Inside,
    found: _Found,
    since_ms: int,
) -> PartitionSnapshot:
    key = row.partition
    commits = [] if history is None else history.commits.get(key, [])
    at_ms = _committed_at_ms(row.committed, commits)
    return PartitionSnapshot(
        row=row,
        is_subscribed=is_subscribed,
        last_stable=found.stable.get(key),
        ended_at_start=found.ended_at_start.get(key),
        unread_since_ms=found.unread_ms.get(key, {}).get(-1 if row.committed is None else row.committed),
        commits=[commit for commit in commits if commit.timestamp_ms >= since_ms],
        committed_at_ms=inside.committed_at_ms.get((key, row.committed)) if at_ms is None else at_ms,
        transactions=found.transactions.get(key, ()),
    )


def _committed_at_ms(committed: int | None, commits: Sequence[Any]) -> int | None:
    """When the offset of now was committed; None if the history has another one last."""
    if committed is None or not commits or commits[-1].offset != committed:
        return None
    return int(commits[-1].timestamp_ms)


def _rebalance(
    group: GroupDescription, events: Sequence[Mapping[str, Any]] | None, now_ms: int
) -> RebalanceUnderWay | None:
    """The rebalance under way, as far as the events tell."""
    if not are_members_hidden(group.state):
        return None
    for event in reversed(events or ()):
        if event.get("type") == "rebalance_started":
            cause = str(event.get("cause"))
            who = event.get("client_id") or event.get("member_id")
            return RebalanceUnderWay(
                started_ms=max(0, now_ms - int(event["timestamp_ms"])),
                cause=f"{cause} ({who})" if who else cause,
            )
        if event.get("type") in ("rebalance_completed", "group_emptied"):
            break
    return RebalanceUnderWay()
