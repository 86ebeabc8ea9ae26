"""The leaders of partitions, as reported to clients of one listener."""

from __future__ import annotations

from typing import NamedTuple

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import PartitionRegistration


class Leadership(NamedTuple):
    """The leader to connect to, or why there is none; each replica is in sync or offline."""

    error_code: ErrorCode
    leader_id: int
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class LeadershipView:
    """Leaders as seen through one listener."""

    def __init__(self, image: ClusterImage, partitions: PartitionRegistry, listener: str) -> None:
        self._image = image
        self._partitions = partitions
        self._reachable = {
            broker_id for broker_id, each in image.brokers.items() if listener in each.listeners
        }

    def of(self, topic: str, partition: PartitionRegistration) -> Leadership:
        """The leader of one partition.

        A log that its broker cannot read has no leader, as on a Kafka without another replica.
        """
        image = self._image
        offline = tuple(broker_id for broker_id in partition.replicas if broker_id not in image.brokers)
        if partition.leader_id == image.broker_id:
            served = self._partitions.get(topic, partition.partition)
            if served is None or served.error_code is not ErrorCode.none:
                offline = (*offline, image.broker_id)
        in_sync = tuple(broker_id for broker_id in partition.replicas if broker_id not in offline)
        if partition.leader_id not in in_sync:
            return Leadership(ErrorCode.leader_not_available, -1, in_sync, offline)
        if partition.leader_id not in self._reachable:
            return Leadership(ErrorCode.listener_not_found, -1, in_sync, offline)
        return Leadership(ErrorCode.none, partition.leader_id, in_sync, offline)
