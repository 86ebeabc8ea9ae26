"""The page that Prometheus reads, over HTTP: one request, one response, closed.

The page of a broker with many partitions has many megabytes. It is computed and sent in slices, so that other
connections are served between them, and only as fast as the client reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from klamm.broker.config.http_ports import METRICS
from klamm.broker.metrics.exposition import CONTENT_TYPE
from klamm.broker.net.http_access import FAILURE_DELAY_S, HttpAccess, HttpAdmission
from klamm.broker.net.listeners import is_loopback

if TYPE_CHECKING:
    from klamm.broker.net.listeners import Listener
    from klamm.broker.net.tls_stream import Above
    from klamm.broker.services import Services

PATH: Final = b"/metrics"
SLICE_LINES: Final = 500  # about two milliseconds
_MAX_REQUEST_BYTES: Final = 8192
_REASONS: Final = {401: "401 Unauthorized", 403: "403 Forbidden"}

_log = logging.getLogger(__name__)


class MetricsPage(asyncio.Protocol):
    """One HTTP connection of a Prometheus server."""

    def __init__(
        self, admission: HttpAdmission, page: Callable[[], Iterator[str]], access: HttpAccess
    ) -> None:
        self._admission = admission
        self._loop = admission.loop
        self._page = page
        self._access = access
        self._came = b""
        self._transport: asyncio.Transport | None = None
        self._is_refused = False
        self._lines: Iterator[str] | None = None
        self._is_chunked = False
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        self._admission.admit(self, self._transport, METRICS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines = None
        self._admission.leave(self)

    def abort(self) -> None:
        """It takes too long."""
        if self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> None:
        """The transport closes itself."""

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._send_slice)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._lines is not None or self._is_refused:
            return  # the response is being sent; there is one request for each connection
        self._came += data
        if b"\r\n\r\n" in self._came:
            head = self._came.partition(b"\r\n\r\n")[0]
            if self._may_ask(head):
                self._respond(head.split(b"\r\n", 1)[0].split(b" "))
        elif len(self._came) > _MAX_REQUEST_BYTES:
            self._transport.abort()

    def _may_ask(self, head: bytes) -> bool:
        assert self._transport is not None
        fields = {
            name.strip().lower(): value.strip().decode("latin-1")
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        refusal = self._access.refusal(fields.get(b"authorization"), fields.get(b"host"))
        if refusal is None:
            return True
        self._is_refused = True
        status, reason = refusal
        peer = self._transport.get_extra_info("peername")
        self._admission.report(f"{peer[0]}:{peer[1]}" if peer else "?", f"metrics are refused: HTTP {status}")
        refuse = partial(self._refuse, _REASONS[status], f"{reason}\n".encode())
        self._loop.call_later(FAILURE_DELAY_S, refuse)
        return False

    def _respond(self, request: list[bytes]) -> None:
        assert self._transport is not None
        match request:
            case [b"GET", path, version] if path.split(b"?")[0] == PATH:
                self._admission.answering(self)
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


def pages_over(
    services: Services,
    listener: Listener,
    page: Callable[[], Iterator[str]],
    report: Callable[[str, str], None],
) -> Callable[[], Above]:
    """Makes what takes the bytes of one connection: a page, under TLS if the port has it."""
    token = services.config.klamm_metrics_token
    is_local = is_loopback(listener.host)
    if token is None and not is_local:
        _log.warning(
            "klamm.metrics.listener=%s:%d can be reached from other machines, and shows the names of topics "
            "and groups to all of them: set klamm.metrics.token",
            listener.host,
            listener.port,
        )
    access = HttpAccess(token, only_local_names=is_local)
    admission = HttpAdmission(services.loop, report)
    security = services.listener_securities.get(METRICS)
    if security is None or security.tls is None:
        return lambda: MetricsPage(admission, page, access)
    from klamm.broker.net.tls_stream import TlsStream  # noqa: PLC0415 - slow to import

    tls = security.tls  # its context is replaced when certificates are renewed
    return lambda: TlsStream(
        tls.context,
        admission,
        METRICS,
        accept=lambda _peer, _subject: MetricsPage(admission, page, access),
        refuse=report,
    )


def _head(framing: str, status: str = "200 OK") -> bytes:
    asks = "WWW-Authenticate: Bearer" if status.startswith("401") else ""
    fields = [f"HTTP/1.1 {status}", f"Content-Type: {CONTENT_TYPE}", asks, framing, "Connection: close"]
    return ("\r\n".join(filter(None, fields)) + "\r\n\r\n").encode()
