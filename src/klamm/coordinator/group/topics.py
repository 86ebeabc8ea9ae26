"""The group coordinator's interface to topics: which exist, and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from klamm.assignors.base import PartitionView
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.records.core import TopicCommits
from klamm.records.layout import AskedPartition


class KnownTopic(NamedTuple):
    """A topic that exists."""

    name: str
    topic_id: bytes
    partition_count: int


class TopicDirectory(Protocol):
    """The current topics of the cluster."""

    def are_complete(self) -> bool:
        """Whether every topic is there for which offsets may have been committed."""
        ...

    @property
    def version(self) -> int:
        """It rises with every change of the topics."""
        ...

    def names(self) -> Iterable[str]: ...
    def by_name(self, name: str) -> KnownTopic | None: ...
    def by_id(self, topic_id: bytes) -> KnownTopic | None: ...

    def partition_views(self, name: str) -> Sequence[PartitionView]:
        """The racks of each partition; empty if no broker has one."""
        ...


def screen_commit(
    request: OffsetCommitRequest, directory: TopicDirectory
) -> tuple[OffsetCommitRequest, list[OffsetCommitResponseTopic]]:
    """The request for partitions that exist, with names and ids; and the answers for the others."""
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    uses_topic_ids = request.uses_topic_ids
    for topic in request.topics:
        known = directory.by_id(topic.topic_id) if uses_topic_ids else directory.by_name(topic.name)
        if known is None:
            missing = ErrorCode.unknown_topic_id if uses_topic_ids else ErrorCode.unknown_topic_or_partition
            answers = [
                OffsetCommitResponsePartition(each.partition_index, missing) for each in topic.partitions
            ]
            refused.append(OffsetCommitResponseTopic(topic.topic_id, topic.name, answers))
            continue
        name, topic_id, count = known
        partitions = topic.partitions
        if not _are_below(count, partitions):
            partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
            answers = [
                OffsetCommitResponsePartition(each.partition_index, ErrorCode.unknown_topic_or_partition)
                for each in topic.partitions
                if not 0 <= each.partition_index < count
            ]
            refused.append(OffsetCommitResponseTopic(topic_id, name, answers))
        if partitions:
            accepted.append(OffsetCommitRequestTopic(topic_id, name, partitions))
    # Spelled out: a copy by `but` is several times slower, and every commit passes here.
    screened = OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        accepted,
        request.knows_group_id_not_found,
        request.uses_topic_ids,
    )
    return screened, refused


def _are_below(count: int, partitions: Iterable[AskedPartition]) -> bool:
    if type(partitions) is TopicCommits:
        return partitions.lowest >= 0 and partitions.highest < count
    return all(0 <= each.partition_index < count for each in partitions)


def with_refused_commits(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """The whole answer as Kafka orders it: refused partitions first, and each topic once."""
    topics: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}
    for topic in (*refused, *response.topics):
        key = topic.topic_id, topic.name
        known = topics.setdefault(key, OffsetCommitResponseTopic(*key))
        known.partitions = [*known.partitions, *topic.partitions]
    return OffsetCommitResponse(topics=list(topics.values()))


def screen_txn_commit(
    request: TxnOffsetCommitRequest, directory: TopicDirectory
) -> tuple[TxnOffsetCommitRequest, list[TxnOffsetCommitResponseTopic]]:
    """The request for the partitions that exist, and the answers for the others."""
    accepted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = directory.by_name(topic.name)
        count = 0 if known is None else known.partition_count
        there = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if there:
            accepted.append(TxnOffsetCommitRequestTopic(topic.name, there))
        if known is None or len(there) < len(topic.partitions):
            answers = [
                TxnOffsetCommitResponsePartition(each.partition_index, ErrorCode.unknown_topic_or_partition)
                for each in topic.partitions
                if not 0 <= each.partition_index < count
            ]
            refused.append(TxnOffsetCommitResponseTopic(topic.name, answers))
    return request.but(topics=accepted), refused


def with_refused_txn_commits(
    response: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    """The whole answer as Kafka orders it: refused partitions first, and each topic once."""
    if not refused:
        return response
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in (*refused, *response.topics):
        known = topics.setdefault(topic.name, TxnOffsetCommitResponseTopic(topic.name))
        known.partitions = [*known.partitions, *topic.partitions]
    return TxnOffsetCommitResponse(topics=list(topics.values()))


class ScreenedDelete(NamedTuple):
    """A deletion for partitions that exist, and the answers for the others."""

    request: OffsetDeleteRequest
    refused: list[OffsetDeleteResponseTopic]


def screen_delete(request: OffsetDeleteRequest, directory: TopicDirectory) -> ScreenedDelete:
    """The request for partitions that exist, and the answers for the others."""
    accepted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        known = directory.by_name(topic.name)
        count = 0 if known is None else known.partition_count
        there = [each for each in topic.partitions if 0 <= each.partition_index < count]
        answers = [
            OffsetDeleteResponsePartition(each.partition_index, ErrorCode.unknown_topic_or_partition)
            for each in topic.partitions
            if not 0 <= each.partition_index < count
        ]
        if there:
            accepted.append(OffsetDeleteRequestTopic(topic.name, there))
        if answers or known is None:
            refused.append(OffsetDeleteResponseTopic(topic.name, answers))
    return ScreenedDelete(OffsetDeleteRequest(request.group_id, accepted), refused)


def with_refused_deletes(
    response: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    """The whole answer; an error of the group replaces all of it."""
    if response.error_code:
        return response
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (*refused, *response.topics):
        known = topics.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name))
        known.partitions = [*known.partitions, *topic.partitions]
    return OffsetDeleteResponse(topics=list(topics.values()))
