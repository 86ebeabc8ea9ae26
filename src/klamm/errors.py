"""Errors of the client. Every message names the cause and, where there is one, the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition


class KlammError(Exception):
    """The base of all errors of the client."""

    retriable = False
    is_abortable = False  # in a transaction: call abort_transaction(), then begin again
    is_fatal = False  # of a transactional producer: close it and make a new one
    results: Any = None  # of an admin call over several items: the `Results`, with what became of each


class IllegalStateError(KlammError):
    """This call makes no sense now."""


class ConcurrentAccessError(IllegalStateError):
    """Two threads or tasks use one consumer at the same time."""


class ConsumerStoppedError(IllegalStateError):
    """Another task has closed the consumer while this one was reading."""


class WakeupError(KlammError):
    """`wakeup()` was called."""


class KlammTimeoutError(KlammError, TimeoutError):
    """The operation timed out; the state of the request is unknown."""

    retriable = True


class DisconnectedError(KlammError, ConnectionError):
    """The connection was closed before the response arrived."""

    retriable = True


class NoBrokersError(KlammError):
    """None of the bootstrap servers answered; the message lists each address with its cause."""

    retriable = True


class ProtocolError(KlammError):
    """The other side sent what no Kafka broker sends."""


class AuthenticationError(KlammError):
    """The broker or the client refused the other's credentials; trying again does not help."""


class SslAuthenticationError(AuthenticationError):
    """TLS failed: a certificate was refused, by this client or by the broker, or there is no TLS there."""


class SaslAuthenticationError(AuthenticationError):
    """The broker refused the login, has not the mechanism, or did not prove that it knows the password."""


class IllegalRequestError(KlammError, ValueError):
    """A value does not fit the protocol: the request was not sent."""


class UnsupportedVersionError(KlammError):
    """Client and broker have no version of this API in common."""


class BrokerError(KlammError):
    """The broker refused; `error_code` is its reason."""

    default_code = ErrorCode.unknown_server_error

    def __init__(self, message: str, error_code: int | None = None) -> None:
        super().__init__(message)
        self.error_code: int = self.default_code if error_code is None else error_code

    @property
    def errno(self) -> int:
        """As `error_code`, under the name other clients use."""
        return self.error_code

    @property
    def retriable(self) -> bool:  # type: ignore[override]  # a class attribute elsewhere, by code here
        try:
            return ErrorCode(self.error_code).retriable
        except ValueError:
            return False


class InvalidGroupIdError(BrokerError):
    """There is no usable `group.id`."""

    default_code = ErrorCode.invalid_group_id


class InvalidSessionTimeoutError(BrokerError):
    """`session.timeout.ms` is outside the broker's `group.min/max.session.timeout.ms`."""

    default_code = ErrorCode.invalid_session_timeout


class InconsistentGroupProtocolError(BrokerError):
    """The members of the group have no assignor in common."""

    default_code = ErrorCode.inconsistent_group_protocol


class FencedInstanceIdError(BrokerError):
    """Another member with the same `group.instance.id` replaced this one."""

    default_code = ErrorCode.fenced_instance_id


class GroupMaxSizeReachedError(BrokerError):
    """The group is full."""

    default_code = ErrorCode.group_max_size_reached


class GroupAuthorizationError(BrokerError):
    """No right to use this group."""

    default_code = ErrorCode.group_authorization_failed


class TopicAuthorizationError(BrokerError):
    """No right to use these topics."""

    default_code = ErrorCode.topic_authorization_failed


class InvalidTopicError(BrokerError, ValueError):
    """A name that no topic can have."""

    default_code = ErrorCode.invalid_topic_exception


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing: poll first, then commit again."""

    default_code = ErrorCode.rebalance_in_progress


class CommitFailedError(BrokerError):
    """The commit is from a member that is no longer in the group; its partitions are reassigned."""

    default_code = ErrorCode.illegal_generation


class StaleMemberEpochError(BrokerError):
    """The member's epoch was raised while the request was under way; it may be repeated with the new one."""

    default_code = ErrorCode.stale_member_epoch
    retriable = True


class RetriableCommitFailedError(KlammError):
    """An asynchronous commit failed and may be repeated; it is never repeated by itself."""

    retriable = True


class OffsetOutOfRangeError(BrokerError):
    """A position is outside the log, and `auto.offset.reset` is none."""

    default_code = ErrorCode.offset_out_of_range

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        listed = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(offsets.items()))
        super().__init__(f"out of range: {listed}; set auto.offset.reset, or seek")
        self.offsets = dict(offsets)


class NoOffsetForPartitionError(KlammError):
    """Nothing is committed and `auto.offset.reset=none`."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        listed = ", ".join(map(str, sorted(partitions)))
        super().__init__(
            f"no committed offset for {listed} and auto.offset.reset=none; seek, or set a policy"
        )
        self.partitions = sorted(partitions)


class LogTruncationError(KlammError):
    """The log was cut below a position after a change of leader."""

    def __init__(self, divergent: Mapping[TopicPartition, int]) -> None:
        listed = ", ".join(
            f"{partition} diverges at {offset}" for partition, offset in sorted(divergent.items())
        )
        super().__init__(f"log truncated: {listed}; seek to go on")
        self.divergent = dict(divergent)


class RebalanceListenerError(KlammError):
    """A callback of the rebalance listener raised an error, which is the cause."""


class RecordDeserializationError(KlammError):
    """A record that the deserializer refuses; `seek(offset + 1)` steps over it."""

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        super().__init__(f"record {offset} of {partition} does not deserialize; seek({offset + 1}) skips it")
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = tuple(headers)


class BufferExhaustedError(KlammTimeoutError):
    """`buffer.memory` stayed full for `max.block.ms`: the broker is slower than the caller."""


class RecordTooLargeError(BrokerError):
    """A record larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""

    default_code = ErrorCode.message_too_large


