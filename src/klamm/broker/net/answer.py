"""Responses of a connection that are not complete, or wait for those before them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from klamm.broker.net.context import HeldResponse, RequestContext

if TYPE_CHECKING:
    from klamm.broker.cluster.serve_window import ServeWindow
    from klamm.broker.net.connection import Connection
    from klamm.broker.net.dispatch import Endpoint


class Answer:
    """A request that was decided, and its response, which is not sent yet."""

    __slots__ = (
        "connection",
        "context",
        "correlation_id",
        "endpoint",
        "held_bytes",
        "request",
        "response",
        "started_at_ms",
    )

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        context: RequestContext,
        correlation_id: int,
        request: Any,
        response: HeldResponse[Any] | asyncio.Future[Any],
        started_at_ms: int,
        held_bytes: int = 0,
    ) -> None:
        self.connection = connection
        self.endpoint = endpoint
        self.context = context
        self.correlation_id = correlation_id
        # Only a handler that is awaited can still fail; its request then shapes the error response. A held
        # response must not keep a whole batch in memory until the disk has it.
        self.request = None if isinstance(response, HeldResponse) else request
        self.response = response
        self.held_bytes = held_bytes  # what it counts for in RequestMemory.held_bytes
        self.started_at_ms = started_at_ms
        if isinstance(response, HeldResponse):
            response.listen(connection.turn_soon)
        else:
            response.add_done_callback(lambda _: connection.turn_soon())

    def outcome(self) -> Any:
        """The response, or None when there will be none; raises what its handler raised."""
        if isinstance(self.response, HeldResponse):
            return self.response.outcome()
        return None if self.response.cancelled() else self.response.result()

    def cancel(self) -> None:
        """Cancel the request. The connection is notified later, as of any other outcome."""
        if isinstance(self.response, HeldResponse):
            self.response.drop()
            self.connection.turn_soon()
        else:
            self.response.cancel()


class UnprovenAnswer(Answer):
    """A complete response that waits until the broker's lease is known to be valid; see `ServeWindow`."""

    __slots__ = ("_complete",)

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        context: RequestContext,
        correlation_id: int,
        response: Any,
        started_at_ms: int,
        window: ServeWindow,
    ) -> None:
        super().__init__(connection, endpoint, context, correlation_id, None, HeldResponse(), started_at_ms)
        self._complete = response
        window.hold(self)

    def send(self) -> None:
        assert isinstance(self.response, HeldResponse)
        self.response.keep(self._complete)

    def give_up(self, reason: str) -> None:
        self.connection.give_up(reason)
