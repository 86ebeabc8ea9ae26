"""Verification of transactions (KIP-890): the coordinator confirms the first batch of one in each partition.

Producers of transactions v1 add partitions themselves, and the coordinator only confirms it. For those of v2
the request is the addition.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, sleep
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from klamm.broker.net.context import HandlerResult, HeldResponse
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.broker.services import Services

Result = TypeVar("Result")
ErrorCodes: TypeAlias = Mapping[TopicPartition, ErrorCode]

# Of Kafka's retriable errors the one that no client answers with a new search for the leader.
_TRY_AGAIN: Final = ErrorCode.not_enough_replicas
_CONCURRENT: Final = ErrorCode.concurrent_transactions  # an enum's member is looked up slowly
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


class TransactionVerifier(Protocol):
    """The transaction coordinators as partitions see them, on this broker or on another."""

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


class Verification:
    """One request to the coordinator: which of these partitions are part of the ongoing transaction?

    It is sent on construction.
    """

    __slots__ = ("_add", "_promise", "_question", "_retries", "_services", "_verifier")

    def __init__(
        self,
        services: Services,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Sequence[TopicPartition],
        add: bool,
        retry: bool,
    ) -> None:
        """With `retry` the request is repeated while the coordinator completes the last transaction."""
        self._services = services
        self._retries = retry
        self._verifier: TransactionVerifier = services.verifier or services.transactions
        self._question = (transactional_id, *producer, partitions)
        self._add = add
        if add and services.image.transaction_version == 0:
            self._promise: HeldResponse[ErrorCodes] = HeldResponse()
            self._promise.keep(dict.fromkeys(partitions, ErrorCode.unsupported_version))
        else:
            self._promise = self._verifier.verify(*self._question, add=add)

    def then(
        self,
        carry_out: Callable[[ErrorCodes], Result | HeldResponse[Result] | None],
        end: Callable[[], object],
    ) -> HandlerResult[Result]:
        """Call `carry_out` with the error code of each partition, and `end` after it in any case.

        The coordinator has usually decided already. Then the result is not an awaitable: the request is not
        parked, and those behind it share its flush.
        """
        error_codes = self._promise.response
        if error_codes is not None and not self._is_concurrent(error_codes):
            self._count(error_codes, 0)
            try:
                return carry_out(error_codes)
            finally:
                end()
        started_at_ms = self._services.clock.now_ms()

        async def wait() -> Result | None:
            result = carry_out(await self._wait(started_at_ms))
            if isinstance(result, HeldResponse):
                held: HeldResponse[Result] = result
                return await kept(self._services.loop, held)
            return result

        task = self._services.loop.create_task(wait())
        # Not in the task itself, which does not even begin if its connection is lost already.
        task.add_done_callback(lambda _: end())
        return task

    async def _wait(self, started_at_ms: int) -> ErrorCodes:
        services = self._services
        config, now_ms = services.config, services.clock.now_ms
        give_up_at_ms = started_at_ms + config.add_partitions_to_txn_retry_backoff_max_ms
        backoff_ms = _FIRST_BACKOFF_MS
        while True:
            error_codes = await kept(services.loop, self._promise)
            left_ms = give_up_at_ms - now_ms()
            if left_ms <= 0 or not self._is_concurrent(error_codes):
                self._count(error_codes, now_ms() - started_at_ms)
                return error_codes
            await sleep(min(backoff_ms, config.add_partitions_to_txn_retry_backoff_ms, left_ms) / 1000)
            backoff_ms *= 2
            self._promise = self._verifier.verify(*self._question, add=self._add)

    def _is_concurrent(self, error_codes: ErrorCodes) -> bool:
        """Whether the coordinator is to be asked again."""
        return self._retries and _CONCURRENT in error_codes.values()

    def _count(self, error_codes: ErrorCodes, took_ms: int) -> None:
        stats = self._services.verification
        stats.count += 1
        stats.total_ms += took_ms
        for error_code in error_codes.values():
            if error_code is not NO_ERROR:
                stats.failures += 1


def verification_error(cause: ErrorCode, *, knows_abortable: bool, knows_concurrent: bool) -> ErrorCode:
    """The error of a Produce for the coordinator's error."""
    if cause is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    if cause is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch  # which an older client can recover from
    if cause in _UNREACHABLE or (cause is _CONCURRENT and not knows_concurrent):
        return _TRY_AGAIN
    return cause


def kept(loop: AbstractEventLoop, promise: HeldResponse[Result]) -> Future[Result]:
    """A held response as a future. If the response is dropped, the future is never done."""
    future: Future[Result] = loop.create_future()

    def tell() -> None:
        outcome = promise.response
        if outcome is not None and not future.done():
            future.set_result(outcome)

    if promise.is_done:
        tell()
    else:
        promise.listener = tell
    return future
