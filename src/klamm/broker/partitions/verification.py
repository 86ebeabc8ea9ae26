"""Verification of transactions (KIP-890): the coordinator confirms the first batch of one in each partition.

Producers of transactions v1 add partitions themselves, and the coordinator only confirms it. For those of v2
the request is the addition.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, sleep
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from klamm.broker.net.context import HeldResponse
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.broker.services import Services

Result = TypeVar("Result")
ErrorCodes: TypeAlias = Mapping[TopicPartition, ErrorCode]

# Of Kafka's retriable errors the one that no client answers with a new search for the leader.
_TRY_AGAIN: Final = ErrorCode.not_enough_replicas
_UNREACHABLE: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
# The markers of the last transaction are usually written in less than Kafka's 20 ms, and asking is cheap.
_FIRST_BACKOFF_MS: Final = 1
# The client sends the same batch again; later batches must not be appended before it.
UNCONFIRMED: Final = frozenset({_TRY_AGAIN, ErrorCode.concurrent_transactions})


class TransactionVerifier(Protocol):
    """The transaction coordinator as partitions see it, on this broker or on another."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> HeldResponse[ErrorCodes]:
        """Whether the partitions are part of the ongoing transaction; with `add` they become part of it."""
        ...


@dataclass(slots=True)
class VerificationStats:
    """Number and duration of verifications, and for how many partitions they failed."""

    count: int = 0
    total_ms: int = 0
    failures: int = 0


async def verified(
    services: Services,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Sequence[TopicPartition],
    *,
    add: bool,
    retry: bool,
) -> ErrorCodes:
    """The coordinator's result for each partition. With `retry` it is asked again while it is busy."""
    if add and services.image.transaction_version == 0:
        return dict.fromkeys(partitions, ErrorCode.unsupported_version)
    config, stats = services.config, services.verification
    started_at_ms = services.clock.now_ms()
    verifier: TransactionVerifier = services.verifier or services.transactions
    give_up_at_ms = started_at_ms + config.add_partitions_to_txn_retry_backoff_max_ms
    backoff_ms = _FIRST_BACKOFF_MS
    while True:
        error_codes = await kept(
            services.loop, verifier.verify(transactional_id, *producer, partitions, add=add)
        )
        is_busy = ErrorCode.concurrent_transactions in error_codes.values()
        if not (retry and is_busy) or services.clock.now_ms() >= give_up_at_ms:
            stats.count += 1
            stats.total_ms += services.clock.now_ms() - started_at_ms
            stats.failures += sum(each is not NO_ERROR for each in error_codes.values())
            return error_codes
        left_ms = give_up_at_ms - services.clock.now_ms()
        await sleep(min(backoff_ms, config.add_partitions_to_txn_retry_backoff_ms, left_ms) / 1000)
        backoff_ms *= 2


def verification_error(cause: ErrorCode, *, knows_abortable: bool, knows_concurrent: bool) -> ErrorCode:
    """The error of a Produce for the coordinator's error."""
    if cause is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    if cause is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch  # which an older client can recover from
    if cause in _UNREACHABLE or (cause is ErrorCode.concurrent_transactions and not knows_concurrent):
        return _TRY_AGAIN
    return cause


def kept(loop: AbstractEventLoop, promise: HeldResponse[Result]) -> Future[Result]:
    """A held response as a future. If the response is dropped, the future is never done."""
    future: Future[Result] = loop.create_future()

    def tell() -> None:
        outcome = promise.outcome()
        if outcome is not None and not future.done():
            future.set_result(outcome)

    if promise.done():
        tell()
    else:
        promise.listen(tell)
    return future
