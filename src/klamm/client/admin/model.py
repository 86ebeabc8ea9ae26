"""The arguments and results of admin operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from klamm.client.committed import CommittedOffset as CommittedOffset  # noqa: PLC0414  # part of the model
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition

ConfigValue: TypeAlias = str | int | float | bool | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker's default.

    `num_partitions` is another name of `partitions`; `topic_configs` and `config` of `configs`;
    `replica_assignments` and `replica_assignment` of `assignments`.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | Sequence[Sequence[int]] = field(default_factory=dict)
    num_partitions: InitVar[int | None] = None
    topic_configs: InitVar[Mapping[str, ConfigValue] | None] = None
    config: InitVar[Mapping[str, ConfigValue] | None] = None
    replica_assignments: InitVar[Mapping[int, Sequence[int]] | None] = None
    replica_assignment: InitVar[Sequence[Sequence[int]] | None] = None

    def __post_init__(self, *aliases: Any) -> None:
        names = ("partitions", "configs", "configs", "assignments", "assignments")
        for name, value in zip(names, aliases, strict=True):
            if value is not None:
                object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the broker made it."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition and its replicas."""

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


class Resource(StrEnum):
    """What a configuration belongs to; the words can be used in place of the members."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_LOGGER = "broker_logger"
    GROUP = "group"


class AlterOp(StrEnum):
    """How to change a setting; the words can be used in place of the members."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


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
    protocol: str = "classic"  # or "consumer": which of them the member speaks
    epoch: int | None = None  # of the member, in a group of the consumer protocol
    target: tuple[TopicPartition, ...] | None = None  # what it should have, in such a group
    regex: str | None = None  # its subscription, if the coordinator matches it
    has_user_data: bool = False  # its assignor has stored data of its own in the assignment


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group and its members."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator_id: int
    members: tuple[MemberDescription, ...]
    group_type: str = "classic"  # or "consumer"
    epoch: int | None = None  # of a group of the consumer protocol
    target_epoch: int | None = None  # for which its target was computed


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
    is_fenced: bool = False  # its lease ended: it does not run, or cannot reach the others


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory of one broker, with the size of each partition in bytes."""

    broker_id: int
    path: str
    error: KlammError | None
    total_bytes: int
    usable_bytes: int
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """One active producer of a partition."""

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
    transactional_id: str | None  # None: no coordinator has this producer


class ProducerIdentity(NamedTuple):
    """The id and epoch of a producer."""

    producer_id: int
    producer_epoch: int


class ElectionType(StrEnum):
    """Which replica becomes the leader; the words can be used in place of the members."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"  # any replica; records can be lost


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is being moved to other brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature: the levels that the brokers support, and the one the cluster is at (None: it is off)."""

    min_level: int
    max_level: int
    level: int | None
