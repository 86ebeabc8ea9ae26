"""Requests of a client that logged in: all are served, unless its session is over or being renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from klamm.broker.net.context import CloseConnectionError, RequestContext
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode

if TYPE_CHECKING:
    from klamm.broker.net.connection import Connection
    from klamm.broker.net.dispatch import Dispatcher, Endpoint
    from klamm.broker.security.session import LoginSession
    from klamm.broker.services import Services

SILENCE_MS: Final = 60_000  # after the end of its session a connection is closed, if nothing comes
_HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_AUTHENTICATE_KEY: Final = int(ApiKey.SASL_AUTHENTICATE).to_bytes(2, "big")

FindEndpoint: TypeAlias = Callable[[bytes], "Endpoint | None"]


class SessionGuard:
    """Stands before the lookup of endpoints, and only while it has something to refuse.

    While a session is valid, and where there are none, no request meets it.
    """

    def __init__(
        self, connection: Connection, session: LoginSession, services: Services, dispatcher: Dispatcher
    ) -> None:
        self._connection = connection
        self._dispatcher = dispatcher
        self._session = session
        self._loop = services.loop
        self._find: FindEndpoint = connection.find_endpoint
        self._timer: asyncio.TimerHandle | None = None
        session.on_begin = self._begin
        session.on_login = self._stand
        session.end = connection.end
        self._begin()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        """A session begins."""
        self._connection.find_endpoint = self._find
        self.stop()
        if self._session.lifetime_ms:
            self._timer = self._loop.call_later(self._session.lifetime_ms / 1000, self._over)

    def _over(self) -> None:
        """The session has ended. The connection lives on: its next request may be a login."""
        self._stand()
        self._timer = self._loop.call_later(SILENCE_MS / 1000, self._close_silent)

    def _close_silent(self) -> None:
        if self._connection.is_busy:
            self._timer = self._loop.call_later(SILENCE_MS / 1000, self._close_silent)
        else:
            self._connection.give_up(f"its session ended {SILENCE_MS // 1000} s ago")

    def _stand(self) -> None:
        self._connection.find_endpoint = self._guarded

    def _guarded(self, start: bytes) -> Endpoint | None:
        """In place of the lookup of an endpoint by the first bytes of a request."""
        key, session = start[:2], self._session
        try:
            # The lookup knows only what was served before; another request must not pass for that.
            endpoint = self._find(start) or self._dispatcher.endpoint(start)
        except DecodeError:
            return None  # refused where all such requests are
        if session.is_logging_in:
            if key != _AUTHENTICATE_KEY:
                return endpoint.with_handler(partial(self._misplaced, endpoint))
        elif session.has_ended and key != _HANDSHAKE_KEY:
            return endpoint.with_handler(_too_late)
        return endpoint

    async def _misplaced(
        self, endpoint: Endpoint, services: Services, context: RequestContext, request: Any
    ) -> Any:
        await asyncio.sleep(self._session.listener.failure_delay_ms / 1000)
        self._session.end()
        return endpoint.failed(request, ErrorCode.illegal_sasl_state)


def _too_late(services: Services, context: RequestContext, request: Any) -> Any:
    raise CloseConnectionError("the session has ended, and the client did not log in again")
