"""The page that Prometheus reads, over HTTP: one request, one answer, closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from klamm.broker.metrics.exposition import CONTENT_TYPE

PATH: Final = b"/metrics"
_MAX_REQUEST_BYTES: Final = 8192
_PATIENCE_S: Final = 10


class MetricsPage(asyncio.Protocol):
    """One HTTP connection of a Prometheus server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, page: Callable[[], bytes]) -> None:
        self._loop = loop
        self._page = page
        self._came = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        self._timer = self._loop.call_later(_PATIENCE_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._came += data
        if b"\r\n\r\n" in self._came:
            self._transport.write(self._answer(self._came.split(b"\r\n", 1)[0].split(b" ")))
            self._transport.close()
        elif len(self._came) > _MAX_REQUEST_BYTES:
            self._transport.abort()

    def _answer(self, asked: list[bytes]) -> bytes:
        match asked:
            case [b"GET", path, _] if path.split(b"?")[0] == PATH:
                return _response("200 OK", self._page())
            case [b"GET", _, _]:
                return _response("404 Not Found", b"the figures are at /metrics\n")
            case _:
                return _response("405 Method Not Allowed", b"GET /metrics\n")


def _response(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
