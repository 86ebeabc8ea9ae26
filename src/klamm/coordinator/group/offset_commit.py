"""OffsetCommit: remember how far a group has read.

Versions 2 to 4 bring a retention time of their own, 6 the leader epoch, 7 the instance id, 9 a clearer error
for a group that is not there, 10 topic ids. Which topics exist is checked before a commit comes here.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.coordinator.group.checks import commit_error, membership_error
from klamm.coordinator.group.draft import GroupOutcome, reply
from klamm.coordinator.group.notes import OffsetsStaged, OffsetsUnstaged
from klamm.coordinator.group.phases import Phase
from klamm.coordinator.group.rebalance import NOTHING
from klamm.coordinator.group.remembered import Before, CommittedOffset, OffsetCommitted
from klamm.coordinator.group.signals import CommitDurable, CommitRefused
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_NONE = int(ErrorCode.none)
# Nobody changes an answer, so one for each of the usual partitions serves every commit.
_ACCEPTED: Final = tuple([OffsetCommitResponsePartition(index, _NONE) for index in range(256)])


def offset_commit(state: GroupState, request: OffsetCommitRequest, context: Context) -> GroupOutcome:
    """Write the offsets down, all in one batch; those with too much metadata are refused singly."""
    group = state.groups.get(request.group_id)
    error_code = _commit_error(group, request)
    if error_code is not ErrorCode.none:
        return reply(context, refused_commit(request, error_code))
    response, records, before = _staged(state, group, request, context)
    if not records:
        return reply(context, response)
    return Outcome(
        records=records,
        notes=(OffsetsStaged(request.group_id, before),),
        renewed=None if group is None else group.live.members.get(request.member_id),
        replies=((context.token, response),),
        once_durable=(CommitDurable(request.group_id, before),),
        if_refused=partial(CommitRefused, response),
    )


def _commit_error(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """Checks in Kafka's order."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.none  # a simple group begins with its first commit
        return (
            ErrorCode.group_id_not_found if request.knows_group_id_not_found else ErrorCode.illegal_generation
        )
    live = group.live
    phase = live.phase
    if phase is Phase.DEAD:
        return ErrorCode.coordinator_not_available
    if generation < 0 and phase is Phase.EMPTY:
        return ErrorCode.none
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.unknown_member_id  # it has members, and this is none of them
    error_code = membership_error(live, request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.none:
        return error_code
    if generation != live.generation:
        return ErrorCode.illegal_generation
    if phase is Phase.COMPLETING:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _staged(
    state: GroupState, group: Group | None, request: OffsetCommitRequest, context: Context
) -> tuple[OffsetCommitResponse, list[OffsetCommitted], Before]:
    """The answer if all goes well, the records, and what the partitions had before."""
    group_id, timestamp_ms = request.group_id, context.timestamp_ms
    expire_ms = -1 if request.retention_time_ms == -1 else _sum(timestamp_ms, request.retention_time_ms)
    max_metadata = state.config.offset_metadata_max_bytes
    known = {} if group is None else group.memory.offsets
    topics: list[OffsetCommitResponseTopic] = []
    records: list[OffsetCommitted] = []
    before: Before = {}
    new, usual = tuple.__new__, len(_ACCEPTED)
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        stored = known.get(name, {})
        answers: list[OffsetCommitResponsePartition] = []
        for asked in topic.partitions:
            partition = asked.partition_index
            metadata = asked.committed_metadata or ""
            if metadata and _is_too_long(metadata, max_metadata):
                answers.append(OffsetCommitResponsePartition(partition, ErrorCode.offset_metadata_too_large))
                continue
            answers.append(
                _ACCEPTED[partition]
                if 0 <= partition < usual
                else OffsetCommitResponsePartition(partition, _NONE)
            )
            # Filling the tuples directly takes half the time of calling their classes.
            committed = new(
                CommittedOffset,
                (
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    metadata,
                    timestamp_ms,
                    expire_ms,
                    topic_id,
                ),
            )
            records.append(new(OffsetCommitted, (group_id, name, partition, committed)))
            before[name, partition] = stored.get(partition)
        topics.append(OffsetCommitResponseTopic(topic_id, name, answers))
    return OffsetCommitResponse(topics=topics), records, before


def _sum(timestamp_ms: int, retention_ms: int) -> int:
    """As Java adds: what is kept for longer than there is time is gone at once."""
    return (timestamp_ms + retention_ms + (1 << 63)) % (1 << 64) - (1 << 63)


def _is_too_long(text: str, max_units: int) -> bool:
    """By the length that Java sees: the limit counts UTF-16 units, not characters and not bytes."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    return units > max_units


def refused_commit(request: OffsetCommitRequest, error_code: ErrorCode) -> OffsetCommitResponse:
    """One error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.topic_id,
                topic.name,
                [
                    OffsetCommitResponsePartition(asked.partition_index, error_code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def failed_commit(response: OffsetCommitResponse, error_code: ErrorCode) -> OffsetCommitResponse:
    """The answer when what was accepted could not be written; what was refused stays refused."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.topic_id,
                topic.name,
                [
                    OffsetCommitResponsePartition(answer.partition_index, answer.error_code or error_code)
                    for answer in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


def commit_durable(state: GroupState, signal: CommitDurable, context: Context) -> GroupOutcome:
    """From here on a stable fetch sees the commit."""
    group = state.groups.get(signal.group_id)
    if group is None or id(signal.before) not in group.staged:
        return NOTHING  # the group was deleted meanwhile
    return Outcome(notes=(OffsetsUnstaged(signal.group_id, signal.before),))


def commit_refused(state: GroupState, signal: CommitRefused, context: Context) -> GroupOutcome:
    """Nothing was written; say so in the client's terms."""
    return reply(context, failed_commit(signal.response, commit_error(signal.error_code)))
