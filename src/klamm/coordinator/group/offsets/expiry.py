"""Expiry of offsets and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.coordinator.group.events import GroupEvent, GroupEventCause, GroupRemoved, OffsetsRemoved
from klamm.coordinator.group.notes import GroupDropped, Note
from klamm.coordinator.group.offsets.notes import OffsetExpiryQueued
from klamm.coordinator.group.offsets.signals import OffsetExpiryDue, OffsetExpiryRefused
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupForgotten, GroupRecord, OffsetForgotten
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import NO_ERROR

OFFSETS_AT_A_TIME: Final = 10_000  # checked in one turn, about ten milliseconds


def expire(state: GroupState, signal: OffsetExpiryDue, context: Context) -> GroupOutcome:
    """Check the next groups: write tombstones for expired offsets, remove groups without any."""
    queue = state.expiry_queue or tuple(state.groups)
    records: list[GroupRecord] = []
    notes: list[Note] = []
    timers: list[TimerChange] = []
    events: list[GroupEvent] = []
    looked_at = taken = 0
    for group_id in queue:
        taken += 1
        group = state.groups.get(group_id)
        if group is None:
            continue
        count = sum(map(len, group.memory.offsets.values()))
        looked_at += 1 + count
        expired = list(_expired(state, group, context.timestamp_ms))
        records += [OffsetForgotten(group_id, topic, partition) for topic, partition in expired]
        if expired:
            events.append(offsets_removed(group_id, context, GroupEventCause.RETENTION_OVER, len(expired)))
        membership = group.membership
        is_unused = len(expired) == count and not group.memory.pending
        if is_unused and membership.group_delete_error() is NO_ERROR:
            if group.memory.registration is not None:
                records.append(GroupForgotten(group_id))
            notes.append(GroupDropped(group_id))
            timers += [(timer, None) for timer in membership.timers()]
            events.append(
                GroupRemoved(
                    group_id=group_id,
                    timestamp_ms=context.timestamp_ms,
                    cause=GroupEventCause.RETENTION_OVER,
                    generation=membership.generation,
                )
            )
        if looked_at >= OFFSETS_AT_A_TIME:
            break
    rest = queue[taken:]
    wait_ms = 0 if rest else state.config.offsets_retention_check_interval_ms
    timers.append((state.expiry_timer, context.now_ms + wait_ms))
    return Outcome(
        records=records,
        notes=[*notes, OffsetExpiryQueued(rest)],
        timers=timers,
        events=events,
        if_refused=OffsetExpiryRefused,
        is_divisible=True,
    )


def expiry_refused(state: GroupState, signal: OffsetExpiryRefused, context: Context) -> GroupOutcome:
    """Wait for the next pass, which finds the same offsets again."""
    next_ms = context.now_ms + state.config.offsets_retention_check_interval_ms
    return Outcome(notes=(OffsetExpiryQueued(()),), timers=((state.expiry_timer, next_ms),))


def _expired(state: GroupState, group: Group, timestamp_ms: int) -> Iterator[tuple[str, int]]:
    expiry = group.membership.offset_expiry()
    if expiry is None:
        return
    since_ms, kept = expiry
    retention_ms = state.config.offsets_retention_ms
    for topic, table in group.memory.offsets.items():
        if topic in kept:
            continue
        for partition, (_, committed) in table.items():
            if committed.expire_timestamp_ms != -1:
                is_over = timestamp_ms >= committed.expire_timestamp_ms
            else:
                base_ms = committed.commit_timestamp_ms if since_ms is None else since_ms
                is_over = timestamp_ms - base_ms >= retention_ms
            if is_over and not (
                state.replaced(group, topic, partition) is not None
                or group.memory.is_pending(topic, partition)
            ):
                yield topic, partition


def offsets_removed(group_id: str, context: Context, cause: GroupEventCause, count: int) -> OffsetsRemoved:
    """The event of removed offsets."""
    return OffsetsRemoved(group_id=group_id, timestamp_ms=context.timestamp_ms, cause=cause, count=count)
