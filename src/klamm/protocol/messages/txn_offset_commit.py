"""TxnOffsetCommit (key 28), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition:
    """Part of the request."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()


@dataclass(slots=True)
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """TxnOffsetCommit, the request."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()
    knows_member: bool = False  # what the version implies
    knows_load_in_progress: bool = False  # what the version implies
    knows_transaction_abortable: bool = False  # what the version implies
    adds_offsets: bool = False  # what the version implies


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()


@dataclass(slots=True)
class TxnOffsetCommitResponse:
    """TxnOffsetCommit, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()
