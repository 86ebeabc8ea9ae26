"""Fetch (key 1), versions 4 to 18 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID, Buffer


@dataclass(slots=True)
class FetchPartition:
    """Part of the request."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_ID
    high_watermark: int = 9223372036854775807


@dataclass(slots=True)
class FetchTopic:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    topic: str = ""
    partitions: Sequence[FetchPartition] = ()


@dataclass(slots=True)
class ForgottenTopic:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    topic: str = ""
    partitions: Sequence[int] = ()


@dataclass(slots=True)
class ReplicaState:
    """Part of the request."""

    replica_id: int = -1
    replica_epoch: int = -1


@dataclass(slots=True)
class FetchRequest(Request["FetchResponse"]):
    """Fetch, the request."""

    cluster_id: str | None = None
    replica_state: ReplicaState | None = None
    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    uses_topic_ids: bool = False  # what the version implies
    knows_storage_error: bool = False  # what the version implies
    knows_leaders: bool = False  # what the version implies


@dataclass(slots=True)
class AbortedTransaction:
    """Part of the response."""

    producer_id: int = 0
    first_offset: int = 0


@dataclass(slots=True)
class EpochEndOffset:
    """Part of the response."""

    epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """Part of the response."""

    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class SnapshotId:
    """Part of the response."""

    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True)
class PartitionData:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int = -1
    records: Buffer | None = None


@dataclass(slots=True)
class FetchableTopicResponse:
    """Part of the response."""

    topic_id: bytes = ZERO_ID
    topic: str = ""
    partitions: Sequence[PartitionData] = ()


@dataclass(slots=True)
class NodeEndpoint:
    """Part of the response."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True)
class FetchResponse:
    """Fetch, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
