"""OffsetCommit: store how far a group has read.

Versions 2 to 4 bring a retention time of their own, 6 the leader epoch, 7 the instance id, 9 a clearer error
for a group that is not there, 10 topic ids. Which topics exist is checked before a commit comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from klamm.coordinator.group.append_errors import commit_error
from klamm.coordinator.group.offsets.metadata import screen_metadata
from klamm.coordinator.group.offsets.mixing import report_mixing
from klamm.coordinator.group.offsets.notes import OffsetsCommitted
from klamm.coordinator.group.offsets.signals import CommitRefused
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.group.topics import with_refused_commits
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.records.layout import CommitBlock

# The epoch of a consumer group's member, or the generation that one of the classic protocol takes it for, is
# another one.
_STALE: Final = (ErrorCode.stale_member_epoch, ErrorCode.illegal_generation)
_BLOCK: Final = partial(tuple.__new__, CommitBlock)  # twice as fast as calling the class


def offset_commit(state: GroupState, request: OffsetCommitRequest, context: Context) -> GroupOutcome:
    """Write the offsets in one batch; those with too much metadata are refused one by one."""
    group = state.groups.get(request.group_id)
    error_code = _commit_error(group, request)
    if error_code in _STALE and group is not None:
        return _commit_held(state, group, request, context, error_code)
    if error_code is not NO_ERROR:
        return reply(context, refused_commit(request, error_code))
    return _commit(state, group, request, context)


def _commit_held(
    state: GroupState, group: Group, request: OffsetCommitRequest, context: Context, stale: ErrorCode
) -> GroupOutcome:
    """A member with an earlier epoch commits what it has held since then; the rest is refused."""
    epoch, holds_since = request.generation_id_or_member_epoch, group.membership.holds_since
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        held = [
            each
            for each in topic.partitions
            if holds_since(request.member_id, epoch, topic.topic_id, each.partition_index)
        ]
        if held:
            accepted.append(OffsetCommitRequestTopic(topic.topic_id, topic.name, held))
        numbers = {each.partition_index for each in held}
        answers = [
            OffsetCommitResponsePartition(each.partition_index, stale)
            for each in topic.partitions
            if each.partition_index not in numbers
        ]
        if answers:
            refused.append(OffsetCommitResponseTopic(topic.topic_id, topic.name, answers))
    if not accepted:
        return reply(context, OffsetCommitResponse(topics=refused))
    outcome = _commit(state, group, request.but(topics=accepted), context)
    ((token, response),) = outcome.replies
    assert isinstance(response, OffsetCommitResponse)
    merged = with_refused_commits(response, refused)
    outcome.replies = ((token, merged),)
    outcome.if_refused = partial(CommitRefused, merged)
    return outcome


def _commit(
    state: GroupState, group: Group | None, request: OffsetCommitRequest, context: Context
) -> GroupOutcome:
    response, records = _records(state, request, context)
    session = None if group is None else group.membership.session_of(request.member_id)
    if not records:
        # Nothing to store, but the member is alive. A request without topics does not count, as in Kafka.
        return Outcome(renewed=session if request.topics else None, replies=((context.token, response),))
    is_first = group is None or group.plain_commit_generation != group.membership.generation
    outcome: GroupOutcome = Outcome(
        ((context.token, response),),
        None,
        session,
        (OffsetsCommitted(request.group_id),) if is_first else (),
        (),
        (),
        records,
        (),
        (),
        (),
        partial(CommitRefused, response),
    )
    if group is not None and group.is_mixing(group.txn_commit_generation):
        note, event = report_mixing(group, request.member_id, context)
        outcome.notes = (*outcome.notes, note)
        outcome.events = (event,)
    return outcome


def _commit_error(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """Checks in Kafka's order."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return NO_ERROR  # a simple group begins with its first commit
        return (
            ErrorCode.group_id_not_found if request.knows_group_id_not_found else ErrorCode.illegal_generation
        )
    return group.membership.offset_commit_error(
        generation,
        request.member_id,
        request.group_instance_id,
        is_transactional=False,
        knows_epochs=request.knows_group_id_not_found,
    )


def _records(
    state: GroupState, request: OffsetCommitRequest, context: Context
) -> tuple[OffsetCommitResponse, Sequence[CommitBlock]]:
    """The answer if the append succeeds, and the records."""
    group_id, timestamp_ms, retention_ms = request.group_id, context.timestamp_ms, request.retention_time_ms
    expire_ms = -1 if retention_ms == -1 else _sum(timestamp_ms, retention_ms)
    topics: list[OffsetCommitResponseTopic] = []
    records: list[CommitBlock] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        commits, refused = screen_metadata(topic.partitions, state.config.offset_metadata_max_bytes)
        if commits:
            block = _BLOCK((group_id, name, topic_id, commits, timestamp_ms, expire_ms))
            if refused is None and len(request.topics) == 1:  # as most requests
                answers = state.commit_answers
                return answers.of(topic_id, name, commits), (block,)
            records.append(block)
        topics.append(OffsetCommitResponseTopic(topic_id, name, _answers(topic.partitions, refused)))
    return OffsetCommitResponse(topics=topics), records


def _answers(
    asked: Sequence[OffsetCommitRequestPartition], refused: Sequence[bool] | None
) -> list[OffsetCommitResponsePartition]:
    """The answers for the partitions of one topic."""
    if refused is None:
        return [OffsetCommitResponsePartition(each.partition_index) for each in asked]
    return [
        OffsetCommitResponsePartition(
            each.partition_index, is_refused and ErrorCode.offset_metadata_too_large
        )
        for each, is_refused in zip(asked, refused, strict=True)
    ]


def _sum(timestamp_ms: int, retention_ms: int) -> int:
    """Adds as Java does: a sum beyond 64 bits is negative, so that the offset expires at once."""
    return (timestamp_ms + retention_ms + (1 << 63)) % (1 << 64) - (1 << 63)


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
    """The answer when accepted offsets could not be written; refused ones keep their own error."""
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


def commit_refused(state: GroupState, signal: CommitRefused, context: Context) -> GroupOutcome:
    """The log rejected the batch: nothing was stored."""
    return reply(context, failed_commit(signal.response, commit_error(signal.error_code)))
