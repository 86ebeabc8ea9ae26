"""Fetch (key 1), versions 4 to 18 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID, Buffer


class FetchPartition(Message):
    """Part of the request."""

    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )
    SCHEMA = (
        (4, 18, "partition", "int32"),
        (9, 18, "current_leader_epoch", "int32"),
        (4, 18, "fetch_offset", "int64"),
        (12, 18, "last_fetched_epoch", "int32"),
        (5, 18, "log_start_offset", "int64"),
        (4, 18, "partition_max_bytes", "int32"),
        (17, 18, "replica_directory_id", "uuid", 0),
        (18, 18, "high_watermark", "int64", 1),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_ID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "topic", "partitions")
    SCHEMA = (
        (13, 18, "topic_id", "uuid"),
        (4, 12, "topic", "string"),
        (4, 18, "partitions", "[]FetchPartition"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        topic: str = "",
        partitions: Sequence[FetchPartition] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = partitions


class ForgottenTopic(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "topic", "partitions")
    SCHEMA = (
        (13, 18, "topic_id", "uuid"),
        (7, 12, "topic", "string"),
        (7, 18, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = partitions


class ReplicaState(Message):
    """Part of the request."""

    __slots__ = ("replica_id", "replica_epoch")
    SCHEMA = (
        (15, 18, "replica_id", "int32"),
        (15, 18, "replica_epoch", "int64"),
    )

    def __init__(
        self,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchRequest(Request["FetchResponse"]):
    """Fetch, the request."""

    __slots__ = (
        "cluster_id",
        "replica_state",
        "replica_id",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
        "uses_topic_ids",
        "knows_storage_error",
        "knows_leaders",
    )
    SCHEMA = (
        (12, 18, "cluster_id", "string?", 0),
        (15, 18, "replica_state", "ReplicaState", 1),
        (4, 14, "replica_id", "int32"),
        (4, 18, "max_wait_ms", "int32"),
        (4, 18, "min_bytes", "int32"),
        (4, 18, "max_bytes", "int32"),
        (4, 18, "isolation_level", "int8"),
        (7, 18, "session_id", "int32"),
        (7, 18, "session_epoch", "int32"),
        (4, 18, "topics", "[]FetchTopic"),
        (7, 18, "forgotten_topics_data", "[]ForgottenTopic"),
        (11, 18, "rack_id", "string"),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_state: ReplicaState | None = None,
        replica_id: int = -1,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Sequence[FetchTopic] = (),
        forgotten_topics_data: Sequence[ForgottenTopic] = (),
        rack_id: str = "",
        uses_topic_ids: bool = False,  # what the version implies
        knows_storage_error: bool = False,  # what the version implies
        knows_leaders: bool = False,  # what the version implies
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_state = replica_state
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id
        self.uses_topic_ids = uses_topic_ids
        self.knows_storage_error = knows_storage_error
        self.knows_leaders = knows_leaders


class AbortedTransaction(Message):
    """Part of the response."""

    __slots__ = ("producer_id", "first_offset")
    SCHEMA = (
        (4, 18, "producer_id", "int64"),
        (4, 18, "first_offset", "int64"),
    )

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class EpochEndOffset(Message):
    """Part of the response."""

    __slots__ = ("epoch", "end_offset")
    SCHEMA = (
        (12, 18, "epoch", "int32"),
        (12, 18, "end_offset", "int64"),
    )

    def __init__(
        self,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    """Part of the response."""

    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = (
        (12, 18, "leader_id", "int32"),
        (12, 18, "leader_epoch", "int32"),
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    """Part of the response."""

    __slots__ = ("end_offset", "epoch")
    SCHEMA = (
        (12, 18, "end_offset", "int64"),
        (12, 18, "epoch", "int32"),
    )

    def __init__(
        self,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class PartitionData(Message):
    """Part of the response."""

    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )
    SCHEMA = (
        (4, 18, "partition_index", "int32"),
        (4, 18, "error_code", "int16"),
        (4, 18, "high_watermark", "int64"),
        (4, 18, "last_stable_offset", "int64"),
        (5, 18, "log_start_offset", "int64"),
        (12, 18, "diverging_epoch", "EpochEndOffset", 0),
        (12, 18, "current_leader", "LeaderIdAndEpoch", 1),
        (12, 18, "snapshot_id", "SnapshotId", 2),
        (4, 18, "aborted_transactions", "[]AbortedTransaction?"),
        (11, 18, "preferred_read_replica", "int32"),
        (4, 18, "records", "records?"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: Sequence[AbortedTransaction] | None = (),
        preferred_read_replica: int = -1,
        records: Buffer | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Message):
    """Part of the response."""

    __slots__ = ("topic_id", "topic", "partitions")
    SCHEMA = (
        (13, 18, "topic_id", "uuid"),
        (4, 12, "topic", "string"),
        (4, 18, "partitions", "[]PartitionData"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        topic: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = partitions


class NodeEndpoint(Message):
    """Part of the response."""

    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = (
        (16, 18, "node_id", "int32"),
        (16, 18, "host", "string"),
        (16, 18, "port", "int32"),
        (16, 18, "rack", "string?"),
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(Message):
    """Fetch, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    SCHEMA = (
        (4, 18, "throttle_time_ms", "int32"),
        (7, 18, "error_code", "int16"),
        (7, 18, "session_id", "int32"),
        (4, 18, "responses", "[]FetchableTopicResponse"),
        (16, 18, "node_endpoints", "[]NodeEndpoint", 0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Sequence[FetchableTopicResponse] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints
