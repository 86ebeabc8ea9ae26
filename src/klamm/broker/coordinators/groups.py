"""The group coordinator in this broker: its topic, its settings, and what is counted about groups."""

from __future__ import annotations

import logging
from asyncio import Task
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from klamm.assignors.base import PartitionView
from klamm.broker.cluster.image import GROUP_VERSION
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.coordinators.computing import TargetComputing, with_lags
from klamm.broker.coordinators.host import LOADING_PATIENCE_MS, CoordinatorHost
from klamm.broker.coordinators.topic import CoordinatorTopic
from klamm.broker.net.context import ClientSoftware, RequestContext
from klamm.broker.security.permissions import DESCRIBE_TOPIC
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.regexes import resolved
from klamm.coordinator.group.consumer.settings import ConsumerGroupSettings
from klamm.coordinator.group.consumer.signals import ComputeTarget, ResolveRegexes, TargetFound
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.events import GroupEventCause, OffsetsRemoved, RebalanceCompleted
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.mixed.policy import MigrationPolicy
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.storage.cluster import ConfigResourceType

if TYPE_CHECKING:
    from random import Random

    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.partitions.markers import TransactionMarker
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.coordinator.group.tracing import GroupTracing
    from klamm.coordinator.runtime.events import Event
    from klamm.coordinator.runtime.shard import Shard
    from klamm.protocol.messages.trace_groups import TraceGroupsRequest, TraceGroupsResponse
    from klamm.storage.cluster import TopicState

_log = logging.getLogger(__name__)
TOPICS_AT_ONCE: Final = 2_000  # matched on the event loop: two milliseconds
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

    @property
    def version(self) -> int:
        return self._image.version

    def names(self) -> Iterable[str]:
        return tuple(self._image.topics)

    def partition_views(self, name: str) -> Sequence[PartitionView]:
        brokers = self._image.brokers
        racks = {each.broker_id: each.rack for each in brokers.values() if each.rack is not None}
        topic = self._image.topic(name)
        if topic is None or not racks:
            return ()
        return [
            PartitionView(
                frozenset(racks[replica] for replica in partition.replicas if replica in racks),
                racks.get(partition.leader_id),
            )
            for partition in topic.partitions
        ]

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
                soon=services.loop.call_soon,
                consumer_settings=GroupSettingsSource(services),
                is_consumer_enabled=lambda: services.image.features.levels.get(GROUP_VERSION, 0) > 0,
            ),
            events=services.events,
            grace_ms=services.grace_ms,
        )
        self._services = services
        self._computing = TargetComputing(services.loop, services.run_blocking)
        self._outside: set[Task[None]] = set()  # what shards have asked for
        self.topic = topic
        self.fresh_ids = fresh_uuids(services.random)
        self.tracing: GroupTracing | None = None  # None: no group has been traced
        self.completed_rebalances = 0
        self.expired_offsets = 0
        services.follower.deletion_watchers.append(self._topics_deleted)
        services.markers.listeners[OFFSETS_TOPIC] = self._transaction_ended
        topic.attach(self)

    def resign(self, partition: int, epoch: int) -> None:
        shard = self.shards.by_partition.get(partition)
        state = None if shard is None or not isinstance(shard.machine, GroupMachine) else shard.machine.state
        groups = [] if state is None else list(state.groups.values())
        began_ms = self._now_ms()
        super().resign(partition, epoch)
        if shard is not None and groups and shard.status is ShardStatus.CLOSED:
            offsets = sum(len(table) for group in groups for table in group.memory.offsets.values())
            _log.info(
                "%s is no longer served: unloaded %d groups with %d offsets in %d ms",
                shard.name,
                len(groups),
                offsets,
                self._now_ms() - began_ms,
            )

    def trace(self, request: TraceGroupsRequest) -> TraceGroupsResponse:
        """Trace groups for as long as a client asks for it."""
        if self.tracing is None:
            # Imported here: a broker whose groups are not traced starts without it.
            from klamm.coordinator.group.tracing import GroupTracing  # noqa: PLC0415

            clock = self._services.clock
            self.tracing = GroupTracing(
                self.coordinator, _Topics(self._services), clock.now_ms, clock.timestamp_ms
            )
        return self.tracing.read(request)

    def act(self, shard: Shard, action: object) -> None:
        if isinstance(action, ResolveRegexes):
            self._begin(self._resolve(shard, action))
        elif isinstance(action, ComputeTarget):
            self._begin(self._compute(shard, action))
        else:
            super().act(shard, action)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._outside.add(task)
        task.add_done_callback(self._outside.discard)

    async def _compute(self, shard: Shard, asked: ComputeTarget) -> None:
        """Compute a target; what an assignor does not return in time is a failure."""
        group = asked.group
        if asked.assignor.uses_lag and isinstance(shard.machine, GroupMachine):
            known = shard.machine.state.groups.get(asked.group_id)
            group = with_lags(group, None if known is None else known.memory, self._services.partitions)
        self.signal(shard, TargetFound(asked, await self._computing.compute(asked.assignor, group)))

    async def _resolve(self, shard: Shard, action: ResolveRegexes) -> None:
        """Match the topics that the client may describe; many of them in a thread."""
        services, asked_by = self._services, action.asked_by
        client = RequestContext(
            asked_by.client_id, asked_by.client_host, "", ClientSoftware(), asked_by.principal
        )
        names = [
            name for name in services.image.topics if services.authorizer.shows(client, DESCRIBE_TOPIC, name)
        ]
        version, timestamp_ms = services.image.version, services.clock.timestamp_ms()
        if len(names) * len(action.regexes) <= TOPICS_AT_ONCE:
            found = resolved(action, names, version, timestamp_ms)
        else:
            found = await services.run_blocking(resolved, action, names, version, timestamp_ms)
        self.signal(shard, found)

    def tell(self, event: Event) -> None:
        if isinstance(event, RebalanceCompleted):
            self.completed_rebalances += 1
        elif isinstance(event, OffsetsRemoved) and event.cause == GroupEventCause.RETENTION_OVER:
            self.expired_offsets += event.count
        if self.tracing is not None:
            self.tracing.happened(event)
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
        for task in self._outside:
            task.cancel()


class GroupSettingsSource:
    """The settings of each consumer group: its own, where it has some, or the broker's."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._config: BrokerConfig | None = None
        self._defaults = ConsumerGroupSettings()

    def __call__(self, group_id: str) -> ConsumerGroupSettings:
        services = self._services
        if services.config is not self._config:
            config = self._config = services.config
            self._defaults = ConsumerGroupSettings(
                config.group_consumer_session_timeout_ms,
                config.group_consumer_heartbeat_interval_ms,
                config.group_consumer_assignment_interval_ms,
                MigrationPolicy(config.group_consumer_migration_policy.lower()),
            )
        own = services.image.configs(ConfigResourceType.GROUP, group_id)
        if not own:
            return self._defaults
        defaults = self._defaults
        return ConsumerGroupSettings(
            int(own.get("consumer.session.timeout.ms", defaults.session_timeout_ms)),
            int(own.get("consumer.heartbeat.interval.ms", defaults.heartbeat_interval_ms)),
            int(own.get("consumer.assignment.interval.ms", defaults.assignment_interval_ms)),
            defaults.migration_policy,
        )


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
