"""Responses of a connection that are not complete, or wait for those before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from klamm.broker.net.context import HeldResponse, ParkedResponse, RequestContext

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from klamm.broker.cluster.serve_window import ServeWindow
    from klamm.broker.net.connection import Connection
    from klamm.broker.net.dispatch import Endpoint

Answer: TypeAlias = tuple[HeldResponse[Any], "Endpoint", RequestContext, int, int, int, int]
"""A request that was decided: its response, which is not sent yet, endpoint and context, the correlation id,
when it was received, its size, and what it counts for in RequestMemory.held_bytes. A tuple: one is made for
every request that waits for the disk."""


class AwaitedResponse(ParkedResponse[Any]):
    """The response of a handler that is awaited."""

    __slots__ = ("_failed", "_handling")

    def __init__(self, handling: Future[Any], failed: Callable[[BaseException], Any]) -> None:
        """`failed` makes the response of what the handler raised, or None."""
        super().__init__()
        self._handling = handling
        self._failed = failed
        handling.add_done_callback(self._has_ended)

    def drop(self) -> None:
        """Cancel the handler. The listener is called when it has ended."""
        self._handling.cancel()

    def _has_ended(self, handling: Future[Any]) -> None:
        if handling.cancelled():
            self.keep(None)
        elif (error := handling.exception()) is not None:
            self.keep(self._failed(error))
        else:
            self.keep(handling.result())


class UnprovenResponse(HeldResponse[Any]):
    """A complete response that waits until the broker's lease is known to be valid; see `ServeWindow`."""

    __slots__ = ("_complete", "_connection")

    def __init__(self, connection: Connection, response: Any, window: ServeWindow) -> None:
        super().__init__()
        self._connection = connection
        self._complete = response
        self.listener = connection.turn_soon
        window.hold(self)

    def send(self) -> None:
        self.keep(self._complete)

    def give_up(self, reason: str) -> None:
        self._connection.give_up(reason)
