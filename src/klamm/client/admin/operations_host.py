"""What every admin operation runs on: the client's thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

from klamm.client.admin import arguments
from klamm.client.admin.results import Results
from klamm.client.calls import Calls, RetryPolicy
from klamm.client.config import ADMIN, ClientConfig
from klamm.client.runtime import ClientThread
from klamm.errors import IllegalStateError
from klamm.net.tasks import Promise

T = TypeVar("T")
K = TypeVar("K")


class OperationsHost:
    """A client thread, and how an operation is run on it."""

    def __init__(
        self,
        config: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
    ) -> None:
        parsed = ClientConfig.parse(ADMIN, config, keywords)
        values = parsed.values
        client_id = values.text("client.id") or "klamm-admin"
        self._thread = ClientThread(
            parsed.network(client_id),
            parsed.metadata(allow_auto_topic_creation=False),
            clock=parsed.clock(),
            random=Random(),
            name=client_id,
        )
        self._calls = Calls(
            self._thread.core,
            RetryPolicy(
                values.integer("default.api.timeout.ms"),
                values.integer("retry.backoff.ms"),
                values.integer("retry.backoff.max.ms"),
            ),
        )
        self._is_closed = False
        self._thread.start()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and the admin is its parent's."""
        return self._thread.reactor.is_inherited

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._thread.stop()

    def end_after(self, seconds: float) -> None:
        """Limit all operations together to this time from now; then they raise KlammTimeoutError."""
        self._calls.latest_ms = self._thread.clock.now_ms() + arguments.some_milliseconds(seconds, "seconds")

    def _run(self, make: Callable[[Calls], Coroutine[Promise[Any], None, T]]) -> Future[T]:
        if self._is_closed:
            raise IllegalStateError("this admin is closed")
        return self._thread.run(lambda: make(self._calls))

    def _each(
        self, raise_errors: bool, make: Callable[[Calls], Coroutine[Promise[Any], None, Results[K, T]]]
    ) -> Future[Results[K, T]]:
        """An operation over several items; raises the first error unless the caller wants them returned."""
        arguments.flag(raise_errors, "raise_errors")

        async def checked(calls: Calls) -> Results[K, T]:
            results = await make(calls)
            if raise_errors:
                results.unwrap()
            return results

        return self._run(checked)
