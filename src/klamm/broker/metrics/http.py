"""The page that Prometheus reads, over HTTP: one request, one response, closed.

The page of a broker with many partitions has many megabytes. It is computed and sent in slices, so that other
connections are served between them, and only as fast as the client reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, cast

from klamm.broker.metrics.exposition import CONTENT_TYPE

PATH: Final = b"/metrics"
SLICE_LINES: Final = 500  # about two milliseconds
_MAX_REQUEST_BYTES: Final = 8192
_REQUEST_TIMEOUT_S: Final = 10
_RESPONSE_TIMEOUT_S: Final = 120


class MetricsPage(asyncio.Protocol):
    """One HTTP connection of a Prometheus server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, page: Callable[[], Iterator[str]]) -> None:
        self._loop = loop
        self._page = page
        self._came = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lines: Iterator[str] | None = None
        self._is_chunked = False
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        self._timer = self._loop.call_later(_REQUEST_TIMEOUT_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines = None
        self._stop_timer()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._send_slice)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._lines is not None:
            return  # the response is being sent; there is one request for each connection
        self._came += data
        if b"\r\n\r\n" in self._came:
            self._respond(self._came.split(b"\r\n", 1)[0].split(b" "))
        elif len(self._came) > _MAX_REQUEST_BYTES:
            self._transport.abort()

    def _respond(self, request: list[bytes]) -> None:
        assert self._transport is not None
        match request:
            case [b"GET", path, version] if path.split(b"?")[0] == PATH:
                self._stop_timer()
                self._timer = self._loop.call_later(_RESPONSE_TIMEOUT_S, self._transport.abort)
                # Before 1.1 there are no chunks, and the end of the connection is the end of the page.
                self._is_chunked = version != b"HTTP/1.0"
                self._transport.write(_head("Transfer-Encoding: chunked" if self._is_chunked else ""))
                self._lines = self._page()
                self._send_slice()
            case [b"GET", _, _]:
                self._refuse("404 Not Found", b"metrics are at /metrics\n")
            case _:
                self._refuse("405 Method Not Allowed", b"GET /metrics\n")

    def _send_slice(self) -> None:
        if self._lines is None or self._is_paused or self._transport is None:
            return
        taken = list(islice(self._lines, SLICE_LINES))
        part = "".join(taken).encode()
        if part:
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if self._is_chunked else part)
        if len(taken) == SLICE_LINES:
            if not self._is_paused:
                self._loop.call_soon(self._send_slice)
            return
        self._lines = None
        if self._is_chunked:
            self._transport.write(b"0\r\n\r\n")
        self._transport.close()

    def _refuse(self, status: str, body: bytes) -> None:
        assert self._transport is not None
        self._transport.write(_head(f"Content-Length: {len(body)}", status) + body)
        self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _head(framing: str, status: str = "200 OK") -> bytes:
    fields = [f"HTTP/1.1 {status}", f"Content-Type: {CONTENT_TYPE}", framing, "Connection: close"]
    return ("\r\n".join(filter(None, fields)) + "\r\n\r\n").encode()
