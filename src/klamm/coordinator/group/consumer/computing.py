"""Targets that may take long: computed outside the shard, told to it as a signal.

Meanwhile the group goes on with its last target, and members that ask are told to come back soon. A target
for a group that has changed since is dropped if another can be there soon: when many join at once, each
target in between is one more to give partitions up for. When members have waited long it counts: a group
that changes faster than its assignor computes would have none otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.assignors.server import AssignorFailure, CheckedTarget, GroupAssignor, GroupSpec
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, consumer_membership
from klamm.coordinator.group.consumer.notes import ComputingBegun, ComputingEnded, TargetComputed
from klamm.coordinator.group.consumer.remembered import ConsumerMemory
from klamm.coordinator.group.consumer.signals import ComputeTarget, TargetFound, TargetRefused
from klamm.coordinator.group.events import AssignorFailed, GroupEventCause
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome

SOON_MS: Final = 200  # when members are to ask again for a target that is being computed, at the earliest
SOON_PER_MS: Final = 5  # and how many of one group in a millisecond
PATIENCE_MS: Final = 1_000  # after which a target for an older epoch counts; Kafka computes one in that time
PAUSES: Final = 4  # so many times as long as one that was dropped took, before the next is computed
MOST_PAUSE_MS: Final = SOON_MS
RETRY_MS: Final = 60_000  # after an assignor failed, unless the group changes before


def soon_ms(memory: ConsumerMemory, interval_ms: int) -> int:
    """When members are to ask again: thousands that do so five times a second are all a broker can serve."""
    return min(max(SOON_MS, len(memory.members) // SOON_PER_MS), interval_ms)


def begin_computing(draft: ConsumerDraft, assignor: GroupAssignor, group: GroupSpec) -> None:
    """Begin; the result is for the group as it is after this decision."""
    if not draft.target_epoch:
        # Nobody has a target yet, and members need an epoch above 0: that of an empty target, as in Kafka.
        draft.reached_target_epoch()
        draft.raise_epoch()
    asked = ComputeTarget(draft.group_id, draft.epoch, assignor, group)
    draft.notes.append(ComputingBegun(draft.group_id, asked, draft.context.now_ms))
    draft.actions.append(asked)
    draft.is_computing = True


def target_found(state: GroupState, signal: TargetFound, context: Context) -> GroupOutcome:
    """Take over a target: that of the group as it is now, or an older one if members have waited long."""
    asked, found = signal.asked, signal.found
    live = consumer_membership(state.groups.get(asked.group_id))
    if live is None or live.computing is not asked:
        return Outcome()  # the group was loaded again since
    memory, now_ms = live.memory, context.now_ms
    draft = ConsumerDraft(state, asked.group_id, context, memory, live)
    if isinstance(found, AssignorFailure):
        failed_epoch = asked.epoch if memory.epoch == asked.epoch else -1
        draft.notes.append(ComputingEnded(asked.group_id, now_ms, failed_epoch))
        draft.events.append(
            AssignorFailed(
                group_id=asked.group_id,
                timestamp_ms=context.timestamp_ms,
                cause=GroupEventCause.ASSIGNOR_FAILED,
                reason=found.reason,
                assignor=asked.assignor.name,
                generation=asked.epoch,
            )
        )
    elif _counts(live, asked, now_ms):
        draft.notes.append(ComputingEnded(asked.group_id, now_ms))
        draft.retarget(_of_members(memory, asked.group, found), asked.epoch)
        draft.notes.append(TargetComputed(asked.group_id, now_ms))
        draft.if_refused = partial(TargetRefused, asked.group_id)
    else:
        pause_ms = min(PAUSES * (now_ms - live.computing_since_ms), MOST_PAUSE_MS)
        draft.notes.append(ComputingEnded(asked.group_id, now_ms, not_before_ms=now_ms + pause_ms))
    return draft.outcome()


def _counts(live: ConsumerGroupMembership, asked: ComputeTarget, now_ms: int) -> bool:
    if live.memory.epoch == asked.epoch:
        return True
    if asked.epoch <= live.memory.target_epoch:  # the group was empty since, and has the target of that
        return False
    return live.waiting_since_ms is not None and now_ms >= live.waiting_since_ms + PATIENCE_MS


def _of_members(memory: ConsumerMemory, group: GroupSpec, found: CheckedTarget) -> CheckedTarget:
    """The target of those that are members now: some have gone since, or have another id as static members.

    Whoever came since has none, as in a group that computes a target only so often.
    """
    target: CheckedTarget = {member_id: {} for member_id in memory.targets}
    for member_id, share in found.items():
        instance_id = group.members[member_id].instance_id
        holder = member_id if instance_id is None else memory.instances.get(instance_id, member_id)
        if holder in memory.members:
            target[holder] = share
    return target


def target_refused(state: GroupState, signal: TargetRefused, context: Context) -> GroupOutcome:
    """The log rejected it: it is computed again at the next heartbeat."""
    if consumer_membership(state.groups.get(signal.group_id)) is None:
        return Outcome()
    return Outcome(notes=(ComputingEnded(signal.group_id, context.now_ms),))
