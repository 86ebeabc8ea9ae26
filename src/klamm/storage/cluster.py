"""Cluster metadata: brokers, topics, configurations, and partition leaders with their epochs.

Methods block (they are durable when they return): a broker calls them off its event loop and keeps a
snapshot for its hot paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from random import Random
from typing import Final, NamedTuple, Protocol

from klamm.protocol.types import id_to_text

FIRST_PRODUCER_ID: Final = 0
LAST_PRODUCER_ID: Final = 2**63 - 1


class ConflictError(Exception):
    """Another writer changed this first: read again and decide again."""


class FencedError(Exception):
    """Another process has registered this broker id, or the broker was declared dead: nothing was changed."""


class ClusterStoreError(Exception):
    """The store cannot be read or written; the message has the file and the cause."""


class ConfigResourceType(IntEnum):
    """The owner of a configuration; the numbers are the protocol's, where it has one.

    Those from 1000 on are described and altered by APIs of their own. A request cannot name them: its types
    have 8 bits.
    """

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32
    ACL = 1000  # a resource pattern, and its access control lists
    USER = 1001  # a user, and the SCRAM credentials
    QUOTA = 1002  # a user, client id or address, and its quotas
    SECRET = 1003  # what all brokers know and no API describes


class BrokerState(StrEnum):
    """The phases of a registration."""

    STARTING = "starting"  # loads its partitions; gets no others
    RUNNING = "running"
    DRAINING = "draining"  # hands its partitions over, before it stops
    GONE = "gone"  # stopped or declared dead; it stays registered


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker: its id, rack, the address of each listener by name, and its epoch and state."""

    broker_id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]
    epoch: int = -1  # of the registration: the version of the change that made it
    state: BrokerState = BrokerState.RUNNING

    @property
    def is_fenced(self) -> bool:
        """Whether clients must not be sent to it."""
        return self.state in (BrokerState.STARTING, BrokerState.GONE)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """The replicas of a partition, its leader, and the leader's epoch.

    Logs are in a store that all brokers share: `replicas` lists the brokers that should lead it, most
    preferred first.
    """

    partition: int
    replicas: tuple[int, ...]
    leader_id: int  # -1: none
    leader_epoch: int
    moving_to: int = -1  # the broker that its leader is handing it over to; -1: none


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A partition, the leader and epoch that it is expected to have, and its next leader."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int
    next_leader_id: int


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


@dataclass(frozen=True, slots=True)
class ClusterChanges:
    """What changed up to a version: the present state of everything touched. None: it is deleted."""

    version: int
    brokers: tuple[BrokerRegistration, ...] = ()
    topics: Mapping[str, TopicState | None] = field(default_factory=dict)
    configs: Mapping[tuple[ConfigResourceType, str], Mapping[str, str]] = field(default_factory=dict)
    features: FinalizedFeatures | None = None  # None: unchanged
    is_complete: bool = False  # everything is listed: what is not listed is deleted


class ConfigChange(NamedTuple):
    """One of many configurations that are replaced together."""

    name: str
    configs: Mapping[str, str]
    expected: Mapping[str, str]


class ClusterStore(Protocol):
    """Cluster metadata. Every change is a compare-and-set: a lost race raises ConflictError.

    A store is one broker's once it has registered: from then on its changes raise FencedError if that
    registration is replaced or gone.
    """

    @property
    def cluster_id(self) -> str:
        """A base64url UUID of 22 characters, generated once."""
        ...

    def version(self) -> int:
        """Increases by one with every change by any broker."""
        ...

    def changed(self) -> bool:
        """Whether another process may have changed something since the last call; cheap enough to poll."""
        ...

    def changes(self, since_version: int) -> ClusterChanges:
        """Everything that changed after a version; everything there is if that is 0, or too old."""
        ...

    def register(self, registration: BrokerRegistration) -> BrokerRegistration:
        """Register a broker in the state given, at a new epoch.

        Partitions that its id leads get the next leader epoch: an earlier process with this id is fenced.
        """
        ...

    def set_state(self, state: BrokerState) -> None:
        """The state of the broker that registered with this store."""
        ...

    def take_over(self, gone: BrokerRegistration, leaders: Sequence[LeaderChange]) -> None:
        """Declare a broker gone, and give all its partitions to others at the next epoch.

        Raises ConflictError, and changes nothing, if the broker has another epoch by now, is gone already, or
        leads other partitions than these.
        """
        ...

    def start_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        """Announce that leaders hand partitions over; those whose leader and next leader are as expected."""
        ...

    def finish_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        """Make each next leader the leader, at the next epoch; those whose leader was as expected."""
        ...

    def cancel_moves(self, moves: Sequence[LeaderChange]) -> None:
        """These partitions stay where they are."""
        ...

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Replace the preferred brokers of a partition; ConflictError if there is no such partition."""
        ...

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

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]: ...
    def all_configs(self) -> Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]: ...
    def replace_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConflictError when the topic does not exist, or its configuration is not `expected`."""
        ...

    def replace_all_configs(
        self, resource_type: ConfigResourceType, changes: Sequence[ConfigChange]
    ) -> Collection[str]:
        """Many at once, in one change; the names of those that were not as expected, and stay as they are.

        Not for topics, which have to exist.
        """
        ...

    def features(self) -> FinalizedFeatures: ...
    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        """Replace all levels at the next epoch; ConflictError when another epoch than expected is found."""
        ...

    def allocate_producer_ids(self, count: int) -> range:
        """`count` new ids; not a change of the version. Raises OverflowError when none are left."""
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
