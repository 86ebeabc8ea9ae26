"""What an error code means for a transaction: retry, abort, or close the producer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from klamm.errors import (
    BrokerError,
    CommitFailedError,
    KlammError,
    ProducerFencedError,
    broker_error,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode


class ErrorOutcome(Enum):
    """What follows from an error."""

    RETRY = "retry"
    FIND_AGAIN = "look up the coordinator, then retry"
    ABORTABLE = "abort the transaction"
    FATAL = "give the producer up"


E: Final = ErrorCode
_MOVED: Final = frozenset({E.coordinator_not_available, E.not_coordinator})
_FATAL: Final = frozenset(
    {
        E.producer_fenced,
        E.invalid_producer_epoch,
        E.transactional_id_authorization_failed,
        E.unsupported_version,
        E.invalid_txn_state,
    }
)
_LOST_ID: Final = frozenset({E.invalid_producer_id_mapping, E.unknown_producer_id})

# What each API adds to the rules that hold for all.
_ABORTABLE: Final[Mapping[ApiKey, frozenset[ErrorCode]]] = {
    ApiKey.FIND_COORDINATOR: frozenset({E.group_authorization_failed}),
    ApiKey.INIT_PRODUCER_ID: frozenset(
        {E.cluster_authorization_failed, E.transactional_id_authorization_failed}
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _LOST_ID | {E.topic_authorization_failed, E.operation_not_attempted},
    ApiKey.ADD_OFFSETS_TO_TXN: _LOST_ID | {E.group_authorization_failed},
    ApiKey.TXN_OFFSET_COMMIT: frozenset(
        {
            E.fenced_instance_id,
            E.group_authorization_failed,
            E.topic_authorization_failed,
            E.unknown_member_id,
            E.illegal_generation,
            E.offset_metadata_too_large,
            E.invalid_commit_offset_size,
            E.invalid_producer_id_mapping,
        }
    ),
    ApiKey.END_TXN: _LOST_ID,
}
_FATAL_OF_PRODUCE: Final = frozenset(
    {
        E.producer_fenced,
        E.cluster_authorization_failed,
        E.transactional_id_authorization_failed,
        E.unsupported_version,
    }
)


def outcome_of(api_key: ApiKey, error_code: int) -> ErrorOutcome:
    """What an error code of a coordinator's answer, or of Produce, means."""
    if error_code == E.transaction_abortable:
        return ErrorOutcome.ABORTABLE
    if api_key is ApiKey.PRODUCE:
        return ErrorOutcome.FATAL if error_code in _FATAL_OF_PRODUCE else ErrorOutcome.ABORTABLE
    if error_code in _ABORTABLE.get(api_key, ()):
        return ErrorOutcome.ABORTABLE
    if error_code in _FATAL:
        return ErrorOutcome.FATAL
    if error_code in _MOVED or (api_key is ApiKey.TXN_OFFSET_COMMIT and error_code == E.request_timed_out):
        return ErrorOutcome.FIND_AGAIN
    if is_retriable(error_code):
        return ErrorOutcome.RETRY
    return ErrorOutcome.ABORTABLE if api_key is ApiKey.ADD_PARTITIONS_TO_TXN else ErrorOutcome.FATAL


def is_retriable(error_code: int) -> bool:
    """Whether Kafka calls this code retriable; an unknown one is not."""
    try:
        return ErrorCode(error_code).retriable
    except ValueError:
        return False


def loses_id(error_code: int) -> bool:
    """Whether the producer id is unknown to the coordinator, so that EndTxn is pointless."""
    return error_code in _LOST_ID


_HINTS: Final[Mapping[ErrorOutcome, str]] = {
    ErrorOutcome.ABORTABLE: "abortable: call abort_transaction(), then begin the transaction again",
    ErrorOutcome.FATAL: "fatal: close this producer and make a new one",
}
_CAUSES: Final[Mapping[int, str]] = {
    E.producer_fenced: "another producer uses this transactional.id, or the transaction exceeded "
    "transaction.timeout.ms and was aborted",
    E.invalid_producer_epoch: "another producer uses this transactional.id, or the transaction exceeded "
    "transaction.timeout.ms and was aborted",
    E.invalid_txn_state: "the coordinator has no such transaction open; it may have exceeded "
    "transaction.timeout.ms and been aborted",
    E.unknown_member_id: "the group has removed this consumer; poll to rejoin, and process the records again",
    E.illegal_generation: "the group has rebalanced; poll to rejoin, and process the records again",
    E.fenced_instance_id: "another consumer uses this group.instance.id",
    E.invalid_transaction_timeout: "transaction.timeout.ms is above the broker's transaction.max.timeout.ms",
    E.transactional_id_authorization_failed: "no right to use this transactional.id",
}
_FORMER_MEMBER: Final = (E.unknown_member_id, E.illegal_generation)


def coordinator_error(api_key: ApiKey, error_code: int, what: str) -> KlammError:
    """The error of a refused request, with its cause, what it means and what to do."""
    outcome = outcome_of(api_key, error_code)
    error: BrokerError = broker_error(error_code, what, _CAUSES.get(error_code))
    if error_code == E.invalid_producer_epoch and api_key is not ApiKey.PRODUCE:
        error = ProducerFencedError(str(error), error_code)
    if api_key is ApiKey.TXN_OFFSET_COMMIT and error_code in _FORMER_MEMBER:
        error = CommitFailedError(str(error), error_code)
    return with_hint(error, outcome)


def with_hint(error: KlammError, outcome: ErrorOutcome) -> KlammError:
    """The same error, marked and worded as abortable or fatal."""
    if error.is_abortable or error.is_fatal:
        return error
    text = f"{error}; {_HINTS[outcome]}"
    marked = type(error)(text, error.error_code) if isinstance(error, BrokerError) else type(error)(text)
    marked.__cause__ = error.__cause__
    marked.is_abortable = outcome is ErrorOutcome.ABORTABLE
    marked.is_fatal = outcome is ErrorOutcome.FATAL
    return marked
