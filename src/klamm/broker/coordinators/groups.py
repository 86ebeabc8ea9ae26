"""The group coordinator in this broker: its topic, its settings, and what is counted about groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.coordinators.host import LOADING_PATIENCE_MS, CoordinatorHost
from klamm.broker.coordinators.topic import CoordinatorTopic
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.events import GroupEventCause, OffsetsRemoved, RebalanceCompleted
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.topics import KnownTopic

if TYPE_CHECKING:
    from random import Random

    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.net.context import ParkedResponse, RequestContext
    from klamm.broker.partitions.markers import TransactionMarker
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.coordinator.runtime.events import Event
    from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from klamm.storage.cluster import TopicState

IDS_AT_ONCE: Final = 64
_VERSION: Final = bytes(value & 0x0F | 0x40 for value in range(256))  # of a UUID: what a byte of it becomes
_VARIANT: Final = bytes(value & 0x3F | 0x80 for value in range(256))


class _Topics:
    """The cluster's topics for the coordinator."""

    def __init__(self, services: Services) -> None:
        self._image = services.image
        self._follower = services.follower
        self._last: tuple[TopicState | None, KnownTopic | None] = (None, None)  # mostly asked for again

    def are_complete(self) -> bool:
        # The change that makes this broker a shard's leader comes after those that created its topics.
        return not self._follower.is_applying

    def by_name(self, name: str) -> KnownTopic | None:
        return self._known(self._image.topic(name))

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return self._known(self._image.topic_by_id(topic_id))

    def _known(self, topic: TopicState | None) -> KnownTopic | None:
        last, known = self._last
        if topic is not last:
            known = None if topic is None else KnownTopic(topic.name, topic.topic_id, len(topic.partitions))
            self._last = topic, known
        return known


class Groups(CoordinatorHost[GroupCoordinator]):
    """Runs the groups whose partitions this broker leads."""

    def __init__(self, services: Services) -> None:
        topic = CoordinatorTopic(services, OFFSETS_TOPIC)
        super().__init__(
            services.loop,
            services.clock,
            lambda host: GroupCoordinator(
                group_config(services.config),
                partition_count=topic.partition_count,
                topics=_Topics(services),
                host=host,
                loading_patience_ms=LOADING_PATIENCE_MS,
            ),
            events=services.events,
            grace_ms=services.grace_ms,
        )
        self.topic = topic
        self._fresh_ids = fresh_uuids(services.random)
        self.completed_rebalances = 0
        self.expired_offsets = 0
        services.follower.deletion_watchers.append(self._topics_deleted)
        services.markers.listeners[OFFSETS_TOPIC] = self._transaction_ended
        topic.attach(self)

    def join(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | ParkedResponse[JoinGroupResponse]:
        """As `ask_parked`, with an id for a member that has none."""
        return self.ask_parked(request, context, "" if request.member_id else next(self._fresh_ids))

    def tell(self, event: Event) -> None:
        if isinstance(event, RebalanceCompleted):
            self.completed_rebalances += 1
        elif isinstance(event, OffsetsRemoved) and event.cause == GroupEventCause.RETENTION_OVER:
            self.expired_offsets += event.count
        super().tell(event)

    def _transaction_ended(self, partition: Partition, marker: TransactionMarker, offset: int) -> None:
        """A marker was written to `__consumer_offsets`: pending offsets take effect or are dropped."""
        shard = self.shards.by_partition.get(partition.partition)
        if shard is not None and shard.epoch == partition.leader_epoch:
            ended = TransactionEnded(marker.producer_id, marker.is_commit)
            shard.on_written_by_others(ended, offset)

    def _topics_deleted(self, gone: Sequence[TopicState]) -> None:
        for topic in gone:
            self.coordinator.topic_deleted(topic.name, self.now())

    def stop(self) -> None:
        self.topic.stop()
        super().stop()


def group_config(config: BrokerConfig) -> GroupConfig:
    """The broker's settings that concern groups."""
    return GroupConfig(**{field.name: getattr(config, field.name) for field in fields(GroupConfig)})


def fresh_uuids(random: Random) -> Iterator[str]:
    """Random UUIDs (version 4) as text. Asking the system for random bytes costs more than all the rest."""
    while True:
        raw = bytearray(random.randbytes(16 * IDS_AT_ONCE))
        raw[6::16] = raw[6::16].translate(_VERSION)
        raw[8::16] = raw[8::16].translate(_VARIANT)
        digits = raw.hex()
        for at in range(0, len(digits), 32):
            yield (
                f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-{digits[at + 12 : at + 16]}"
                f"-{digits[at + 16 : at + 20]}-{digits[at + 20 : at + 32]}"
            )
