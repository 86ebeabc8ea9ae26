"""What kafka-python's admin takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from klamm.compat.kafka.words import ByName


class ConfigResourceType(ByName, IntEnum):
    """What a configuration belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSourceType(ByName, IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    def is_modified(self) -> bool:
        """Whether this resource has a value of its own."""
        return self.value not in (3, 4, 5)


class ConfigFilterType(ByName, IntEnum):
    """Which settings `describe_configs` returns."""

    ALL = 0
    DYNAMIC = 1
    MODIFIED = 2
    DEFAULT = 3
    STATIC = 4

    def takes(self, source: ConfigSourceType, *, is_read_only: bool) -> bool:
        match self:
            case ConfigFilterType.DYNAMIC:
                return not is_read_only
            case ConfigFilterType.MODIFIED:
                return source.is_modified()
            case ConfigFilterType.DEFAULT:
                return not source.is_modified()
            case ConfigFilterType.STATIC:
                return source is ConfigSourceType.STATIC_BROKER_CONFIG
        return True


class AlterConfigOp(ByName, IntEnum):
    """How to change a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class GroupState(ByName, StrEnum):
    """The state of a group."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(ByName, StrEnum):
    """The protocol of a group."""

    UNKNOWN = "Unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class ConfigResource:
    """A resource, and the settings that are asked for or changed."""

    def __init__(
        self,
        resource_type: ConfigResourceType | str | int,
        name: str,
        configs: Mapping[str, Any] | Sequence[str] | None = None,
    ) -> None:
        self.resource_type = ConfigResourceType.build_from(resource_type)
        self.name = name
        self.configs = configs

    def __repr__(self) -> str:
        return f"ConfigResource({self.resource_type.name}, {self.name}, {self.configs})"


class NewTopic:
    """A topic to create; -1: the broker's default."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = dict(replica_assignments or {})
        self.topic_configs = dict(topic_configs or {})


class NewPartitions:
    """To how many partitions a topic is increased."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class MemberToRemove:
    """A member of a group, by its id or its instance id."""

    def __init__(
        self,
        member_id: str | None = None,
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        if member_id is None and group_instance_id is None:
            raise ValueError("give member_id or group_instance_id")
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
