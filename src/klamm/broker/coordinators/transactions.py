"""The transaction coordinator in this broker: its topic, its settings, markers and producer ids."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from klamm.broker.cluster.producer_ids import NoProducerIdError
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal
from klamm.broker.coordinators.host import LOADING_PATIENCE_MS, CoordinatorHost
from klamm.broker.coordinators.topic import CoordinatorTopic
from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.markers import TransactionMarker
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE
from klamm.coordinator.transaction.actions import AllocateProducerId, WriteMarkers
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.coordinator import TransactionCoordinator
from klamm.coordinator.transaction.events import TransactionEvent
from klamm.coordinator.transaction.remembered import EPOCH_BUMP_VERSION
from klamm.coordinator.transaction.requests import AddPartitions, PartitionErrors
from klamm.coordinator.transaction.signals import MarkersWritten, ProducerIdAllocated
from klamm.printable import printable
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from asyncio import Task

    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.partitions.markers import MarkerResults
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.coordinator.runtime.events import Event
    from klamm.coordinator.runtime.shard import Shard

ErrorCodes: TypeAlias = Mapping[TopicPartition, ErrorCode]
_UNKNOWN_PARTITION: Final = ErrorCode.unknown_topic_or_partition  # an enum's member is looked up slowly

_log = logging.getLogger(__name__)


class _Topics:
    """The cluster's partitions for the coordinator."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def has_partition(self, partition: TopicPartition) -> bool:
        return self._services.image.partition(*partition) is not None

    def is_internal(self, topic: str) -> bool:
        return is_internal(topic)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self._services.groups.coordinator.partition_for(group_id))


class _Verified(HeldResponse[ErrorCodes]):
    """A coordinator's response by partition."""

    __slots__ = ()

    def keep(self, response: Any) -> None:
        errors: PartitionErrors = response
        HeldResponse.keep(self, errors.errors)


