"""A member of the classic protocol within a group of the consumer protocol."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership
from klamm.coordinator.group.consumer.remembered import ClassicPart, ConsumerMemory, ReconciliationState
from klamm.protocol.consumer_protocol import Subscription, decode_subscription
from klamm.protocol.errors import NO_ERROR, DecodeError, ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequestProtocol


def member_error(live: ConsumerGroupMembership, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether this is a member of the classic protocol, and its instance id belongs to it."""
    memory = live.memory
    if instance_id is not None:
        known_id = memory.instances.get(instance_id)
        if known_id is None:
            return ErrorCode.unknown_member_id
        if known_id != member_id:
            return ErrorCode.fenced_instance_id
    member = memory.members.get(member_id)
    return ErrorCode.unknown_member_id if member is None or member.classic is None else NO_ERROR


def must_rejoin(memory: ConsumerMemory, member_id: str) -> bool:
    """Whether a JoinGroup brings the member further: it has to, or can, go on to its target."""
    current = memory.current.get(member_id)
    if current is None or current.epoch < memory.target_epoch:
        return True
    if current.epoch < memory.epoch and all(each.classic is not None for each in memory.members.values()):
        return True  # there is no heartbeat of the other protocol that would ask for the next target
    if current.state == ReconciliationState.STABLE:
        return False
    if current.state != ReconciliationState.UNRELEASED:
        return True
    return not any(  # what it waits for is free by now
        partition not in current.assigned.get(topic_id, ()) and partition in memory.owners.get(topic_id, ())
        for topic_id, partitions in memory.targets.get(member_id, {}).items()
        for partition in partitions
    )


def classic_part(session_timeout_ms: int, protocols: Sequence[JoinGroupRequestProtocol]) -> ClassicPart:
    """What is remembered of a member besides what members of both protocols have."""
    return ClassicPart(session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in protocols))


def subscription_of(metadata: bytes) -> Subscription | None:
    """What a member tells the leader; None if it cannot be read."""
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return None
