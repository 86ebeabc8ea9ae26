"""A broker that means no good: it accepts connections, and then does one of many wrong things."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, response_encoder
from klamm.protocol.headers import read_request_header, response_has_tags
from klamm.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from klamm.protocol.schema import is_flexible, schema_versions
from klamm.testing.wire import response_bytes

CHUNK: Final = bytes(256 * 1024)

Behaviour = Callable[["HostileConnection"], None]


class HostileConnection:
    """One connection, from the broker's side."""

    def __init__(self, opened: socket.socket, broker: HostileBroker) -> None:
        self.socket = opened
        self.broker = broker

    def request(self) -> tuple[ApiKey, int, int, Any]:
        """The next request: API, version, correlation id, message."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        key, version = struct.unpack_from(">hh", frame)
        header = read_request_header(frame, has_tags=is_flexible(key, version))
        message = request_decoder(key, version)(frame, header.body_position)
        return ApiKey(key), version, header.correlation_id, message

    def answer(self, api_key: ApiKey, version: int, correlation_id: int, response: Any) -> None:
        body = response_encoder(api_key, version)(response)
        has_tags = response_has_tags(api_key, version)
        self.socket.sendall(response_bytes(correlation_id, body, has_tags=has_tags))

    def negotiate(self) -> None:
        """Behave like a broker for one moment: tell the versions."""
        api_key, version, correlation_id, _ = self.request()
        assert api_key is ApiKey.API_VERSIONS
        versions = [
            ApiVersion(api_key=key, min_version=schema_versions(key)[0], max_version=schema_versions(key)[-1])
            for key in ApiKey
        ]
        self.answer(api_key, version, correlation_id, ApiVersionsResponse(api_keys=versions))

    def send_for_ever(self, data: bytes = CHUNK) -> None:
        """As fast as it goes, until the other side has enough."""
        while True:
            self.socket.sendall(data)
            self.broker.sent_bytes += len(data)

    def fall_silent(self) -> None:
        """Take everything, say nothing."""
        while self.socket.recv(65536):
            pass

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the client is gone")
            data += part
        return data


class HostileBroker:
    """Gives every connection to a behaviour, each on a thread of its own."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.connections = 0
        self.sent_bytes = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                opened, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(opened)
            thread = threading.Thread(target=self._serve, args=(opened,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, opened: socket.socket) -> None:
        with suppress(OSError):  # the client has had enough, which is what the tests want
            self._behaviour(HostileConnection(opened, self))
        with self._lock:
            self._open.discard(opened)
        opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            still_open = list(self._open)
        for opened in still_open:
            with suppress(OSError):  # gone already
                opened.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)


def after_versions(behaviour: Behaviour) -> Behaviour:
    """Tell the versions properly; then this."""

    def behave(connection: HostileConnection) -> None:
        connection.negotiate()
        behaviour(connection)

    return behave


def serving(answers: Mapping[ApiKey, Callable[[Any], Any]], then: Behaviour) -> Behaviour:
    """Answer these APIs properly, and do `then` when another request comes."""

    def behave(connection: HostileConnection) -> None:
        connection.negotiate()
        while True:
            api_key, version, correlation_id, message = connection.request()
            if api_key not in answers:
                then(connection)
                return
            connection.answer(api_key, version, correlation_id, answers[api_key](message))

    return behave
