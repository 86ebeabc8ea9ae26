"""TxnOffsetCommit (key 28), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class TxnOffsetCommitRequestPartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    SCHEMA = (
        (0, 5, "partition_index", "int32"),
        (0, 5, "committed_offset", "int64"),
        (2, 5, "committed_leader_epoch", "int32"),
        (0, 5, "committed_metadata", "string?"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 5, "name", "string"),
        (0, 5, "partitions", "[]TxnOffsetCommitRequestPartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[TxnOffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """TxnOffsetCommit, the request."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
        "knows_member",
        "knows_load_in_progress",
        "knows_transaction_abortable",
        "adds_offsets",
    )
    SCHEMA = (
        (0, 5, "transactional_id", "string"),
        (0, 5, "group_id", "string"),
        (0, 5, "producer_id", "int64"),
        (0, 5, "producer_epoch", "int16"),
        (3, 5, "generation_id", "int32"),
        (3, 5, "member_id", "string"),
        (3, 5, "group_instance_id", "string?"),
        (0, 5, "topics", "[]TxnOffsetCommitRequestTopic"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequestTopic] = (),
        knows_member: bool = False,  # what the version implies
        knows_load_in_progress: bool = False,  # what the version implies
        knows_transaction_abortable: bool = False,  # what the version implies
        adds_offsets: bool = False,  # what the version implies
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics
        self.knows_member = knows_member
        self.knows_load_in_progress = knows_load_in_progress
        self.knows_transaction_abortable = knows_transaction_abortable
        self.adds_offsets = adds_offsets


class TxnOffsetCommitResponsePartition(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code")
    SCHEMA = (
        (0, 5, "partition_index", "int32"),
        (0, 5, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 5, "name", "string"),
        (0, 5, "partitions", "[]TxnOffsetCommitResponsePartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[TxnOffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitResponse(Message):
    """TxnOffsetCommit, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (0, 5, "throttle_time_ms", "int32"),
        (0, 5, "topics", "[]TxnOffsetCommitResponseTopic"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
