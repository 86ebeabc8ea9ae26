"""What a cluster knows of itself: brokers, topics, configurations, and who leads what at which epoch.

Methods block (they are durable when they return): a broker calls them off its event loop and keeps a
snapshot for its hot paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class ConflictError(Exception):
    """Somebody else changed this first: read again and decide again."""


class ResourceType(IntEnum):
    """Whose configuration; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker: its id, rack, and the address of each listener by name."""

    broker_id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who keeps a partition, who leads it, since which leadership."""

    partition: int
    replicas: tuple[int, ...]
    leader_id: int  # -1: nobody
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic; `partitions[i].partition == i`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]


class ClusterStore(Protocol):
    """The cluster's memory. Every change is a compare-and-set: a lost race raises ConflictError."""

    @property
    def cluster_id(self) -> str:
        """A base64url UUID of 22 characters, made once."""
        ...

    def register_broker(self, registration: BrokerRegistration) -> None: ...
    def brokers(self) -> Sequence[BrokerRegistration]: ...
    def topics(self) -> Mapping[str, TopicState]: ...
    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        """Raises ConflictError when the name is taken."""
        ...

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        """Topic and its configuration; ConflictError when this id does not hold the name."""
        ...

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionState]) -> None: ...
    def lead(
        self, broker_id: int, partitions: Sequence[tuple[str, int]] | None = None
    ) -> Mapping[tuple[str, int], int]:
        """Take leadership at last epoch + 1, of these or of all that the broker keeps; the new epochs."""
        ...

    def configs(self, resource_type: ResourceType, name: str) -> Mapping[str, str]: ...
    def all_configs(self) -> Mapping[tuple[ResourceType, str], Mapping[str, str]]: ...
    def replace_configs(
        self, resource_type: ResourceType, name: str, configs: Mapping[str, str]
    ) -> None: ...
    def allocate_producer_ids(self, count: int) -> range:
        """Ids that nobody ever got and nobody else will get."""
        ...

    def close(self) -> None: ...
