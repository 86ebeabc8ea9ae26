"""Connections to other brokers on the broker's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from klamm.net.network import Address, LinkEvents
from klamm.protocol.types import Buffer


class LoopTransport:
    """Opens connections on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def connect(self, address: Address, events: LinkEvents) -> LoopLink:
        return LoopLink(self._loop, address, events)


class LoopLink(asyncio.Protocol):
    """One connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: Address, events: LinkEvents) -> None:
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        self._opening = loop.create_task(self._open(loop, address))

    async def _open(self, loop: asyncio.AbstractEventLoop, address: Address) -> None:
        try:
            await loop.create_connection(lambda: self, *address)
        except OSError as error:
            self._lose(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        if self._is_over:
            opened.abort()
            return
        self._transport = opened
        self._events.connected()

    def data_received(self, data: bytes) -> None:
        if not self._is_over:
            self._events.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(error if isinstance(error, OSError) else None)

    def _lose(self, error: OSError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._events.lost(error)

    def send(self, parts: Sequence[Buffer]) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.writelines(parts)

    def close(self) -> None:
        self._is_over = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
