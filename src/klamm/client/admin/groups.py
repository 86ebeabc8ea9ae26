"""Consumer groups: list, describe, delete, and remove members."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.client.admin.model import GroupDescription, ListedGroup, MemberDescription
from klamm.client.admin.results import Results
from klamm.client.calls import Calls
from klamm.errors import KlammError, broker_error
from klamm.net.tasks import gather
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def list_groups(
    calls: Calls, *, states: Sequence[str], types: Sequence[str], timeout_ms: int | None
) -> list[ListedGroup]:
    """The groups of every broker; raises if one of them does not respond."""
    deadline = calls.deadline("listing groups", timeout_ms)
    await calls.cluster_known(deadline)
    found: dict[str, ListedGroup] = {}
    for broker_id in sorted(calls.core.metadata.cluster.brokers):
        request = ListGroupsRequest(list(states), list(types))
        while True:
            response: ListGroupsResponse = await calls.to_broker(
                broker_id, ApiKey.LIST_GROUPS, request, deadline
            )
            if not response.error_code:
                break
            await deadline.pause(broker_error(response.error_code, f"groups of broker {broker_id}"))
        for item in response.groups:
            found[item.group_id] = ListedGroup(
                item.group_id, item.protocol_type, item.group_state, item.group_type
            )
    return [found[group_id] for group_id in sorted(found)]


async def describe_groups(
    calls: Calls, group_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, GroupDescription]:
    described = [calls.core.tasks.spawn(_describe(calls, item, timeout_ms)) for item in group_ids]
    outcomes = await gather(described)
    return Results(zip(group_ids, outcomes, strict=True))


async def _describe(calls: Calls, group_id: str, timeout_ms: int | None) -> GroupDescription:
    deadline = calls.deadline(f"describing group {group_id}", timeout_ms)
    response: DescribeGroupsResponse
    response, coordinator_id = await calls.to_coordinator(
        group_id,
        ApiKey.DESCRIBE_GROUPS,
        DescribeGroupsRequest([group_id]),
        deadline,
        lambda answer: [item.error_code for item in answer.groups],
    )
    if not response.groups:
        raise broker_error(ErrorCode.group_id_not_found, f"group {group_id}")
    group: DescribedGroup = response.groups[0]
    if group.error_code:
        raise broker_error(group.error_code, f"group {group_id}", group.error_message)
    if group.group_state == "Dead":
        raise broker_error(ErrorCode.group_id_not_found, f"group {group_id}")
    return GroupDescription(
        group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        coordinator_id,
        tuple(_member(item, group.protocol_type) for item in group.members),
    )


def _member(item: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    topics: tuple[str, ...] | None = None
    assignment = None
    if protocol_type == "consumer":
        try:
            if item.member_metadata:
                topics = tuple(sorted(decode_subscription(item.member_metadata).topics))
            if item.member_assignment:
                assignment = tuple(sorted(decode_assignment(item.member_assignment).partitions))
        except DecodeError:
            topics = assignment = None  # a group that only calls itself a consumer's
    return MemberDescription(
        item.member_id, item.group_instance_id, item.client_id, item.client_host, topics, assignment
    )


async def delete_groups(
    calls: Calls, group_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, None]:
    deleted = [calls.core.tasks.spawn(_delete(calls, item, timeout_ms)) for item in group_ids]
    outcomes = await gather(deleted)
    return Results(zip(group_ids, outcomes, strict=True))


async def _delete(calls: Calls, group_id: str, timeout_ms: int | None) -> None:
    deadline = calls.deadline(f"deleting group {group_id}", timeout_ms)
    response: DeleteGroupsResponse
    response, _ = await calls.to_coordinator(
        group_id,
        ApiKey.DELETE_GROUPS,
        DeleteGroupsRequest([group_id]),
        deadline,
        lambda answer: [item.error_code for item in answer.results],
    )
    for item in response.results:
        if item.error_code:
            raise broker_error(item.error_code, f"group {group_id}")


async def remove_members(
    calls: Calls,
    group_id: str,
    *,
    instance_ids: Sequence[str] | None,
    member_ids: Sequence[str],
    reason: str,
    timeout_ms: int | None,
) -> Results[str, None]:
    """Remove static members by instance id, others by member id, or all members (both arguments None)."""
    deadline = calls.deadline(f"removing members of {group_id}", timeout_ms)
    members = [MemberIdentity("", instance_id, reason) for instance_id in instance_ids or ()]
    members += [MemberIdentity(member_id, None, reason) for member_id in member_ids]
    if instance_ids is None and not member_ids:
        group = await _describe(calls, group_id, deadline.remaining_ms())
        members = [
            MemberIdentity("", item.group_instance_id, reason)
            if item.group_instance_id is not None
            else MemberIdentity(item.member_id, None, reason)
            for item in group.members
        ]
    results: dict[str, KlammError | None] = {}
    if not members:
        return Results(results)
    response: LeaveGroupResponse
    response, _ = await calls.to_coordinator(
        group_id,
        ApiKey.LEAVE_GROUP,
        _leave_request(group_id, members),
        deadline,
        lambda answer: [answer.error_code],
    )
    if response.error_code:
        raise broker_error(response.error_code, f"group {group_id}")
    for item in response.members:
        name = item.group_instance_id or item.member_id
        error: KlammError | None = None
        if item.error_code:
            error = broker_error(item.error_code, f"member {name} of {group_id}")
        results[name] = error
    return Results(results)


def _leave_request(group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group_id, members=members, member_id=members[0].member_id)
