"""Expiry of offsets and groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from klamm.coordinator.group.events import GroupEvent, GroupEventCause, GroupRemoved, OffsetsRemoved
from klamm.coordinator.group.notes import GroupDropped
from klamm.coordinator.group.offsets.notes import OffsetExpiryQueued
from klamm.coordinator.group.offsets.signals import GroupExpiry, OffsetExpiryDue
from klamm.coordinator.group.offsets.tombstones import forget_members
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupRecord, OffsetForgotten
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import NO_ERROR
from klamm.records.layout import OffsetCommitValue

OFFSETS_AT_A_TIME: Final = 10_000  # checked in one turn, about ten milliseconds
GROUP_COST: Final = 20  # a group takes as long as this many offsets


def next_groups(state: GroupState, signal: OffsetExpiryDue, context: Context) -> GroupOutcome:
    """Go on with the pass over all groups, or begin one."""
    queue = state.expiry_queue or tuple(state.groups)
    cost = taken = 0
    for group_id in queue:
        taken += 1
        group = state.groups.get(group_id)
        if group is not None:
            cost += GROUP_COST + sum(map(len, group.memory.offsets.values()))
        if cost >= OFFSETS_AT_A_TIME:
            break
    rest = queue[taken:]
    wait_ms = 0 if rest else state.config.offsets_retention_check_interval_ms
    return Outcome(
        notes=(OffsetExpiryQueued(rest),),
        timers=((state.expiry_timer, context.now_ms + wait_ms),),
        then=[GroupExpiry(group_id) for group_id in queue[:taken]],
    )


def expire_group(state: GroupState, signal: GroupExpiry, context: Context) -> GroupOutcome:
    """Write tombstones for expired offsets; remove a group that has no other. The next pass finds the same
    again if the log rejects them."""
    group_id = signal.group_id
    group = state.groups.get(group_id)
    if group is None:
        return Outcome()
    expired = list(_expired(state, group, context.timestamp_ms))
    records: list[GroupRecord] = [
        OffsetForgotten(group_id, topic, partition) for topic, partition, _ in expired
    ]
    events: list[GroupEvent] = []
    if expired:
        last = max((committed for _, _, committed in expired), key=lambda each: each.commit_timestamp_ms)
        own_ms = last.expire_timestamp_ms - last.commit_timestamp_ms
        events.append(
            replace(
                offsets_removed(group_id, context, GroupEventCause.RETENTION_OVER, len(expired)),
                last_commit_age_ms=max(0, context.timestamp_ms - last.commit_timestamp_ms),
                retention_ms=(
                    state.config.offsets_retention_ms if last.expire_timestamp_ms == -1 else own_ms
                ),
            )
        )
    outcome: GroupOutcome = Outcome(records=records, events=events, is_divisible=True)
    membership = group.membership
    is_unused = len(expired) == sum(map(len, group.memory.offsets.values())) and not group.memory.pending
    if is_unused and membership.group_delete_error() is NO_ERROR:
        records += forget_members(group_id, group.memory)
        outcome.notes = (GroupDropped(group_id),)
        outcome.timers = [(timer, None) for timer in membership.timers()]
        events.append(
            GroupRemoved(
                group_id=group_id,
                timestamp_ms=context.timestamp_ms,
                cause=GroupEventCause.RETENTION_OVER,
                generation=membership.generation,
            )
        )
    return outcome


def _expired(
    state: GroupState, group: Group, timestamp_ms: int
) -> Iterator[tuple[str, int, OffsetCommitValue]]:
    expiry = group.membership.offset_expiry()
    if expiry is None:
        return
    since_ms, kept, counts_commits = expiry
    retention_ms = state.config.offsets_retention_ms
    for topic, table in group.memory.offsets.items():
        if topic in kept:
            continue
        for partition, (_, committed) in table.items():
            if committed.expire_timestamp_ms != -1:
                is_over = timestamp_ms >= committed.expire_timestamp_ms
            else:
                base_ms = committed.commit_timestamp_ms if since_ms is None else since_ms
                if counts_commits:
                    base_ms = max(base_ms, committed.commit_timestamp_ms)
                is_over = timestamp_ms - base_ms >= retention_ms
            if is_over and not (
                state.replaced(group, topic, partition) is not None
                or group.memory.is_pending(topic, partition)
            ):
                yield topic, partition, committed


def offsets_removed(group_id: str, context: Context, cause: GroupEventCause, count: int) -> OffsetsRemoved:
    """The event of removed offsets."""
    return OffsetsRemoved(group_id=group_id, timestamp_ms=context.timestamp_ms, cause=cause, count=count)
