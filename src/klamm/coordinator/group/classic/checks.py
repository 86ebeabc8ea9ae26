"""Checks that several APIs share, in Kafka's order: the first that fails names the error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.coordinator.group.classic.live import Live
from klamm.protocol.errors import NO_ERROR, ErrorCode


def membership_error(live: Live, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Whether this is a member, under the id that its instance has now."""
    if group_instance_id is not None:
        known_id = live.static_members.get(group_instance_id)
        if known_id is None:
            return ErrorCode.unknown_member_id
        if known_id != member_id:
            return ErrorCode.fenced_instance_id
    if member_id not in live.members:
        return ErrorCode.unknown_member_id
    return NO_ERROR


_COMMIT_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_fetch_size: ErrorCode.invalid_commit_offset_size,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}

_REGISTRATION_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **_COMMIT_ERRORS,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def commit_error(log_error: ErrorCode) -> ErrorCode:
    """What a client is told when the log does not take its offsets."""
    return _COMMIT_ERRORS.get(log_error, log_error)


def registration_error(log_error: ErrorCode) -> ErrorCode:
    """What a client is told when the log does not take the group's registration."""
    return _REGISTRATION_ERRORS.get(log_error, log_error)
