"""Who sends a heartbeat: a new member, a known one, or a static member in place of its former id."""

from __future__ import annotations

from typing import NamedTuple

from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import is_away
from klamm.coordinator.group.consumer.reconciliation import Owned, is_within
from klamm.coordinator.group.consumer.remembered import CurrentValue
from klamm.coordinator.group.consumer.validation import JOIN, refused_heartbeat
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class Holder(NamedTuple):
    """The id under which the group knows the member."""

    member_id: str
    is_replaced: bool = False  # by the one of the request


def find_member(
    draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Owned | None
) -> Holder | ConsumerGroupHeartbeatResponse:
    """The member, or why it may not go on. Checks in Kafka's order."""
    memory, instance_id = draft.memory, request.instance_id
    known_id = None if instance_id is None else memory.instances.get(instance_id)
    if member_id not in memory.members and known_id is None:
        if request.member_epoch != JOIN:
            return unknown_member(draft.group_id, member_id)
        if len(memory.members) >= draft.state.config.group_consumer_max_size:
            message = (
                "The consumer group has reached its maximum capacity of "
                f"{draft.state.config.group_consumer_max_size} members."
            )
            return refused_heartbeat(ErrorCode.group_max_size_reached, message)
        return Holder(member_id)
    if instance_id is not None:
        if known_id is None:
            return (
                Holder(member_id)
                if request.member_epoch == JOIN
                else unknown_member(draft.group_id, member_id)
            )
        if known_id != member_id:
            return _other_instance(draft, request, known_id)
    if request.member_epoch == JOIN:
        return Holder(member_id)
    refusal = epoch_refusal(memory.current.get(member_id), request, owned)
    return refusal or Holder(member_id)


def _other_instance(
    draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest, known_id: str
) -> Holder | ConsumerGroupHeartbeatResponse:
    memory, instance_id = draft.memory, request.instance_id
    if request.member_epoch != JOIN:
        return fenced_instance(request.member_id, instance_id)
    if is_away(memory.current.get(known_id)) or memory.members[known_id].classic is not None:
        return Holder(known_id, is_replaced=True)
    message = (
        f"Static member {request.member_id} with instance id {instance_id} cannot join the group because the "
        f"instance id is owned by {known_id}."
    )
    return refused_heartbeat(ErrorCode.unreleased_instance_id, message)


def epoch_refusal(
    current: CurrentValue | None, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
) -> ConsumerGroupHeartbeatResponse | None:
    """Why an epoch above 0 does not count. The one before does: the answer with this one may be lost."""
    epoch = request.member_epoch
    known = 0 if current is None else current.epoch
    if epoch == known:
        return None
    if epoch > known:
        message = (
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}). The member must abandon all its partitions and rejoin."
        )
        return refused_heartbeat(ErrorCode.fenced_member_epoch, message)
    assert current is not None
    if epoch == current.previous_epoch and owned is not None and is_within(owned, current.assigned):
        return None
    message = (
        f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin."
    )
    return refused_heartbeat(ErrorCode.fenced_member_epoch, message)


def unknown_member(group_id: str, member_id: str) -> ConsumerGroupHeartbeatResponse:
    message = f"Member {member_id} is not a member of group {group_id}."
    return refused_heartbeat(ErrorCode.unknown_member_id, message)


def fenced_instance(member_id: str, instance_id: str | None) -> ConsumerGroupHeartbeatResponse:
    message = f"Static member {member_id} with instance id {instance_id} was fenced."
    return refused_heartbeat(ErrorCode.fenced_instance_id, message)
