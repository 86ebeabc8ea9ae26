"""The target of a group: which assignor computes it, from what, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from klamm.assignors.server import (
    AssignorFailure,
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    PartitionView,
    TopicSpec,
    compute_target,
    is_quick,
)
from klamm.coordinator.group.consumer.computing import RETRY_MS, begin_computing
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.notes import TargetComputed
from klamm.coordinator.group.consumer.remembered import MemberValue
from klamm.coordinator.group.state import GroupState


def preferred_assignor(state: GroupState, members: Mapping[str, MemberValue]) -> GroupAssignor:
    """The one that most members ask for; of equals, and if none is asked for, the first in the settings."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    return max(state.assignors.values(), key=lambda assignor: votes[assignor.name])


def assign(draft: ConsumerDraft) -> AssignorFailure | None:
    """Compute the target for the group as it will be, unless that was done too recently.

    What may take long is begun, and enters the shard later as `computing.target_found`.
    """
    if not _is_due(draft):
        return None
    members = draft.members()
    assignor = preferred_assignor(draft.state, members)
    group = _spec(draft, members, assignor)
    if not is_quick(assignor, group):
        begin_computing(draft, assignor, group)
        return None
    target = compute_target(assignor, group)
    if isinstance(target, AssignorFailure):
        return target
    draft.retarget(target)
    draft.notes.append(TargetComputed(draft.group_id, draft.context.now_ms))
    return None


def _is_due(draft: ConsumerDraft) -> bool:
    live, now_ms = draft.live, draft.context.now_ms
    if live is None:
        return True
    if live.computing is not None:
        return False
    if now_ms < live.not_before_ms:
        draft.is_computing = True  # soon
        return False
    if live.failed_epoch == draft.epoch and now_ms < live.failed_at_ms + RETRY_MS:
        return False
    interval_ms = draft.state.consumer_settings(draft.group_id).assignment_interval_ms
    return live.assigned_at_ms is None or now_ms >= live.assigned_at_ms + interval_ms


def _spec(draft: ConsumerDraft, members: Mapping[str, MemberValue], assignor: GroupAssignor) -> GroupSpec:
    memory, directory = draft.memory, draft.state.topics
    topics: dict[bytes, TopicSpec] = {}
    ids: dict[str, bytes] = {}
    for name in draft.subscribed():
        known = None if directory is None else directory.by_name(name)
        if known is not None:
            assert directory is not None
            views: tuple[PartitionView, ...] = ()
            if assignor.uses_racks:
                views = tuple(directory.partition_views(name))
            ids[name] = known.topic_id
            topics[known.topic_id] = TopicSpec(
                name=name, partition_count=known.partition_count, partitions=views
            )
    subscriptions: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}  # equal for most members
    specs = {}
    for member_id, member in members.items():
        key = member.topics, member.regex
        subscription = subscriptions.get(key)
        if subscription is None:
            found = frozenset(ids[name] for name in memory.topics_of(member) if name in ids)
            subscription = subscriptions[key] = found
        specs[member_id] = MemberSpec(
            topics=subscription,
            target=memory.targets.get(draft.heirs.get(member_id, member_id), {}),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
    return GroupSpec(group_id=draft.group_id, members=specs, topics=topics)
