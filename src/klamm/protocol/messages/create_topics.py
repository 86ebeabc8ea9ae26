"""CreateTopics (key 19), versions 2 to 7 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class CreatableReplicaAssignment(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "broker_ids")
    SCHEMA = (
        (2, 7, "partition_index", "int32"),
        (2, 7, "broker_ids", "[]int32"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = broker_ids


class CreatableTopicConfig(Message):
    """Part of the request."""

    __slots__ = ("name", "value")
    SCHEMA = (
        (2, 7, "name", "string"),
        (2, 7, "value", "string?"),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    SCHEMA = (
        (2, 7, "name", "string"),
        (2, 7, "num_partitions", "int32"),
        (2, 7, "replication_factor", "int16"),
        (2, 7, "assignments", "[]CreatableReplicaAssignment"),
        (2, 7, "configs", "[]CreatableTopicConfig"),
    )

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Sequence[CreatableReplicaAssignment] = (),
        configs: Sequence[CreatableTopicConfig] = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = assignments
        self.configs = configs


class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """CreateTopics, the request."""

    __slots__ = ("topics", "timeout_ms", "validate_only", "knows_throttling")
    SCHEMA = (
        (2, 7, "topics", "[]CreatableTopic"),
        (2, 7, "timeout_ms", "int32"),
        (2, 7, "validate_only", "bool"),
    )

    def __init__(
        self,
        topics: Sequence[CreatableTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
        knows_throttling: bool = False,  # what the version implies
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.knows_throttling = knows_throttling


class CreatableTopicConfigs(Message):
    """Part of the response."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    SCHEMA = (
        (5, 7, "name", "string"),
        (5, 7, "value", "string?"),
        (5, 7, "read_only", "bool"),
        (5, 7, "config_source", "int8"),
        (5, 7, "is_sensitive", "bool"),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    """Part of the response."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    SCHEMA = (
        (2, 7, "name", "string"),
        (7, 7, "topic_id", "uuid"),
        (2, 7, "error_code", "int16"),
        (2, 7, "error_message", "string?"),
        (5, 7, "topic_config_error_code", "int16", 0),
        (5, 7, "num_partitions", "int32"),
        (5, 7, "replication_factor", "int16"),
        (5, 7, "configs", "[]CreatableTopicConfigs?"),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_ID,
        error_code: int = 0,
        error_message: str | None = None,
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Sequence[CreatableTopicConfigs] | None = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(Message):
    """CreateTopics, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (2, 7, "throttle_time_ms", "int32"),
        (2, 7, "topics", "[]CreatableTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
