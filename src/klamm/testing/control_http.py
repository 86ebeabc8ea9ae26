"""The control port: JSON over HTTP/1.1, on threads of its own.

The broker's event loop, which serves /metrics, cannot serve it: a request that moves the clock waits for that
loop to become idle, and one that kills the broker outlives it.
"""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from klamm.broker.net.http_access import (
    FAILURE_DELAY_S,
    MOST_CONNECTIONS,
    NOT_FOR_PAGES,
    REQUEST_TIMEOUT_S,
    HttpAccess,
)
from klamm.broker.net.listeners import Listener
from klamm.broker.net.server import bind
from klamm.testing.control import Control, ControlError
from klamm.version import __version__

if TYPE_CHECKING:
    from klamm.broker.security.tls_listener import TlsListener
    from klamm.config import Password
    from klamm.testing.broker import Broker

MAX_BODY_BYTES: Final = 64 * 1024
_IDLE_TIMEOUT_S: Final = 60.0  # of a connection that sends nothing
_STOP_POLL_S: Final = 0.05
_CREATED: Final = frozenset({("POST", "/faults"), ("POST", "/topics")})

_log = logging.getLogger(__name__)


class ControlServer:
    """The control port of a broker, from when it is made until `close`. Raises StartError."""

    def __init__(
        self,
        broker: Broker,
        listener: Listener,
        *,
        token: Password | None = None,
        tls: TlsListener | None = None,
    ) -> None:
        self._broker = broker
        self._bound = bind(listener)
        self._tls = tls
        self._access = HttpAccess(token, only_local_names=True)
        self._servers: list[_Server] = []
        self.address = self._bound.address

    def start(self) -> None:
        """Serve. The broker has started."""
        control = Control(self._broker)
        for each in self._bound.sockets:  # localhost may have two addresses
            each.setblocking(True)
            server = _Server(each, control, self._access, self._tls)
            self._servers.append(server)
            threading.Thread(
                target=server.serve_forever, args=(_STOP_POLL_S,), name="klamm control", daemon=True
            ).start()

    def close(self) -> None:
        """Accept no more connections. Requests that are being carried out are not waited for."""
        for server in self._servers:
            server.shutdown()
        self._bound.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """Accepts connections; each has a thread."""

    daemon_threads = True

    def __init__(
        self, listening: socket.socket, control: Control, access: HttpAccess, tls: TlsListener | None
    ) -> None:
        super().__init__(listening.getsockname(), _Connection)
        self._socket = listening
        self._tls = tls
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.access = access
        self.control = control

    def fileno(self) -> int:
        return self._socket.fileno()

    def get_request(self) -> tuple[socket.socket, object]:
        accepted, peer = self._socket.accept()
        if not self._places.acquire(blocking=False):
            accepted.close()
            raise OSError(f"the control port serves {MOST_CONNECTIONS} connections already")
        return accepted, peer

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            if self._tls is not None:
                # On the connection's thread: a client that is slow, or silent, holds up no other.
                plain = cast(socket.socket, request)
                plain.settimeout(REQUEST_TIMEOUT_S)
                try:
                    request = self._tls.context.wrap_socket(plain, server_side=True)
                except (OSError, ValueError) as error:
                    _log.warning(
                        "TLS handshake of %s with the control port failed: %s", client_address, error
                    )
                    plain.close()
                    return
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._places.release()

    def shutdown_request(self, request: object) -> None:
        cast(socket.socket, request).close()

    def handle_error(self, request: object, client_address: object) -> None:
        _log.debug("control connection from %s failed", client_address, exc_info=True)


class _Connection(BaseHTTPRequestHandler):
    """One connection of a test, with one request after the other."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_TIMEOUT_S
    wbufsize = -1  # head and body are sent together: the second of two would wait for an acknowledgement
    server: _Server

    def __getattr__(self, name: str) -> Callable[[], None]:
        # http.server looks for do_GET and so on: paths, and not methods, are unknown here.
        if name.startswith("do_"):
            return self._respond
        raise AttributeError(name)

    def _respond(self) -> None:
        try:
            body = self._read()
            answer = self._carry_out(body)
        except ControlError as error:
            self._send(error.status, {"error": str(error)}, {"Allow": ", ".join(error.allow)})
        else:
            is_created = (self.command, self.path) in _CREATED
            self._send(HTTPStatus.CREATED if is_created else HTTPStatus.OK, answer, {})

    def _carry_out(self, body: bytes) -> object:
        try:
            return self.server.control.carry_out(self.command, self.path, body)
        except ControlError:
            raise
        except Exception as error:
            _log.exception("%s %s failed", self.command, self.path)
            raise ControlError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"
            ) from error

    def _read(self) -> bytes:
        """The body. Raises ControlError."""
        self._check_access()
        if self.headers.get("Transfer-Encoding") is not None:
            raise self._refusal(
                HTTPStatus.LENGTH_REQUIRED, "a body in chunks is not accepted: send Content-Length"
            )
        text = self.headers.get("Content-Length", "0")
        if not text.isascii() or not text.isdigit():
            raise self._refusal(HTTPStatus.BAD_REQUEST, f"invalid Content-Length {text}")
        if len(text) > 9 or int(text) > MAX_BODY_BYTES:
            raise self._refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body exceeds {MAX_BODY_BYTES} bytes"
            )
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise self._refusal(HTTPStatus.BAD_REQUEST, "the body ends before its Content-Length")
        return body

    def _check_access(self) -> None:
        """Refuse who has no token; and pages in a browser, also those whose name is this machine's."""
        refusal = self.server.access.refusal(self.headers.get("Authorization"), self.headers.get("Host"))
        if refusal is not None:
            status, reason = refusal
            _log.warning("control port: a request from %s is refused: HTTP %d", self.address_string(), status)
            time.sleep(FAILURE_DELAY_S)
            raise self._refusal(HTTPStatus(status), reason)
        if "Origin" in self.headers:
            raise self._refusal(HTTPStatus.FORBIDDEN, NOT_FOR_PAGES)

    def _refusal(self, status: HTTPStatus, message: str) -> ControlError:
        """The error for a request whose end is not known: the connection is closed after the response."""
        self.close_connection = True
        return ControlError(status, message)

    def _send(self, status: HTTPStatus, answer: object, fields: dict[str, str]) -> None:
        data = json.dumps(answer, ensure_ascii=False).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        for name, value in fields.items():
            if value:
                self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors that http.server finds: in the request line, in the headers, an unknown method."""
        self.close_connection = True
        self._send(HTTPStatus(code), {"error": message or HTTPStatus(code).phrase}, {})

    def version_string(self) -> str:
        return f"klamm/{__version__}"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        _log.debug("%s: " + format, self.address_string(), *args)
