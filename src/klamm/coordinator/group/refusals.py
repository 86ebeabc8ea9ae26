"""Error answers of each API."""

from __future__ import annotations

from klamm.coordinator.group.consumer.validation import refused_heartbeat
from klamm.coordinator.group.offsets.offset_commit import failed_commit, refused_commit
from klamm.coordinator.group.offsets.txn_offset_commit import failed_txn_commit, refused_txn_commit
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from klamm.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroupDescribed
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from klamm.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.inspect_groups import (
    InspectedGroup,
    InspectGroupsRequest,
    InspectGroupsResponse,
)
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from klamm.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

LOADING = ErrorCode.coordinator_load_in_progress


def error_response(request: object, error_code: ErrorCode) -> object:
    """The answer to a request that cannot be decided."""
    match request:
        case HeartbeatRequest():
            # As in Kafka: the member keeps its session while the shard loads.
            return HeartbeatResponse(error_code=ErrorCode.none if error_code is LOADING else error_code)
        case SyncGroupRequest():
            # The Java client treats "loading" as fatal here; with this error it joins again.
            is_loading = error_code is LOADING
            return SyncGroupResponse(error_code=ErrorCode.rebalance_in_progress if is_loading else error_code)
        case JoinGroupRequest():
            # Kafka echoes no member id where it has no shard.
            is_elsewhere = error_code in (LOADING, ErrorCode.not_coordinator)
            return JoinGroupResponse(
                error_code=error_code, member_id="" if is_elsewhere else request.member_id
            )
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error_code)
        case OffsetCommitRequest():
            return refused_commit(request, error_code)
        case TxnOffsetCommitRequest():
            return refused_txn_commit(request, error_code)
        case OffsetFetchRequest():
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error_code)
                    for asked in request.groups
                ]
            )
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error_code)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=[
                    DescribedGroup(group_id=group_id, error_code=error_code) for group_id in request.groups
                ]
            )
        case InspectGroupsRequest():
            return InspectGroupsResponse(
                groups=[
                    InspectedGroup(error_code=error_code, group_id=group_id) for group_id in request.groups
                ]
            )
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id, error_code) for group_id in request.groups_names]
            )
        case ConsumerGroupHeartbeatRequest():
            return refused_heartbeat(error_code)
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(
                groups=[
                    ConsumerGroupDescribed(error_code=error_code, group_id=group_id)
                    for group_id in request.group_ids
                ]
            )
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error_code)
        case _:
            raise TypeError(f"{type(request).__name__} is not a request to the group coordinator")


def as_error(response: object, error_code: ErrorCode) -> object:
    """The error that replaces an answer whose records were lost before it was sent."""
    match response:
        case HeartbeatResponse():
            return HeartbeatResponse(error_code=error_code)
        case SyncGroupResponse():
            return SyncGroupResponse(error_code=error_code)
        case JoinGroupResponse():
            return JoinGroupResponse(error_code=error_code, member_id=response.member_id)
        case LeaveGroupResponse():
            return LeaveGroupResponse(error_code=error_code)
        case OffsetCommitResponse():
            return failed_commit(response, error_code)
        case TxnOffsetCommitResponse():
            return failed_txn_commit(response, error_code)
        case OffsetFetchResponse():
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponseGroup(group_id=answer.group_id, error_code=error_code)
                    for answer in response.groups
                ]
            )
        case OffsetDeleteResponse():
            return OffsetDeleteResponse(error_code=error_code)
        case DescribeGroupsResponse():
            return DescribeGroupsResponse(
                groups=[
                    DescribedGroup(group_id=answer.group_id, error_code=error_code)
                    for answer in response.groups
                ]
            )
        case InspectGroupsResponse():
            return InspectGroupsResponse(
                groups=[
                    InspectedGroup(error_code=error_code, group_id=answer.group_id)
                    for answer in response.groups
                ]
            )
        case DeleteGroupsResponse():
            return DeleteGroupsResponse(
                results=[DeletableGroupResult(answer.group_id, error_code) for answer in response.results]
            )
        case ConsumerGroupHeartbeatResponse():
            return refused_heartbeat(error_code)
        case ConsumerGroupDescribeResponse():
            return ConsumerGroupDescribeResponse(
                groups=[
                    ConsumerGroupDescribed(error_code=error_code, group_id=answer.group_id)
                    for answer in response.groups
                ]
            )
        case ListGroupsResponse():
            return ListGroupsResponse(error_code=error_code)
        case _:
            raise TypeError(f"{type(response).__name__} is not a response of the group coordinator")
