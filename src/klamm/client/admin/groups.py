"""Consumer groups: list, describe, delete, and remove members."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from klamm.client.admin.consumer_groups import describe_consumer_groups
from klamm.client.admin.group_batches import ask_about
from klamm.client.admin.model import GroupDescription, ListedGroup, MemberDescription
from klamm.client.admin.results import Results
from klamm.client.calls import Calls
from klamm.errors import BrokerError, KlammError, broker_error
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
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest, InspectGroupsResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.trace_groups import TraceGroupsRequest, TraceGroupsResponse
from klamm.protocol.types import TopicPartition


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
    """Groups with their members, as their coordinators describe them."""
    deadline = calls.deadline(f"describing group {', '.join(group_ids[:3])}", timeout_ms)

    def items(response: DescribeGroupsResponse) -> Iterator[tuple[str, int, str | None, DescribedGroup]]:
        for item in response.groups:
            is_missing = not item.error_code and item.group_state == "Dead"
            error_code = ErrorCode.group_id_not_found if is_missing else item.error_code
            yield item.group_id, error_code, item.error_message, item

    found = await ask_about(
        calls,
        group_ids,
        ApiKey.DESCRIBE_GROUPS,
        lambda ids: DescribeGroupsRequest(list(ids)),
        items,
        deadline,
    )
    results = {group_id: _description(found[group_id]) for group_id in group_ids}
    absent = [group_id for group_id, outcome in results.items() if _is_absent(outcome)]
    if absent:
        others = await describe_consumer_groups(calls, absent, deadline)
        results.update({name: other for name, other in others.items() if not isinstance(other, KlammError)})
    return Results(results)


def _is_absent(outcome: GroupDescription | KlammError) -> bool:
    """Whether the group does not exist, or is none of the classic protocol."""
    return isinstance(outcome, BrokerError) and outcome.error_code == ErrorCode.group_id_not_found


def _description(found: tuple[DescribedGroup, int] | KlammError) -> GroupDescription | KlammError:
    if isinstance(found, KlammError):
        return found
    group, coordinator_id = found
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        coordinator_id,
        tuple(_member(item, group) for item in group.members),
    )


async def inspect_groups(
    calls: Calls, group_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, dict[str, Any]]:
    """What klamm's coordinators know of groups. UnsupportedVersionError: the broker is not klamm's."""
    deadline = calls.deadline(f"inspecting group {', '.join(group_ids[:3])}", timeout_ms)

    def items(response: InspectGroupsResponse) -> Iterator[tuple[str, int, str | None, bytes]]:
        for item in response.groups:
            yield item.group_id, item.error_code, item.error_message, item.content

    found = await ask_about(calls, group_ids, ApiKey.INSPECT_GROUPS, InspectGroupsRequest, items, deadline)
    return _contents(group_ids, found)


async def trace_groups(
    calls: Calls, group_ids: Sequence[str], *, after: int, timeout_ms: int | None
) -> Results[str, dict[str, Any]]:
    """Trace groups, and what was seen since an entry. UnsupportedVersionError: the broker is not klamm's."""
    deadline = calls.deadline(f"tracing group {', '.join(group_ids[:3])}", timeout_ms)

    def items(response: TraceGroupsResponse) -> Iterator[tuple[str, int, str | None, bytes]]:
        for item in response.groups:
            yield item.group_id, item.error_code, item.error_message, item.content

    found = await ask_about(
        calls, group_ids, ApiKey.TRACE_GROUPS, lambda ids: TraceGroupsRequest(ids, after), items, deadline
    )
    return _contents(group_ids, found)


def _contents(
    group_ids: Sequence[str], found: Mapping[str, tuple[bytes, int] | KlammError]
) -> Results[str, dict[str, Any]]:
    """What klamm's own APIs answer: JSON, and which broker it is from."""
    results: dict[str, dict[str, Any] | KlammError] = {}
    for group_id in group_ids:
        outcome = found[group_id]
        if isinstance(outcome, KlammError):
            results[group_id] = outcome
        else:
            content, coordinator_id = outcome
            results[group_id] = {**json.loads(content), "coordinator": coordinator_id}
    return Results(results)


def _member(item: DescribedGroupMember, group: DescribedGroup) -> MemberDescription:
    topics: tuple[str, ...] | None = None
    assignment: tuple[TopicPartition, ...] | None = None
    has_user_data = False
    if group.protocol_type == "consumer":
        try:
            if item.member_metadata:
                topics = tuple(sorted(decode_subscription(item.member_metadata).topics))
            if item.member_assignment:
                given = decode_assignment(item.member_assignment)
                assignment, has_user_data = tuple(sorted(given.partitions)), bool(given.user_data)
            elif group.group_state == "Stable":
                assignment = ()  # its leader has left it out
        except DecodeError:
            topics = assignment = None  # a group that only calls itself a consumer's
    return MemberDescription(
        item.member_id,
        item.group_instance_id,
        item.client_id,
        item.client_host,
        topics,
        assignment,
        has_user_data=has_user_data,
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
        described = await describe_groups(calls, [group_id], timeout_ms=deadline.remaining_ms())
        group = described.unwrap()[group_id]
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
