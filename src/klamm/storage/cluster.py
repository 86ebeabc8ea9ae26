"""Cluster metadata: brokers, topics, configurations, and partition leaders with their epochs.

Methods block (they are durable when they return): a broker calls them off its event loop and keeps a
snapshot for its hot paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random
from typing import Final, Protocol

from klamm.protocol.types import id_to_text

FIRST_PRODUCER_ID: Final = 0
LAST_PRODUCER_ID: Final = 2**63 - 1


class ConflictError(Exception):
    """Another writer changed this first: read again and decide again."""


class ClusterStoreError(Exception):
    """The store cannot be read or written; the message says which file and why."""


class ResourceType(IntEnum):
    """The owner of a configuration; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker: its id, rack, and the address of each listener by name."""

    broker_id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """The replicas of a partition, its leader, and the leader's epoch."""

    partition: int
    replicas: tuple[int, ...]
    leader_id: int  # -1: none
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic; `partitions[i].partition == i`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The levels that the whole cluster has agreed on; a feature at level 0 is absent."""

    epoch: int = -1  # rises with every change; -1: nothing was ever finalized
    levels: Mapping[str, int] = field(default_factory=dict)


class ClusterStore(Protocol):
    """Cluster metadata. Every change is a compare-and-set: a lost race raises ConflictError."""

    @property
    def cluster_id(self) -> str:
        """A base64url UUID of 22 characters, generated once."""
        ...

    def version(self) -> int:
        """Increases with every change by any broker: a snapshot of another version is stale."""
        ...

    def register_broker(self, registration: BrokerRegistration) -> None: ...
    def brokers(self) -> Sequence[BrokerRegistration]: ...
    def topics(self) -> Mapping[str, TopicState]: ...
    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        """Raises ConflictError when the name is taken."""
        ...

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        """Delete a topic and its configuration; ConflictError when the name has another id."""
        ...

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        """Add partitions that follow the last one; ConflictError when they no longer do."""
        ...

    def lead(
        self, broker_id: int, partitions: Sequence[tuple[str, int]] | None = None
    ) -> Mapping[tuple[str, int], int]:
        """Lead at last epoch + 1 these partitions or all that the broker is a replica of; the new epochs.

        Raises ConflictError, and changes nothing, when the broker is not a replica of one of these.
        """
        ...

    def configs(self, resource_type: ResourceType, name: str) -> Mapping[str, str]: ...
    def all_configs(self) -> Mapping[tuple[ResourceType, str], Mapping[str, str]]: ...
    def replace_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConflictError when the topic does not exist, or its configuration is not `expected`."""
        ...

    def features(self) -> FinalizedFeatures: ...
    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        """Replace all levels at the next epoch; ConflictError when another epoch than expected is found."""
        ...

    def allocate_producer_ids(self, count: int) -> range:
        """The first of `count` new ids. Raises OverflowError when none are left."""
        ...

    def close(self) -> None: ...


def new_topic_id(random: Random) -> bytes:
    """A random UUID as Kafka generates them: not 0 or 1, and its text does not begin with a dash."""
    while True:
        drawn = random.getrandbits(128)
        drawn = drawn & ~(0xF << 76) | (4 << 76)  # version 4
        drawn = drawn & ~(0x3 << 62) | (2 << 62)  # variant 1
        topic_id = drawn.to_bytes(16, "big")
        if not id_to_text(topic_id).startswith("-"):
            return topic_id


def set_levels(levels: Mapping[str, int]) -> dict[str, int]:
    """Feature levels as they are kept: level 0 is the same as none."""
    return {name: level for name, level in sorted(levels.items()) if level}


def follow_on(present: int, added: Sequence[PartitionRegistration]) -> bool:
    """Whether these partitions continue the numbers 0 to present - 1."""
    return [state.partition for state in added] == list(range(present, present + len(added)))
