"""What a producer does about each error of a Produce response, and of a topic's metadata."""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import ErrorCode

NEEDS_METADATA: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.network_exception,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_id,
    }
)
RETRIABLE: Final = NEEDS_METADATA | {
    ErrorCode.corrupt_message,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.throttling_quota_exceeded,
    ErrorCode.concurrent_transactions,
}
FATAL: Final = frozenset(
    {ErrorCode.producer_fenced, ErrorCode.cluster_authorization_failed, ErrorCode.unsupported_version}
)
TOPIC_REFUSED: Final = frozenset({ErrorCode.invalid_topic_exception, ErrorCode.topic_authorization_failed})
# The broker is still verifying the transaction: nothing was written, retry soon.
VERIFYING: Final = frozenset({ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas})
