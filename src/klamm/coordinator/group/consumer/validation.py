"""What a ConsumerGroupHeartbeat must look like, whatever the group; checked before its shard is sought."""

from __future__ import annotations

from collections.abc import Collection

from klamm.coordinator.group.consumer.remembered import LEFT_FOR_A_WHILE
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

JOIN = 0
LEAVE = -1


def refused_heartbeat(error_code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """The answer with an error: it changes nothing."""
    return ConsumerGroupHeartbeatResponse(error_code=error_code, error_message=message)


def shape_refusal(
    request: ConsumerGroupHeartbeatRequest, assignors: Collection[str]
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a request that no group could accept; None for any other."""
    problem = _problem(request)
    if problem is not None:
        return refused_heartbeat(ErrorCode.invalid_request, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        return refused_heartbeat(ErrorCode.unsupported_assignor, message)
    return None


def _problem(request: ConsumerGroupHeartbeatRequest) -> str | None:
    epoch = request.member_epoch
    if (request.makes_member_id or epoch > JOIN or epoch == LEAVE) and not request.member_id.strip():
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or len(request.topic_partitions):
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    elif epoch == LEFT_FOR_A_WHILE:
        if request.instance_id is None:
            return "InstanceId can't be null."
    elif epoch < LEFT_FOR_A_WHILE:
        return f"MemberEpoch is {epoch}, must be greater than or equal to {LEFT_FOR_A_WHILE}."
    return None
