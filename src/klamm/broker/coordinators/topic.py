"""The internal topic of one coordinator on this broker: created on demand, its partitions watched."""

from __future__ import annotations

import logging
from asyncio import Task
from typing import TYPE_CHECKING, Any

from klamm.broker.cluster.internal_topics import internal_topic
from klamm.broker.coordinators.host import CoordinatorHost
from klamm.broker.coordinators.logs import PartitionCoordinatorLog
from klamm.protocol.errors import NO_ERROR

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services

_log = logging.getLogger(__name__)


class CoordinatorTopic:
    """Reports to a host which partitions this broker leads, and changes of their logs."""

    def __init__(self, services: Services, name: str) -> None:
        self._services = services
        self._watches: dict[int, _PartitionWatch] = {}
        self._creating: Task[None] | None = None
        self.name = name
        existing = services.image.topic(name)
        shape = internal_topic(name, services.config)
        self.partition_count = shape.num_partitions if existing is None else len(existing.partitions)

    # --- creation --------------------------------------------------------------------------------------

    def create(self) -> None:
        """Create the topic if it is missing; returns before it is there."""
        if self._creating is None:
            self._creating = self._services.loop.create_task(self._create())

    async def _create(self) -> None:
        try:
            refusals = await self._services.topics.ensure([self.name])
            if refusals:
                _log.warning("creating topic %s failed: %s", self.name, refusals[self.name].message)
        finally:
            self._creating = None

    # --- partitions ------------------------------------------------------------------------------------

    def attach(self, host: CoordinatorHost[Any]) -> None:
        """Let a host serve the partitions that are led here, now and later."""

        def opened(partition: Partition) -> None:
            if partition.topic == self.name and partition.error_code is NO_ERROR:
                self._opened(host, partition)

        self._services.partitions.opening_watchers.append(opened)
        for partition in self._services.partitions.of_topic(self.name):
            opened(partition)

    def _opened(self, host: CoordinatorHost[Any], partition: Partition) -> None:
        log = PartitionCoordinatorLog(partition, self._services.flusher, self._services.run_blocking)
        if host.elect(partition.partition, partition.leader_epoch, lambda: log):
            self._watches[partition.partition] = _PartitionWatch(self, host, partition)

    def closed(self, watch: _PartitionWatch) -> None:
        """A partition is not served here any more."""
        watch.stop()
        number = watch.partition.partition
        if self._watches.get(number) is watch:
            del self._watches[number]

    def stop(self) -> None:
        """Watch nothing from now on."""
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()
        if self._creating is not None:
            self._creating.cancel()


class _PartitionWatch:
    """Reports changes of one partition at one leader epoch to a host."""

    __slots__ = ("_flush_failures", "_host", "_topic", "partition")

    def __init__(self, topic: CoordinatorTopic, host: CoordinatorHost[Any], partition: Partition) -> None:
        self._topic = topic
        self._host = host
        self._flush_failures = partition.flush_failures
        self.partition = partition
        partition.watch(self._changed)

    def _changed(self) -> None:
        partition = self.partition
        number = partition.partition
        if partition.error_code is not NO_ERROR:
            self._topic.closed(self)
            self._host.resign(number, partition.leader_epoch)
        elif partition.flush_failures != self._flush_failures:
            self._host.on_flush_failed(number)
            # Only now: the host truncates the log, which counts as another failure.
            self._flush_failures = partition.flush_failures
        else:
            self._host.on_durable(number)

    def stop(self) -> None:
        self.partition.unwatch(self._changed)
