"""What aiokafka's admin takes and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from klamm.compat.kafka.admin.model import NewPartitions

__all__ = ["ConfigResource", "ConfigResourceType", "NewPartitions", "NewTopic", "RecordsToDelete"]


class ConfigResourceType(IntEnum):
    """What a configuration belongs to."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """A resource, and the settings that are asked for or changed."""

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[str(resource_type).upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs


class NewTopic:
    """A topic to create: numbers, or replicas."""

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        if (num_partitions == -1 or replication_factor == -1) == (replica_assignments is None):
            raise ValueError("give num_partitions and replication_factor, or replica_assignments")
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = dict(replica_assignments or {})
        self.topic_configs = dict(topic_configs or {})


class RecordsToDelete:
    """The offset before which records are deleted."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset


class TopicErrors(NamedTuple):
    """The answer about topics: name, code and message of each."""

    topic_errors: list[tuple[str, int, str | None]]


class TopicErrorCodes(NamedTuple):
    """The answer about deleted topics: name and code of each."""

    topic_error_codes: list[tuple[str, int]]


class Resources(NamedTuple):
    """The answer about resources: code, message, type and name of each, and its settings if they were read.

    A setting is its name, value, whether it can only be read, its source, whether it is secret, and [].
    """

    resources: list[tuple[Any, ...]]


class Groups(NamedTuple):
    """The answer about groups: code, id, state, type and name of the protocol, and members of each.

    A member is its id, client id, address, topics and partitions. aiokafka has bytes for the last two.
    """

    groups: list[tuple[Any, ...]]
