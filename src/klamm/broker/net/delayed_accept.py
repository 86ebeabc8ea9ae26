"""A connection that waits before it is served, as if it were not accepted yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from klamm.broker.net.newcomers import Newcomers
    from klamm.broker.net.tls_stream import Above
    from klamm.broker.quotas.connection_rates import Delay


class DelayedAccept:
    """Stands before what takes the bytes of a new connection, where connections are counted by time."""

    def __init__(
        self,
        above: Above,
        newcomers: Newcomers,
        listener: str,
        *,
        opened: Callable[[str, str], Delay],
        refuse: Callable[[str, str], None],
    ) -> None:
        """`opened` counts a connection, by listener and address; `refuse` is told peer and reason."""
        self._above = above
        self._newcomers = newcomers
        self._listener = listener
        self._opened = opened
        self._refuse = refuse
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._received = bytearray()  # what was on its way when reading was paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)  # uvloop's does not say so
        peer = opened.get_extra_info("peername")
        address = "?"
        if peer:
            address, self._peer = str(peer[0]), f"{peer[0]}:{peer[1]}"
        delay = self._opened(self._listener, address)
        self._transport = opened
        if not delay.wait_ms:
            self._serve()
            return
        if not self._newcomers.admit(self, opened, self._listener):
            return
        opened.pause_reading()
        after = self._resume if delay.is_served else self._close
        self._timer = self._newcomers.loop.call_later(delay.wait_ms / 1000, after)

    def _resume(self) -> None:
        transport = self._transport
        assert transport is not None
        self._newcomers.leave(self)
        transport.resume_reading()
        self._serve()

    def _serve(self) -> None:
        assert self._transport is not None
        self._transport.set_protocol(cast(asyncio.BaseProtocol, self._above))
        self._above.connection_made(self._transport)
        if self._received:
            self._above.data_received(bytes(self._received))

    def _close(self) -> None:
        self._refuse(self._peer, "connection_creation_rate of its address is reached")
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data

    def eof_received(self) -> None:
        """The transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._newcomers.leave(self)

    def pause_writing(self) -> None:
        """Nothing is written."""

    def resume_writing(self) -> None:
        """Nothing is written."""
