"""ConsumerGroupDescribe: a group with its epochs, and each member with what it has and should have.

Version 1 tells the protocol of each member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.coordinator.group.consumer.assigning import preferred_assignor
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.consumer.remembered import ConsumerMemory, CurrentValue
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_group(
    state: GroupState, request: ConsumerGroupDescribeRequest, context: Context
) -> GroupOutcome:
    """Describe the one group of the request."""
    (group_id,) = request.group_ids
    group = state.groups.get(group_id)
    live = consumer_membership(group)
    if group is None or live is None:
        problem = "not found" if group is None else "is not a consumer group"
        described = DescribedGroup(
            error_code=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} {problem}.",
            group_id=group_id,
        )
        return reply(context, ConsumerGroupDescribeResponse(groups=[described]))
    memory = live.memory
    described = DescribedGroup(
        group_id=group_id,
        group_state=live.state_name,
        group_epoch=memory.epoch,
        assignment_epoch=memory.target_epoch,
        assignor_name=preferred_assignor(state, memory.members).name,
        members=[_member(state, memory, member_id) for member_id in memory.members],
    )
    return reply(context, ConsumerGroupDescribeResponse(groups=[described]), group.memory.registered_until)


def _member(state: GroupState, memory: ConsumerMemory, member_id: str) -> Member:
    member = memory.members[member_id]
    current = memory.current.get(member_id, CurrentValue(0, -1))
    held: dict[bytes, list[int]] = {}
    for holding in (current.assigned, current.pending):  # what it has to give up, it has
        for topic_id, partitions in holding.items():
            held.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(state, held),
        target_assignment=_assignment(state, memory.targets.get(member_id, {})),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(state: GroupState, held: Mapping[bytes, Iterable[int]]) -> Assignment:
    """Topics that were deleted meanwhile have no name, and are left out."""
    found = []
    for topic_id, partitions in held.items():
        known = None if state.topics is None else state.topics.by_id(topic_id)
        if known is not None:
            found.append(TopicPartitions(topic_id, known.name, sorted(partitions)))
    return Assignment(found)
