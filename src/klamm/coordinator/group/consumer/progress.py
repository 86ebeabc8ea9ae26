"""What a member's request does for its group: the epoch may rise, the target follow, the member go on."""

from __future__ import annotations

from typing import Final

from klamm.assignors.server import AssignorFailure
from klamm.coordinator.group.consumer.assigning import assign
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.reconciliation import Goal, Owned, next_current
from klamm.coordinator.group.consumer.remembered import (
    CurrentValue,
    MemberValue,
    Partitions,
    ReconciliationState,
)
from klamm.coordinator.group.consumer.resolving import begin_resolving
from klamm.coordinator.group.consumer.static_members import Holder
from klamm.coordinator.group.events import GroupEventCause

NEW_MEMBER: Final = CurrentValue(0, -1)


def progress(
    draft: ConsumerDraft, holder: Holder, member_id: str, member: MemberValue, owned: Owned | None
) -> CurrentValue | AssignorFailure:
    """Where the member is after it has described itself and reported what it owns."""
    memory = draft.memory
    before = memory.members.get(holder.member_id) or MemberValue()
    if holder.is_replaced:
        draft.erase(holder.member_id)
        draft.heirs[member_id] = holder.member_id
        draft.close_sessions([holder.member_id])
    draft.update(member_id, member)
    if before.regex != member.regex or _had_another_place(draft, member_id):
        draft.forget_unused_regexes()
    is_resubscribed = member.topics != before.topics or member.regex != before.regex
    _follow(draft, before, member, member_id)
    target_before = memory.targets.get(holder.member_id, {})
    if draft.epoch > draft.target_epoch:
        failure = assign(draft)
        if isinstance(failure, AssignorFailure):
            return failure
    begin_resolving(draft)
    target = draft.targets[member_id] if draft.targets else target_before
    if holder.is_replaced and not draft.targets and target != memory.targets.get(member_id, {}):
        draft.inherit(member_id, target)
    return _reconciled(draft, holder, member_id, member, target, owned, is_resubscribed)


def _had_another_place(draft: ConsumerDraft, member_id: str) -> bool:
    """Whether a member, under the id that it has, takes the place of a static member."""
    return member_id in draft.heirs and member_id in draft.memory.members


def _follow(draft: ConsumerDraft, before: MemberValue, member: MemberValue, member_id: str) -> None:
    """The group's epoch rises once, if the subscription or the topics are others."""
    if draft.memory.epoch == 0:
        cause = GroupEventCause.MEMBER_JOINED
    elif member.topics != before.topics or (
        member.regex != before.regex and (not member.regex or member.regex in draft.memory.regexes)
    ):
        is_new = member_id not in draft.memory.members and not draft.heirs
        cause = GroupEventCause.MEMBER_JOINED if is_new else GroupEventCause.SUBSCRIPTION_CHANGED
    elif _had_another_place(draft, member_id):  # whose partitions have no reader now
        cause = GroupEventCause.SUBSCRIPTION_CHANGED
    elif draft.is_upgrade:  # its leader may have left something unassigned for the next rebalance
        cause = GroupEventCause.CONSUMER_JOINED
    elif draft.have_topics_changed():
        cause, member_id = GroupEventCause.TOPICS_CHANGED, ""
    else:
        return
    draft.bump(cause, member_id)


def _reconciled(
    draft: ConsumerDraft,
    holder: Holder,
    member_id: str,
    member: MemberValue,
    target: Partitions,
    owned: Owned | None,
    is_resubscribed: bool,
) -> CurrentValue:
    """The member's next step; written if it differs."""
    memory, directory = draft.memory, draft.state.topics
    before = memory.current.get(holder.member_id, NEW_MEMBER)
    if holder.is_replaced:
        before = before._replace(epoch=0, previous_epoch=0)
    is_at_target = before.state == ReconciliationState.STABLE and before.epoch == draft.target_epoch
    if is_at_target and not is_resubscribed:
        return before
    topics = memory.topics_of(member)
    own = {member_id, holder.member_id}

    def is_read(topic_id: bytes) -> bool:
        known = None if directory is None else directory.by_id(topic_id)
        return known is not None and known.name in topics

    def is_free(topic_id: bytes, partition: int) -> bool:
        owner = memory.owners.get(topic_id, {}).get(partition)
        return owner is None or owner in own

    current = next_current(before, Goal(target, draft.target_epoch, is_read, is_free), owned)
    if holder.is_replaced or current != memory.current.get(member_id):
        draft.grant(member_id, current)
    return current
