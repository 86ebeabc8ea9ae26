"""What the admin takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeVar

from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition

K = TypeVar("K")
T = TypeVar("T")


class Results(dict[K, T | KlammError]):
    """One result per item asked for: its value, or the error that it met."""

    @property
    def errors(self) -> dict[K, KlammError]:
        """Only what failed."""
        return {key: value for key, value in self.items() if isinstance(value, KlammError)}

    def unwrap(self) -> dict[K, T]:
        """All values; raises the first error if there is one."""
        values: dict[K, T] = {}
        for key, value in self.items():
            if isinstance(value, KlammError):
                raise value
            values[key] = value
        return values


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; -1 leaves the number to the broker's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the broker made it."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition, and who keeps it."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Resource(IntEnum):
    """Whose configuration; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


class AlterOp(IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting with its source: 1 topic, 2 and 3 dynamic broker, 4 static broker, 5 default."""

    name: str
    value: str | None
    source: int
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as a broker lists it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member, its subscription and what it owns; None where the bytes are not a consumer's."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...] | None
    assignment: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group and who is in it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator_id: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group will read, as committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset found in a log; -1 when there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory of one broker, and how many bytes each partition takes there."""

    broker_id: int
    path: str
    error: KlammError | None
    total_bytes: int
    usable_bytes: int
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """One producer that a partition knows."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    current_txn_start_offset: int  # -1: it has no transaction open here
    coordinator_epoch: int = -1


@dataclass(frozen=True, slots=True, order=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id: its producer, and its transaction if it has one."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None  # None: it has not had a transaction
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that a partition has open and no coordinator will end."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None  # None: no coordinator knows the producer


class ProducerIdentity(NamedTuple):
    """What a producer writes with."""

    producer_id: int
    producer_epoch: int


class ElectionType(IntEnum):
    """Which leader is wanted; the numbers are the protocol's."""

    PREFERRED = 0
    UNCLEAN = 1  # any replica, at the price of records


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature: the levels that the brokers support, and the one the cluster is at (None: it is off)."""

    min_level: int
    max_level: int
    level: int | None