class Transactions(CoordinatorHost[TransactionCoordinator]):
    """Runs the transactional ids whose partitions this broker leads."""

    def __init__(self, services: Services) -> None:
        topic = CoordinatorTopic(services, TRANSACTIONS_TOPIC)
        super().__init__(
            services.loop,
            services.clock,
            lambda host: TransactionCoordinator(
                transaction_config(services.config),
                partition_count=topic.partition_count,
                topics=_Topics(services),
                version=lambda: services.image.transaction_version,
                host=host,
                loading_patience_ms=LOADING_PATIENCE_MS,
                soon=services.loop.call_soon,
            ),
            events=services.events,
            grace_ms=services.grace_ms,
        )
        self._services = services
        self._tasks: set[Task[None]] = set()  # allocations of producer ids, and looks at the store
        self.topic = topic
        self.counts: Counter[tuple[str, str]] = Counter()  # events, by type and cause
        topic.attach(self)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> HeldResponse[ErrorCodes]:
        """Whether the partitions are part of the ongoing transaction; with `add` they become part of it.

        Another broker is asked if it leads the shard of the id.
        """
        coordinator, image = self.coordinator, self._services.image
        index = coordinator.partition_for(transactional_id)
        state = image.partition(TRANSACTIONS_TOPIC, index)
        if state is not None and state.leader_id not in (image.broker_id, -1):
            question = state.leader_id, transactional_id, producer_id, producer_epoch, partitions
            return self._services.remote.verify(*question, add=add)
        promise = _Verified()
        if not add and coordinator.confirms(transactional_id, producer_id, producer_epoch, partitions):
            promise.keep(PartitionErrors(dict.fromkeys(partitions, NO_ERROR)))
            return promise
        # What a shard that is being loaded decides later, nothing can follow at once.
        shard = self.shards.by_partition.get(index) if add else None
        is_decided_now = shard is not None and shard.status is ACTIVE
        ordered = self._ordered(transactional_id, partitions) if is_decided_now else None
        # By position; the last three are is_verify_only, client_version and is_answered_early.
        request = AddPartitions(
            transactional_id,
            producer_id,
            producer_epoch,
            frozenset(partitions),
            not add,
            EPOCH_BUMP_VERSION if add else 0,
            ordered is not None,
        )
        context = Context(self._now_ms(), self._timestamp_ms(), "", "", "", promise)
        if ordered is None:
            coordinator.handle(request, context)
            return promise
        coordinator.add(request, context)
        decided, followers = ordered
        if decided.durable.is_dirty:
            for follower in followers:
                self._services.flusher.put_after(follower, decided)
        return promise

    def tell(self, event: Event) -> None:
        if isinstance(event, TransactionEvent):
            self.counts[event.type, str(event.cause)] += 1
        super().tell(event)

    # --- work outside the shards -----------------------------------------------------------------------

    def act(self, shard: Shard, action: object) -> None:
        match action:
            case WriteMarkers():
                self._write_markers(shard, action)
            case AllocateProducerId():
                self._allocate(shard, action.transactional_id)
            case _:
                super().act(shard, action)

    def act_early(self, shard: Shard, action: object) -> bool:
        if not isinstance(action, WriteMarkers):
            return False
        ordered = self._ordered(action.transactional_id, action.partitions)
        if ordered is None:
            return False
        self._write_markers(shard, action, ordered[0])
        return True

    def _ordered(
        self, transactional_id: str, followers: Iterable[TopicPartition]
    ) -> tuple[Partition, Sequence[Partition]] | None:
        """The partition with the decisions about an id, and others; None if they cannot be put after it."""
        partitions, flusher = self._services.partitions, self._services.flusher
        decided = partitions.get(TRANSACTIONS_TOPIC, self.coordinator.partition_for(transactional_id))
        if decided is None or not flusher.can_put_after(decided):
            return None
        found = []
        for name in followers:
            partition = partitions.get(name.topic, name.partition)
            if partition is None or not flusher.can_put_after(partition):
                return None
            found.append(partition)
        return decided, found

    def _write_markers(self, shard: Shard, order: WriteMarkers, after: Partition | None = None) -> None:
        marker = TransactionMarker(
            order.producer_id,
            order.producer_epoch,
            order.is_commit,
            shard.epoch,
            order.transaction_version >= EPOCH_BUMP_VERSION,
        )
        for partitions, written in self.write(marker, sorted(order.partitions), after):
            report = partial(self._loop.call_soon, self._markers_written, shard, order, partitions, written)
            if written.is_done:
                report()
            else:
                written.listener = report

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], after: Partition | None
    ) -> list[tuple[Sequence[TopicPartition], HeldResponse[MarkerResults]]]:
        """Write a marker to partitions; a result for those of each leader.

        Those that come after what another partition has are all led here.
        """
        write_here = self._services.markers.write
        if after is not None:
            return [(partitions, write_here(marker, partitions, after))]
        image, write_there = self._services.image, self._services.remote.write
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            state = image.partition(*name)
            # One without a leader, or of a deleted topic, counts as led here: that gives its error.
            leader_id = image.broker_id if state is None or state.leader_id < 0 else state.leader_id
            by_leader.setdefault(leader_id, []).append(name)
        return [
            (
                named,
                write_here(marker, named)
                if leader_id == image.broker_id
                else write_there(leader_id, marker, named),
            )
            for leader_id, named in by_leader.items()
        ]

    def _markers_written(
        self,
        shard: Shard,
        order: WriteMarkers,
        partitions: Sequence[TopicPartition],
        written: HeldResponse[MarkerResults],
    ) -> None:
        results = written.response or {}
        if len(results) < len(partitions):  # what another broker does not answer for is sent again
            results = {**dict.fromkeys(partitions, ErrorCode.network_exception), **results}
        image = self._services.image
        if _UNKNOWN_PARTITION in results.values() and any(image.partition(*each) is None for each in results):
            checking = self._loop.create_task(self._without_deleted(shard, order, results))
            self._tasks.add(checking)
            checking.add_done_callback(self._tasks.discard)
            return
        self.signal(shard, MarkersWritten(order, results))

    async def _without_deleted(self, shard: Shard, order: WriteMarkers, results: MarkerResults) -> None:
        """Nothing is to be marked in a topic that is deleted; but one that is not known yet has records."""
        try:
            await self._services.follower.catch_up()
        except Exception as error:  # whatever it is, the transaction must end: they are sent again
            _log.warning("markers of %s are written later: %s", printable(order.transactional_id), error)
        else:
            image = self._services.image
            results = {
                partition: NO_ERROR
                if error_code is _UNKNOWN_PARTITION and image.partition(*partition) is None
                else error_code
                for partition, error_code in results.items()
            }
        self.signal(shard, MarkersWritten(order, results))

    def _allocate(self, shard: Shard, transactional_id: str) -> None:
        producer_id = self._services.producer_ids.take()
        if producer_id is not None:
            allocated = ProducerIdAllocated(transactional_id, producer_id)
            self._loop.call_soon(self.signal, shard, allocated)
            return
        waiting = self._loop.create_task(self._wait_for_producer_id(shard, transactional_id))
        self._tasks.add(waiting)
        waiting.add_done_callback(self._tasks.discard)

    async def _wait_for_producer_id(self, shard: Shard, transactional_id: str) -> None:
        try:
            allocated = ProducerIdAllocated(transactional_id, await self._services.producer_ids.wait())
        except NoProducerIdError as error:
            later, never = ErrorCode.coordinator_load_in_progress, ErrorCode.unknown_server_error
            allocated = ProducerIdAllocated(
                transactional_id, error_code=never if error.is_exhausted else later
            )
        self.signal(shard, allocated)

    def stop(self) -> None:
        self.topic.stop()
        super().stop()
        for task in self._tasks:
            task.cancel()


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """The broker's settings that concern transactions."""
    return TransactionConfig(
        **{field.name: getattr(config, field.name) for field in fields(TransactionConfig)}
    )
