"""Targets that may take long: computed outside the shard, told to it as a signal.

Meanwhile the group goes on with its last target, and members that ask are told to come back soon.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.assignors.server import AssignorFailure, GroupAssignor, GroupSpec
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.consumer.notes import ComputingBegun, ComputingEnded, TargetComputed
from klamm.coordinator.group.consumer.signals import ComputeTarget, TargetFound, TargetRefused
from klamm.coordinator.group.events import AssignorFailed, GroupEventCause
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome

SOON_MS: Final = 200  # when members are to ask again for a target that is being computed
RETRY_MS: Final = 60_000  # after an assignor failed, unless the group changes before


def begin_computing(draft: ConsumerDraft, assignor: GroupAssignor, group: GroupSpec) -> None:
    """Begin; the result is for the group as it is after this decision."""
    if not draft.target_epoch:
        # Nobody has a target yet, and members need an epoch above 0: that of an empty target, as in Kafka.
        draft.reached_target_epoch()
        draft.raise_epoch()
    asked = ComputeTarget(draft.group_id, draft.epoch, assignor, group)
    draft.notes.append(ComputingBegun(draft.group_id, asked))
    draft.actions.append(asked)
    draft.is_computing = True


def target_found(state: GroupState, signal: TargetFound, context: Context) -> GroupOutcome:
    """Take over a target, if the group is still the one that it was computed for."""
    asked, found = signal.asked, signal.found
    live = consumer_membership(state.groups.get(asked.group_id))
    if live is None or live.computing is not asked:
        return Outcome()  # the group was loaded again since
    memory = live.memory
    is_current = memory.epoch == asked.epoch and memory.members.keys() == asked.group.members.keys()
    failed_epoch = asked.epoch if is_current and isinstance(found, AssignorFailure) else -1
    draft = ConsumerDraft(state, asked.group_id, context, memory, live)
    draft.notes.append(ComputingEnded(asked.group_id, context.now_ms, failed_epoch))
    if isinstance(found, AssignorFailure):
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
    elif is_current:
        draft.retarget(found)
        draft.notes.append(TargetComputed(asked.group_id, context.now_ms))
        draft.if_refused = partial(TargetRefused, asked.group_id)
    return draft.outcome()


def target_refused(state: GroupState, signal: TargetRefused, context: Context) -> GroupOutcome:
    """The log rejected it: it is computed again at the next heartbeat."""
    if consumer_membership(state.groups.get(signal.group_id)) is None:
        return Outcome()
    return Outcome(notes=(ComputingEnded(signal.group_id, context.now_ms),))
