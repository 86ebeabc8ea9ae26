"""confluent-kafka's resources, their settings, and what is asked of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Any, Final

from klamm.client.admin.model import ConfigEntry as OwnEntry
from klamm.compat.confluent_kafka.error import KafkaError


class ResourceType(IntEnum):
    """What a configuration or an ACL belongs to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5


class ConfigSource(Enum):
    """Where the value of a setting comes from."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class AlterConfigOpType(Enum):
    """How to change a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


RESOURCE_UNKNOWN: Final = int(ResourceType.UNKNOWN)
RESOURCE_ANY: Final = int(ResourceType.ANY)
RESOURCE_TOPIC: Final = int(ResourceType.TOPIC)
RESOURCE_GROUP: Final = int(ResourceType.GROUP)
RESOURCE_BROKER: Final = int(ResourceType.BROKER)
RESOURCE_TRANSACTIONAL_ID: Final = int(ResourceType.TRANSACTIONAL_ID)
CONFIG_SOURCE_UNKNOWN_CONFIG: Final = 0
CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG: Final = 1
CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG: Final = 2
CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
CONFIG_SOURCE_STATIC_BROKER_CONFIG: Final = 4
CONFIG_SOURCE_DEFAULT_CONFIG: Final = 5
CONFIG_SOURCE_GROUP_CONFIG: Final = 8


class ConfigEntry:
    """A setting; with `incremental_operation` a change of it."""

    def __init__(
        self,
        name: str,
        value: str | None,
        source: Any = ConfigSource.UNKNOWN_CONFIG,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: Mapping[str, ConfigEntry] | None = None,
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = is_read_only
        self.is_default = is_default
        self.is_sensitive = is_sensitive
        self.is_synonym = is_synonym
        self.synonyms = dict(synonyms or {})
        self.incremental_operation = incremental_operation

    @classmethod
    def of(cls, entry: OwnEntry) -> ConfigEntry:
        return cls(
            entry.name,
            entry.value,
            entry.source,
            entry.is_read_only,
            entry.is_default,
            entry.is_sensitive,
        )

    def __repr__(self) -> str:
        return f'ConfigEntry({self.name}="{self.value}")'

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


class ConfigResource:
    """A topic, broker or group, and settings to give it."""

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: Mapping[str, str] | None = None,
        described_configs: Mapping[str, ConfigEntry] | None = None,
        error: KafkaError | None = None,
        incremental_configs: Iterable[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("the name of a resource is a string, not None")
        if isinstance(restype, str):
            if restype.upper() not in ResourceType.__members__:
                raise ValueError(f"no resource type {restype!r}: write one of ConfigResource.Type")
            restype = ResourceType[restype.upper()]
        self.restype = ResourceType(restype)
        self.restype_int = int(self.restype)
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        """Give it a setting."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Give it a change of a setting."""
        self.incremental_configs.append(config_entry)

    def _place(self) -> tuple[int, str]:
        return int(self.restype), self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigResource) and self._place() == other._place()

    def __lt__(self, other: ConfigResource) -> bool:
        return self._place() < other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __len__(self) -> int:
        return len(self.set_config_dict)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        error = "" if self.error is None else f",{self.error!r}"
        return f"ConfigResource(ResourceType.{self.restype.name},{self.name}{error})"


class NewTopic:
    """A topic to create; -1: the broker's default."""

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: list[list[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment or []
        self.config = dict(config or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewTopic) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.topic)

    def __repr__(self) -> str:
        return f"NewTopic(topic={self.topic})"


class NewPartitions:
    """To how many partitions a topic is increased."""

    def __init__(
        self, topic: str, new_total_count: int, replica_assignment: list[list[int]] | None = None
    ) -> None:
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment or []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewPartitions) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.topic)

    def __repr__(self) -> str:
        return f"NewPartitions(topic={self.topic}, new_total_count={self.new_total_count})"


class OffsetSpec:
    """Which offset of a partition is asked for."""

    _MAX_TIMESTAMP: OffsetSpec
    _EARLIEST: OffsetSpec
    _LATEST: OffsetSpec

    def __init__(self, asked: int | str) -> None:
        self.asked = asked  # as klamm's admin takes it

    @classmethod
    def earliest(cls) -> OffsetSpec:
        return cls("earliest")

    @classmethod
    def latest(cls) -> OffsetSpec:
        return cls("latest")

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        return cls("max_timestamp")

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """The first offset at a time, in milliseconds since 1970."""
        return cls(timestamp)
