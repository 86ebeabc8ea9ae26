"""Groups of the consumer protocol, as their coordinators describe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klamm.client.admin.group_batches import ask_about
from klamm.client.admin.model import GroupDescription, MemberDescription
from klamm.client.calls import Calls, Deadline
from klamm.errors import KlammError
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from klamm.protocol.types import TopicPartition

_CLASSIC_MEMBER = 0


async def describe_consumer_groups(
    calls: Calls, group_ids: Sequence[str], deadline: Deadline
) -> dict[str, GroupDescription | KlammError]:
    """Those of the groups that are of the consumer protocol; errors for all others."""

    def items(
        response: ConsumerGroupDescribeResponse,
    ) -> Iterator[tuple[str, int, str | None, DescribedGroup]]:
        for item in response.groups:
            yield item.group_id, item.error_code, item.error_message, item

    found = await ask_about(
        calls, group_ids, ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, items, deadline
    )
    return {
        group_id: outcome if isinstance(outcome, KlammError) else _description(*outcome)
        for group_id, outcome in found.items()
    }


def _description(group: DescribedGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        coordinator_id,
        tuple(_member(item) for item in group.members),
        group_type="consumer",
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _member(item: Member) -> MemberDescription:
    return MemberDescription(
        item.member_id,
        item.instance_id,
        item.client_id,
        item.client_host,
        tuple(sorted(item.subscribed_topic_names)),
        _partitions(item.assignment),
        # Version 0 does not tell the protocol of a member.
        protocol="classic" if item.member_type == _CLASSIC_MEMBER else "consumer",
        epoch=item.member_epoch,
        target=_partitions(item.target_assignment),
        regex=item.subscribed_topic_regex or None,
    )


def _partitions(assignment: Assignment | None) -> tuple[TopicPartition, ...]:
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )
