"""The log's error when it rejects an append, in terms of the request that caused it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.protocol.errors import ErrorCode

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
    """For offsets."""
    return _COMMIT_ERRORS.get(log_error, log_error)


def registration_error(log_error: ErrorCode) -> ErrorCode:
    """For the record of a generation."""
    return _REGISTRATION_ERRORS.get(log_error, log_error)
