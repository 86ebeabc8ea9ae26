"""ElectLeaders (key 43), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class TopicPartitions(Message):
    """Part of the request."""

    __slots__ = ("topic", "partitions")
    SCHEMA = (
        (0, 2, "topic", "string"),
        (0, 2, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """ElectLeaders, the request."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    SCHEMA = (
        (1, 2, "election_type", "int8"),
        (0, 2, "topic_partitions", "[]TopicPartitions?"),
        (0, 2, "timeout_ms", "int32"),
    )

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: Sequence[TopicPartitions] | None = (),
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Message):
    """Part of the response."""

    __slots__ = ("partition_id", "error_code", "error_message")
    SCHEMA = (
        (0, 2, "partition_id", "int32"),
        (0, 2, "error_code", "int16"),
        (0, 2, "error_message", "string?"),
    )

    def __init__(
        self,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    """Part of the response."""

    __slots__ = ("topic", "partition_result")
    SCHEMA = (
        (0, 2, "topic", "string"),
        (0, 2, "partition_result", "[]PartitionResult"),
    )

    def __init__(
        self,
        topic: str = "",
        partition_result: Sequence[PartitionResult] = (),
    ) -> None:
        self.topic = topic
        self.partition_result = partition_result


class ElectLeadersResponse(Message):
    """ElectLeaders, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (1, 2, "error_code", "int16"),
        (0, 2, "replica_election_results", "[]ReplicaElectionResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Sequence[ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results
