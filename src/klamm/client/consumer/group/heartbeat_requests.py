"""ConsumerGroupHeartbeat as a member sends it: what has changed since the last answer, or everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState, SubscriptionType
from klamm.errors import UnsupportedVersionError
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Granted: TypeAlias = Mapping[bytes, frozenset[int]]  # topic id -> partitions

OWN_ID_VERSION: Final = 1  # the first version in which members make their own id; 0 was a preview
JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2  # a static member, which keeps its partitions


class Told(NamedTuple):
    """What the coordinator knows of a member when it has answered."""

    names: tuple[str, ...] | None
    regex: str | None
    owned: Granted | None  # None: not told


def subscription_of(state: SubscriptionState, owned: Granted | None) -> Told:
    """What there is to tell."""
    with state.lock:
        if state.type is SubscriptionType.BROKER_PATTERN:
            return Told(None, state.broker_pattern, owned)
        return Told(tuple(sorted(state.topics)), None, owned)


def heartbeat(
    settings: ConsumerSettings, member_id: str, epoch: int, now: Told, before: Told | None
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that tells what differs from `before`; all of it where that is None."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=settings.group_id or "",
        member_id=member_id,
        member_epoch=epoch,
        instance_id=settings.group_instance_id,
        topic_partitions=None,
    )
    if before is None:
        request.rack_id = settings.client_rack or None
        request.rebalance_timeout_ms = settings.max_poll_interval_ms
        request.server_assignor = settings.remote_assignor
    if before is None or now.names != before.names:
        request.subscribed_topic_names = now.names
    if before is None or now.regex != before.regex:
        request.subscribed_topic_regex = now.regex
    if epoch == JOIN:
        request.topic_partitions = []
    elif now.owned is not None and (before is None or now.owned != before.owned):
        request.topic_partitions = [
            TopicPartitions(topic_id, sorted(partitions))
            for topic_id, partitions in sorted(now.owned.items())
        ]
    return request


def leaving(settings: ConsumerSettings, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    """The last heartbeat."""
    return ConsumerGroupHeartbeatRequest(
        group_id=settings.group_id or "",
        member_id=member_id,
        member_epoch=epoch,
        instance_id=settings.group_instance_id,
        topic_partitions=None,
    )


def check_version(version: int) -> None:
    """Refuse to speak to a broker that has only the preview of this protocol."""
    if version < OWN_ID_VERSION:
        raise UnsupportedVersionError(
            "the broker has only a preview of group.protocol=consumer: Apache Kafka has the protocol since "
            "4.0; use group.protocol=classic"
        )


def granted(response: ConsumerGroupHeartbeatResponse) -> Granted | None:
    """The assignment in a response: the whole of it, or None where it says nothing new."""
    if response.assignment is None:
        return None
    found: dict[bytes, frozenset[int]] = {}
    for topic in response.assignment.topic_partitions:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(topic.partitions)
    return found
