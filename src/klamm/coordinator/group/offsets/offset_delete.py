"""OffsetDelete: remove offsets of topics that the group does not read."""

from __future__ import annotations

from functools import partial

from klamm.coordinator.group.append_errors import commit_error
from klamm.coordinator.group.offsets.signals import DeletionRefused
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.remembered import OffsetForgotten
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(state: GroupState, request: OffsetDeleteRequest, context: Context) -> GroupOutcome:
    """Write tombstones for topics without a reader; deleting an absent offset succeeds."""
    group = state.groups.get(request.group_id)
    if group is None:
        return _refuse(context, ErrorCode.group_id_not_found)
    membership, memory = group.membership, group.memory
    error_code = membership.offset_delete_error()
    if error_code is not NO_ERROR:
        return _refuse(context, error_code)
    records: dict[OffsetForgotten, None] = {}
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        answers: list[OffsetDeleteResponsePartition] = []
        is_read = membership.is_subscribed_to(topic.name)
        for asked in topic.partitions:
            index = asked.partition_index
            if is_read:
                answers.append(OffsetDeleteResponsePartition(index, ErrorCode.group_subscribed_to_topic))
                continue
            answers.append(OffsetDeleteResponsePartition(index))
            if memory.committed(topic.name, index) is not None or memory.is_pending(topic.name, index):
                records[OffsetForgotten(request.group_id, topic.name, index)] = None
        topics.append(OffsetDeleteResponseTopic(topic.name, answers))
    response = OffsetDeleteResponse(topics=topics)
    return Outcome(
        records=tuple(records),
        replies=((context.token, response),),
        if_refused=partial(DeletionRefused, response),
        is_divisible=True,
    )


def _refuse(context: Context, error_code: ErrorCode) -> GroupOutcome:
    return reply(context, OffsetDeleteResponse(error_code=error_code))


def deletion_refused(state: GroupState, signal: DeletionRefused, context: Context) -> GroupOutcome:
    """Not all tombstones were written; the client may repeat the request."""
    error_code = commit_error(signal.error_code)
    response: OffsetDeleteResponse | DeleteGroupsResponse
    if isinstance(signal.response, OffsetDeleteResponse):
        response = OffsetDeleteResponse(error_code=error_code)
    else:
        response = DeleteGroupsResponse(
            results=[DeletableGroupResult(result.group_id, error_code) for result in signal.response.results]
        )
    return reply(context, response)
