"""Splits an OffsetFetch of any version into requests for one group by topic name, and merges the answers."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.coordinator.group.topics import TopicDirectory
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import ZERO_ID


def split_fetch(request: OffsetFetchRequest, directory: TopicDirectory) -> list[OffsetFetchRequest]:
    """One request per group. `merge_fetch` answers for topics with an unknown id, after all others."""
    if request.is_batched:
        groups: Sequence[OffsetFetchRequestGroup] = request.groups
    else:
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(ZERO_ID, topic.name, topic.partition_indexes)
                for topic in request.topics
            ]
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]
    return [
        OffsetFetchRequest(
            groups=[_named(group, directory) if request.uses_topic_ids else group],
            require_stable=request.require_stable,
            is_batched=True,
        )
        for group in groups
    ]


def _named(group: OffsetFetchRequestGroup, directory: TopicDirectory) -> OffsetFetchRequestGroup:
    if group.topics is None:
        return group
    topics = [
        OffsetFetchRequestTopics(known.topic_id, known.name, topic.partition_indexes)
        for topic in group.topics
        if (known := directory.by_id(topic.topic_id)) is not None
    ]
    return OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, topics)


def merge_fetch(
    request: OffsetFetchRequest, directory: TopicDirectory, answers: Sequence[OffsetFetchResponse]
) -> OffsetFetchResponse:
    """One answer in the format of the request's version."""
    groups = [group for answer in answers for group in answer.groups]
    if request.uses_topic_ids:
        groups = [
            _with_ids(asked, group, directory) for asked, group in zip(request.groups, groups, strict=True)
        ]
    if request.is_batched:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if not group.error_code:
        return OffsetFetchResponse(topics=_flat(group.topics))
    if request.has_top_level_error:
        return OffsetFetchResponse(error_code=group.error_code)
    return OffsetFetchResponse(topics=_error_on_each(request.topics or (), group.error_code))


def _with_ids(
    asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, directory: TopicDirectory
) -> OffsetFetchResponseGroup:
    if group.error_code:
        return group
    if asked.topics is None:
        topics = [
            OffsetFetchResponseTopics(known.topic_id, found.name, found.partitions)
            for found in group.topics
            if (known := directory.by_name(found.name)) is not None  # a deleted topic has no id
        ]
        return OffsetFetchResponseGroup(group.group_id, topics)
    answered = {topic.topic_id for topic in group.topics}
    unknown = [
        OffsetFetchResponseTopics(
            topic.topic_id,
            topic.name,
            [
                OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.unknown_topic_id)
                for index in topic.partition_indexes
            ],
        )
        for topic in asked.topics
        if topic.topic_id not in answered
    ]
    return OffsetFetchResponseGroup(group.group_id, [*group.topics, *unknown])


def _flat(topics: Sequence[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def _error_on_each(
    topics: Sequence[OffsetFetchRequestTopic], error_code: int
) -> list[OffsetFetchResponseTopic]:
    """Version 1 has no other field for an error of the group."""
    return [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(index, -1, -1, "", error_code)
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]
