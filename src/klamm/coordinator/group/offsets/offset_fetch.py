"""OffsetFetch: how far a group has read, from memory.

Version 2 brings "all topics", 5 the leader epoch, 7 `require_stable`, 8 many groups, 10 topic ids. Here it is
always one group by topic names; the rest is put on around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import ZERO_ID


def offset_fetch(state: GroupState, request: OffsetFetchRequest, context: Context) -> GroupOutcome:
    """Answer for the one group of the request."""
    (asked,) = request.groups
    group = state.groups.get(asked.group_id)
    if group is not None:
        error_code = group.membership.offset_fetch_error(asked.member_id, asked.member_epoch)
        is_stale = error_code is ErrorCode.stale_member_epoch
        if error_code is not NO_ERROR and not (is_stale and _holds_all(state, group, asked)):
            refused = OffsetFetchResponseGroup(asked.group_id, error_code=error_code)
            return reply(context, OffsetFetchResponse(groups=[refused]))
    topics = [
        OffsetFetchResponseTopics(
            topic.topic_id,
            topic.name,
            [
                _fetched(state, group, topic, partition, request.require_stable)
                for partition in topic.partition_indexes
            ],
        )
        for topic in (_all_topics(state, group) if asked.topics is None else asked.topics)
    ]
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(asked.group_id, topics)])
    # Plain commits that are not durable are not shown; removals and transactional changes are waited for.
    return reply(context, response, None if group is None else group.memory.changed_until)


def _holds_all(state: GroupState, group: Group, asked: OffsetFetchRequestGroup) -> bool:
    """Whether a member with an earlier epoch has had all that it asks for since then."""
    for topic in asked.topics or ():
        known = None if state.topics is None else state.topics.by_name(topic.name)
        for partition in topic.partition_indexes:
            if known is None or not group.membership.holds_since(
                asked.member_id or "", asked.member_epoch, known.topic_id, partition
            ):
                return False
    return bool(asked.topics)


def _all_topics(state: GroupState, group: Group | None) -> Iterable[OffsetFetchRequestTopics]:
    if group is None:
        return
    for topic, table in group.memory.offsets.items():
        listed = table.partitions()
        if group.staged:
            # A first commit is not listed before it is durable.
            listed = [index for index in listed if state.durable(group, topic, index) is not None]
        if listed:
            yield OffsetFetchRequestTopics(name=topic, partition_indexes=listed)


def _fetched(
    state: GroupState,
    group: Group | None,
    topic: OffsetFetchRequestTopics,
    partition: int,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    if group is None:
        return OffsetFetchResponsePartitions(partition, -1, -1, "")
    name = topic.name
    is_unstable = require_stable and (
        state.replaced(group, name, partition) is not None or group.memory.is_pending(name, partition)
    )
    if is_unstable:
        return OffsetFetchResponsePartitions(partition, -1, -1, "", ErrorCode.unstable_offset_commit)
    committed = state.durable(group, name, partition)
    # A request by id does not mean an earlier topic of this name.
    if committed is None or (
        topic.topic_id != ZERO_ID and committed.topic_id not in (ZERO_ID, topic.topic_id)
    ):
        return OffsetFetchResponsePartitions(partition, -1, -1, "")
    return OffsetFetchResponsePartitions(
        partition, committed.offset, committed.leader_epoch, committed.metadata
    )
