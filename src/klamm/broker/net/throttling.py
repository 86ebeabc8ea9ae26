"""Quotas as a connection sees them: a throttle time in the response, then silence for as long."""

from __future__ import annotations

from collections.abc import Coroutine
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Generator

    from klamm.broker.net.context import RequestContext
    from klamm.broker.quotas.mutations import MutationQuota
    from klamm.clock import Clock
    from klamm.protocol.api import ApiKey


class Quotas(Protocol):
    """Counts what clients do, and slows those down that exceed their quotas."""

    def settle(
        self, context: RequestContext, api_key: ApiKey, request_bytes: int, response: Any, /
    ) -> tuple[Any, int]:
        """Count a request that is about to be answered.

        The response to send (this one, or another that says how long the client is throttled), and for how
        many milliseconds nothing more is read from its connection. The response is None for a request that
        has none, as Produce with acks=0.
        """
        ...

    def fetched(self, context: RequestContext, response_bytes: int, /) -> int:
        """For how many milliseconds a client may not have what it fetches; 0: now, and it is counted."""
        return 0

    def now_s(self) -> float:
        """The instant at which work for a request begins."""
        return 0.0

    def spent(self, context: RequestContext, since_s: float, /) -> None:
        """The event loop has worked for a client since then: it read, decided or encoded something."""

    def decided(self, context: RequestContext, since_s: float, result: Any, /) -> Any:
        """The same of a handler that has returned; the rest of a coroutine is counted as it runs."""
        self.spent(context, since_s)
        return _Counted(self, context, result) if isinstance(result, Coroutine) else result

    def mutations(self, context: RequestContext, /, *, is_strict: bool) -> MutationQuota | None:
        """The quota for partitions that a request creates or deletes; None if there is no limit."""
        return None


class _Counted:
    """A coroutine whose own work is counted, not what it waits for."""

    def __init__(self, quotas: Quotas, context: RequestContext, result: Coroutine[Any, Any, Any]) -> None:
        self._quotas = quotas
        self._context = context
        self._result = result

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            since_s = self._quotas.now_s()
            try:
                waits_for = self._result.send(None) if error is None else self._result.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self._quotas.spent(self._context, since_s)
            try:
                yield waits_for
                error = None
            except BaseException as raised:  # as a cancelled task: the coroutine has to end itself
                error = raised


def throttled(response: Any, throttle_ms: int) -> Any:
    """The response with a throttle time; handlers may share response objects, so the original is kept.

    A longer time that the handler has set itself stays.
    """
    if not hasattr(response, "throttle_time_ms") or response.throttle_time_ms >= throttle_ms:
        return response
    response = copy(response)
    response.throttle_time_ms = throttle_ms
    return response


class Mute:
    """How long a connection is still muted: until the latest of the times it was given."""

    __slots__ = ("_loop", "_now_ms", "_over", "_timer", "_until_ms")

    def __init__(self, loop: AbstractEventLoop, clock: Clock, over: Callable[[], None]) -> None:
        self._loop = loop
        self._now_ms = clock.now_ms
        self._over = over
        self._until_ms = 0
        self._timer: TimerHandle | None = None

    def extend(self, for_ms: int) -> None:
        until_ms = self._now_ms() + for_ms
        if self._timer is None or until_ms > self._until_ms:
            self.cancel()
            self._until_ms = until_ms
            self._timer = self._loop.call_later(for_ms / 1000, self._end)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        self._over()
