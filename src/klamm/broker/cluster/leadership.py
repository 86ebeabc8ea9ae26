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
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class BrokerAddress(NamedTuple):
    """The address of a broker; the fields of a NodeEndpoint in the protocol."""

    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHint(NamedTuple):
    """The leader of a partition, for a client that asked another broker (KIP-951)."""

    leader_id: int = -1
    leader_epoch: int = -1
    endpoint: BrokerAddress | None = None


def leader_hint(image: ClusterImage, topic: str, partition: int, listener: str) -> LeaderHint:
    """The leader to ask; -1 and its epoch if there is none, -1 and -1 if there is no such partition."""
    state = image.partition(topic, partition)
    if state is None:
        return LeaderHint()
    address = image.address(state.leader_id, listener)
    if address is None:
        return LeaderHint(state.leader_id, state.leader_epoch)
    endpoint = BrokerAddress(state.leader_id, *address, image.brokers[state.leader_id].rack)
    return LeaderHint(state.leader_id, state.leader_epoch, endpoint)


class LeadershipView:
    """Leaders as seen through one listener."""

    def __init__(self, image: ClusterImage, partitions: PartitionRegistry, listener: str) -> None:
        self._image = image
        self._partitions = partitions
        running = image.running_brokers()
        self._running = {each.broker_id for each in running}
        self._reachable = {each.broker_id for each in running if listener in each.listeners}

    def of(self, topic: str, partition: PartitionRegistration) -> Leadership:
        """The leader of one partition.

        A log that its broker cannot read has no leader, as on a Kafka without another replica.
        """
        leader_id = partition.leader_id
        replicas = self._shown_replicas(partition)
        offline = tuple(broker_id for broker_id in replicas if broker_id not in self._running)
        if leader_id == self._image.broker_id:
            served = self._partitions.get(topic, partition.partition)
            # One that is being handed over has its leader until the move is finished.
            can_serve = served is not None and served.error_code is not ErrorCode.kafka_storage_error
            if not can_serve and leader_id not in offline:
                offline = (*offline, leader_id)
        in_sync = tuple(broker_id for broker_id in replicas if broker_id not in offline)
        if leader_id not in in_sync:
            return Leadership(ErrorCode.leader_not_available, -1, replicas, in_sync, offline)
        if leader_id not in self._reachable:
            return Leadership(ErrorCode.listener_not_found, -1, replicas, in_sync, offline)
        return Leadership(ErrorCode.none, leader_id, replicas, in_sync, offline)

    def _shown_replicas(self, partition: PartitionRegistration) -> tuple[int, ...]:
        """The preferred brokers; a leader that is none of them replaces the first that does not run.

        Clients expect the leader among the replicas. If all preferred brokers run, the partition is about to
        move to one of them, and the leader replaces the last.
        """
        replicas, leader_id = partition.replicas, partition.leader_id
        if leader_id < 0 or leader_id in replicas:
            return replicas
        replaced = next((each for each in replicas if each not in self._running), replicas[-1])
        return tuple(leader_id if each == replaced else each for each in replicas)
