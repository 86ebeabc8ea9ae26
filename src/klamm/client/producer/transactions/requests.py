"""Requests to the coordinators: each is retried until it succeeds or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from klamm.client.calls import GROUP, TRANSACTION, Calls
from klamm.client.producer.transactions.outcomes import (
    ErrorOutcome,
    coordinator_error,
    outcome_of,
    with_hint,
)
from klamm.client.runtime import Core
from klamm.errors import BrokerError, KlammError, broker_error
from klamm.net.network import Node, backoff_ms
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

# The caller waits for `max.block.ms`; the request continues, so that the call can be repeated.
ENDLESS_MS: Final = 2**31 - 1
# The previous transaction is being completed: a matter of milliseconds, and everything waits for it.
CONCURRENT_BACKOFF_MS: Final = 2
CONCURRENT_BACKOFF_MAX_MS: Final = 50


class CoordinatorRequests:
    """Requests of one transactional id; runs on the client's thread."""

    def __init__(self, core: Core, calls: Calls, transactional_id: str) -> None:
        self._core = core
        self._calls = calls
        self.transactional_id = transactional_id
        self.node: Node | None = None  # the transaction coordinator, once it was found
        self.last_error: KlammError | None = None  # why the request under way is being repeated

    async def to_transaction_coordinator(
        self, api_key: ApiKey, request: Any, what: str, *, max_version: int = 32767
    ) -> Any:
        """One answer with error code 0, or the error that it was refused with."""
        return await self.ask(
            TRANSACTION, self.transactional_id, api_key, request, what, _error_code, max_version
        )

    async def to_group_coordinator(
        self,
        group_id: str,
        api_key: ApiKey,
        request: Any,
        what: str,
        error_codes: Callable[[Any], Iterable[int]],
        max_version: int,
    ) -> Any:
        """As `to_transaction_coordinator`, for an answer with many error codes."""
        return await self.ask(GROUP, group_id, api_key, request, what, error_codes, max_version)

    async def ask(
        self,
        kind: int,
        key: str,
        api_key: ApiKey,
        request: Any,
        what: str,
        error_codes: Callable[[Any], Iterable[int]],
        max_version: int,
    ) -> Any:
        attempt = 0
        while True:
            node = await self._coordinator(kind, key, what)
            code = 0
            try:
                response = await self._core.tasks.request(node, api_key, request, max_version=max_version)
                code = worst(api_key, error_codes(response))
            except KlammError as error:
                if not error.retriable:
                    raise with_hint(error, ErrorOutcome.FATAL) from error
                self._calls.forget_coordinator(key, kind)
                self.last_error = error
            else:
                if not code:
                    self.last_error = None
                    return response
                outcome = outcome_of(api_key, code)
                if outcome in (ErrorOutcome.ABORTABLE, ErrorOutcome.FATAL):
                    raise coordinator_error(api_key, code, what)
                if outcome is ErrorOutcome.FIND_AGAIN:
                    self._calls.forget_coordinator(key, kind)
                self.last_error = broker_error(code, what)
            await self._core.tasks.sleep(self.wait_ms(code, attempt))
            attempt += 1

    def wait_ms(self, error_code: int, attempt: int) -> int:
        """How long to wait before a request is repeated."""
        policy = self._calls.policy
        base_ms, max_ms = policy.retry_backoff_ms, policy.retry_backoff_max_ms
        if error_code == ErrorCode.concurrent_transactions:
            base_ms, max_ms = CONCURRENT_BACKOFF_MS, CONCURRENT_BACKOFF_MAX_MS
        return backoff_ms(base_ms, max_ms, attempt, self._core.random)

    async def _coordinator(self, kind: int, key: str, what: str) -> Node:
        try:
            broker_id = await self._calls.coordinator_of(key, self._calls.deadline(what, ENDLESS_MS), kind)
        except BrokerError as error:
            raise coordinator_error(ApiKey.FIND_COORDINATOR, error.error_code, what) from error
        except KlammError as error:
            raise with_hint(error, ErrorOutcome.FATAL) from error
        # The connection of the Produce requests: a request behind them is answered after them.
        node = Node("broker", broker_id)
        if kind == TRANSACTION:
            self.node = node
        return node


def _error_code(response: Any) -> tuple[int]:
    return (response.error_code,)


_SEVERITY: Final = (ErrorOutcome.FATAL, ErrorOutcome.ABORTABLE, ErrorOutcome.FIND_AGAIN, ErrorOutcome.RETRY)


def worst(api_key: ApiKey, error_codes: Iterable[int]) -> int:
    """The error code that decides what becomes of the request; 0 if there is none."""
    failed = [code for code in error_codes if code]
    # OPERATION_NOT_ATTEMPTED means only that another item failed.
    failed.sort(key=lambda code: code == ErrorCode.operation_not_attempted)
    return min(failed, key=lambda code: _SEVERITY.index(outcome_of(api_key, code)), default=0)
