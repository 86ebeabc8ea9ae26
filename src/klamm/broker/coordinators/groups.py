"""The group coordinator at work in this broker: shards on partition logs, time, answers, events."""

from __future__ import annotations

import logging
from asyncio import Task, TimerHandle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.coordinators.events import EventWriter
from klamm.broker.coordinators.logs import PartitionCoordinatorLog
from klamm.broker.net.context import Parked, Promise, RequestContext
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.events import Cause, OffsetsRemoved, RebalanceCompleted
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, Status
from klamm.protocol.errors import NO_ERROR
from klamm.protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from random import Random

    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.partitions.markers import TransactionMarker
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.coordinator.group.events import GroupEvent
    from klamm.coordinator.group.state import Group
    from klamm.storage.cluster import TopicState

LOAD_BYTES: Final = 1024 * 1024  # of one log per turn of the loop: loading must not hold up anybody else
IDS_AT_ONCE: Final = 64
STANDSTILL_MS: Final = 200  # no turn of the loop takes that long

_log = logging.getLogger(__name__)


class _Topics:
    """The cluster's topics as the coordinator asks for them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def by_name(self, name: str) -> KnownTopic | None:
        return _known(self._image.topic(name))

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return _known(self._image.topic_by_id(topic_id))


def _known(topic: TopicState | None) -> KnownTopic | None:
    return None if topic is None else KnownTopic(topic.name, topic.topic_id, len(topic.partitions))


class Groups:
    """Runs the shards that this broker leads. Everything happens on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._events = EventWriter(services)
        self._coordinator = GroupCoordinator(
            group_config(services.config),
            partition_count=self._partition_count(),
            topics=_Topics(services.image),
            host=self,
        )
        self._handle = self._coordinator.handle
        self._fresh_ids = fresh_uuids(services.random)
        self._now_ms = services.clock.now_ms
        self._timestamp_ms = services.clock.timestamp_ms
        self._watched: dict[int, _Watch] = {}
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self._creating: Task[None] | None = None
        self._to_load: deque[Shard[Any, Any]] = deque()
        self._loads_soon = False
        self._loading_since_ms: dict[str, int] = {}
        self.longest_load_ms = 0
        self.completed_rebalances = 0
        self.expired_offsets = 0
        services.topics.deletion_watchers.append(self._topics_deleted)
        services.markers.listeners[OFFSETS_TOPIC] = self._transaction_ended
        services.partitions.opening_watchers.append(self._opened)
        for partition in services.partitions.of_topic(OFFSETS_TOPIC):
            self._opened(partition)

    def _partition_count(self) -> int:
        topic = self._services.image.topic(OFFSETS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        return self._services.config.offsets_topic_num_partitions

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group lives in."""
        return self._coordinator.partition_for(group_id)

    def create_topic(self) -> None:
        """See to it that there is a topic for groups to live in; nobody waits for it."""
        if self._creating is None:
            self._creating = self._services.loop.create_task(self._create_topic())

    async def _create_topic(self) -> None:
        try:
            refusals = await self._services.topics.ensure([OFFSETS_TOPIC])
            if refusals:
                _log.warning("%s cannot be created: %s", OFFSETS_TOPIC, refusals[OFFSETS_TOPIC].message)
        finally:
            self._creating = None

    # --- requests --------------------------------------------------------------------------------------

    def ask(self, request: Any, context: RequestContext) -> Any:
        """Decide; the answer, or a held one when it waits for the disk."""
        promise: Promise[Any] = Promise()
        self._handle(
            request,
            Context(
                self._now_ms(), self._timestamp_ms(), context.client_id, context.client_host, "", promise
            ),
        )
        response = promise.outcome()
        return promise if response is None else response

    def ask_parked(self, request: Any, context: RequestContext) -> Any:
        """Decide; the answer, or a parked one when it waits for other members."""
        promise: Parked[Any] = Parked()
        fresh_id = ""
        if type(request) is JoinGroupRequest and not request.member_id:
            fresh_id = next(self._fresh_ids)
        self._handle(
            request,
            Context(
                self._now_ms(),
                self._timestamp_ms(),
                context.client_id,
                context.client_host,
                fresh_id,
                promise,
            ),
        )
        response = promise.outcome()
        return promise if response is None else response

    def _now(self) -> Context:
        return Context(now_ms=self._now_ms(), timestamp_ms=self._timestamp_ms())

    # --- what the coordinator asks of its host ---------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Any) -> None:
        group_event: GroupEvent = event
        if isinstance(group_event, RebalanceCompleted):
            self.completed_rebalances += 1
        elif isinstance(group_event, OffsetsRemoved) and group_event.cause == Cause.RETENTION_OVER:
            self.expired_offsets += group_event.count
        self._events.tell(group_event)

    def act(self, shard: Shard[Any, Any], action: object) -> None:
        raise AssertionError(f"groups do nothing outside their shard: {action!r}")

    def wake(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_ms = max(0, at_ms - self._services.clock.now_ms())
        self._timer = self._services.loop.call_later(delay_ms / 1000, self._tick)

    def load(self, shard: Shard[Any, Any]) -> None:
        self._loading_since_ms[shard.name] = self._services.clock.now_ms()
        self._to_load.append(shard)
        self._load_soon()

    def _load_soon(self) -> None:
        """One shard after the other, a part in each turn of the loop: nobody waits for more than that."""
        if self._to_load and not self._loads_soon:
            self._loads_soon = True
            self._services.loop.call_soon(self._load)

    def _load(self) -> None:
        self._loads_soon = False
        shard = self._to_load.popleft()
        try:
            if not shard.load_some(self._now(), LOAD_BYTES):
                self._to_load.appendleft(shard)
                return
        finally:
            self._load_soon()
        took_ms = self._services.clock.now_ms() - self._loading_since_ms.pop(shard.name, 0)
        if shard.status is Status.ACTIVE:
            self.longest_load_ms = max(self.longest_load_ms, took_ms)
            _log.info("%s is served at epoch %d, loaded in %d ms", shard.name, shard.epoch, took_ms)

    def _tick(self) -> None:
        self._timer = None
        if self._now_ms() - self._timer_at_ms > STANDSTILL_MS:
            # The process stood still, and timers come before sockets: heartbeats that are here already are
            # to be heard before anybody is called silent.
            loop = self._services.loop
            loop.call_soon(loop.call_soon, self._fire)
        else:
            self._fire()

    def _fire(self) -> None:
        self._coordinator.shards.tick(self._now())
        next_ms = self._coordinator.shards.next_look_ms()
        if next_ms is not None:
            self.wake(next_ms)

    # --- figures ---------------------------------------------------------------------------------------

    @property
    def shards(self) -> Iterable[Shard[Any, Any]]:
        return self._coordinator.shards

    @property
    def written(self) -> Mapping[type, int]:
        """How many records were written here since the start, by kind."""
        return self._coordinator.written

    def all(self) -> Iterator[Group]:
        """Every group that is served here."""
        return self._coordinator.groups()

    # --- leadership, durability, topics ----------------------------------------------------------------

    def _opened(self, partition: Partition) -> None:
        """This broker leads a partition from now on; it matters here if groups live in it."""
        if partition.topic != OFFSETS_TOPIC or partition.error_code is not NO_ERROR:
            return
        log = PartitionCoordinatorLog(partition, self._services.flusher)
        if self._coordinator.shards.elect(partition.partition, partition.leader_epoch, lambda: log):
            self._watched[partition.partition] = _Watch(self, partition)

    def changed(self, watch: _Watch) -> None:
        """A partition's durable end moved, a flush of it failed, or it is served here no more."""
        partition = watch.partition
        number = partition.partition
        if partition.error_code is not NO_ERROR:
            watch.stop()
            self._watched.pop(number, None)
            self._coordinator.shards.resign(number, partition.leader_epoch)
            return
        shard = self._coordinator.shards.by_partition.get(number)
        if shard is None:
            return
        if partition.flush_failures != watch.flush_failures:
            watch.flush_failures = partition.flush_failures
            shard.on_flush_failed()
        else:
            shard.on_durable(self._now)

    def _transaction_ended(self, partition: Partition, marker: TransactionMarker, offset: int) -> None:
        """A marker was written to `__consumer_offsets`: pending offsets take effect or are dropped."""
        shard = self._coordinator.shards.by_partition.get(partition.partition)
        if shard is not None and shard.epoch == partition.leader_epoch:
            ended = TransactionEnded(marker.producer_id, marker.is_commit)
            shard.on_written_by_others(ended, offset)

    def _topics_deleted(self, gone: Sequence[TopicState]) -> None:
        for topic in gone:
            self._coordinator.topic_deleted(topic.name, self._now())

    def stop(self) -> None:
        """Serve nothing from now on; who waits is told to look elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
        for watch in self._watched.values():
            watch.stop()
        self._watched.clear()
        self._coordinator.shards.stop()
        self._events.stop()
        if self._creating is not None:
            self._creating.cancel()


class _Watch:
    """An eye on one partition."""

    __slots__ = ("_groups", "flush_failures", "partition")

    def __init__(self, groups: Groups, partition: Partition) -> None:
        self._groups = groups
        self.partition = partition
        self.flush_failures = partition.flush_failures
        partition.watch(self._look)

    def _look(self) -> None:
        self._groups.changed(self)

    def stop(self) -> None:
        self.partition.unwatch(self._look)


def group_config(config: BrokerConfig) -> GroupConfig:
    """The broker's settings that concern groups."""
    return GroupConfig(**{field.name: getattr(config, field.name) for field in fields(GroupConfig)})


def fresh_uuids(random: Random) -> Iterator[str]:
    """Random UUIDs (version 4) as text. To ask the system for chance costs more than all the rest of one."""
    while True:
        digits = random.randbytes(16 * IDS_AT_ONCE).hex()
        for at in range(0, len(digits), 32):
            variant = "89ab"[int(digits[at + 16], 16) & 3]
            yield (
                f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-4{digits[at + 13 : at + 16]}"
                f"-{variant}{digits[at + 17 : at + 20]}-{digits[at + 20 : at + 32]}"
            )