class DeliveryError(KlammError):
    """Some records were not delivered; `failures` has the reasons, `topics` how many of each topic."""

    def __init__(self, failures: Sequence[Exception], topics: Mapping[str, int] | None = None) -> None:
        count = sum(topics.values()) if topics else len(failures)
        counted = ", ".join(f"{number} of {topic}" for topic, number in sorted((topics or {}).items()))
        places = f" ({counted})" if counted else ""
        cause = failures[-1] if failures else "unknown"
        super().__init__(f"{count} record{'s' * (count != 1)} not delivered{places}; last error: {cause}")
        self.failures = list(failures)
        self.topics = dict(topics or {})


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or the partition does not exist."""

    default_code = ErrorCode.unknown_topic_or_partition


class UnknownTopicError(UnknownTopicOrPartitionError):
    """A topic or partition that does not exist; asking again does not help."""

    retriable = False


class TopicAlreadyExistsError(BrokerError):
    """A topic of this name exists."""

    default_code = ErrorCode.topic_already_exists


class GroupIdNotFoundError(BrokerError):
    """The group does not exist."""

    default_code = ErrorCode.group_id_not_found


class GroupNotEmptyError(BrokerError):
    """The group has members."""

    default_code = ErrorCode.non_empty_group


class PurgedError(KlammError):
    """A record that `purge()` removed before it was sent."""


class ProducerFencedError(BrokerError):
    """Another producer with the same `transactional.id` was started; only `close()` is possible."""

    default_code = ErrorCode.producer_fenced


class TransactionAbortedError(KlammError):
    """A record that was not sent because its transaction is being aborted."""


class TransactionalIdAuthorizationError(BrokerError):
    """No right to use this `transactional.id`."""

    default_code = ErrorCode.transactional_id_authorization_failed


class InvalidTransactionTimeoutError(BrokerError):
    """`transaction.timeout.ms` is above the broker's `transaction.max.timeout.ms`."""

    default_code = ErrorCode.invalid_transaction_timeout


_CLASSES: Final[Mapping[int, type[BrokerError]]] = {
    kind.default_code: kind
    for kind in (
        InvalidGroupIdError,
        InvalidSessionTimeoutError,
        InconsistentGroupProtocolError,
        FencedInstanceIdError,
        GroupMaxSizeReachedError,
        GroupAuthorizationError,
        TopicAuthorizationError,
        InvalidTopicError,
        RebalanceInProgressError,
        RecordTooLargeError,
        StaleMemberEpochError,
        UnknownTopicOrPartitionError,
        TopicAlreadyExistsError,
        GroupIdNotFoundError,
        GroupNotEmptyError,
        ProducerFencedError,
        TransactionalIdAuthorizationError,
        InvalidTransactionTimeoutError,
    )
}


# What to make of a code that brokers send without a word.
HINTS: Final[Mapping[int, str]] = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group has members: stop them first",
    ErrorCode.group_subscribed_to_topic: "a member is subscribed to it: stop that first",
    ErrorCode.unknown_member_id: "unknown member; while a group has members, only these can commit",
    ErrorCode.policy_violation: "a policy of the broker forbids it; "
    "from a topic with cleanup.policy=compact no records can be deleted",
}


def error_name(error_code: int) -> str:
    """Kafka's name of a code; `error 4711` for an unknown one."""
    try:
        return ErrorCode(error_code).name.upper()
    except ValueError:
        return f"error {error_code}"


def broker_error(error_code: int, what: str, message: str | None = None) -> BrokerError:
    """The error for a code in an answer: `what` names the request or item that was refused."""
    message = message or HINTS.get(error_code)
    text = f"{what}: {error_name(error_code)}" + (f" ({message})" if message else "")
    return error_class(error_code)(text, error_code)


def error_class(error_code: int) -> type[BrokerError]:
    """The class of errors with this code, for `except`: one of those above, or one made for it.

    `errors.UnknownMemberIdError` is `error_class(25)`: the names are Kafka's, with Error at the end.
    """
    return _made_once(int(error_code))  # to the cache, 25 and ErrorCode(25) are different


@cache
def _made_once(error_code: int) -> type[BrokerError]:
    known = _CLASSES.get(error_code)
    if known is not None:
        return known
    try:
        name = _class_name(ErrorCode(error_code).name.upper())
    except ValueError:
        return BrokerError
    if name in globals():  # such as UnsupportedVersionError, which is no answer of a broker
        return BrokerError
    made = type(name, (BrokerError,), {"default_code": error_code, "__module__": __name__})
    made.__doc__ = f"The broker answered {error_name(error_code)}."
    return made


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.removesuffix("_ERROR").split("_")) + "Error"


def __getattr__(name: str) -> type[BrokerError]:
    for code in ErrorCode:
        if _class_name(code.name.upper()) == name:
            return error_class(code)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
