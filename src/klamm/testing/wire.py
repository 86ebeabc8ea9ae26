"""A protocol client that hides nothing: any message in any version, and raw bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.framing import FrameReader
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.types import Buffer
from klamm.testing.selection import api_named


def request_bytes(
    api_key: ApiKey, version: int, request: Any, *, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """One request as it goes over the wire, size first."""
    body = request_encoder(api_key, version)(request)
    return b"".join(request_frame(api_key, version, correlation_id, client_id, body))


def response_bytes(correlation_id: int, body: Sequence[Buffer], *, has_tags: bool) -> bytes:
    """One encoded response as it goes over the wire, size first."""
    header = struct.pack(">i", correlation_id) + (b"\0" if has_tags else b"")
    frame = b"".join((header, *body))
    return struct.pack(">i", len(frame)) + frame


def response_from(api_key: ApiKey, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, response) of one frame without its size."""
    correlation_id, position = read_response_header(frame, has_tags=response_has_tags(api_key, version))
    return correlation_id, response_decoder(api_key, version)(frame, position)


def frames_in(data: bytes) -> list[bytes]:
    """The frames of a stream, without their sizes."""
    return list(FrameReader(2**31 - 1, smallest=4, are_requests=False).feed(data))


class WireClient:
    """A blocking client on a real socket: `client.ask("ListGroups", 4, ListGroupsRequest())`.

    Requests and responses are those of `klamm.protocol.messages`; an API is given by its name or its ApiKey.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0, client_id: str | None = "test") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, api: ApiKey | str, version: int, request: Any) -> int:
        """Send without waiting; the correlation id."""
        self._correlation_id += 1
        self.socket.sendall(
            request_bytes(
                _key(api), version, request, correlation_id=self._correlation_id, client_id=self._client_id
            )
        )
        return self._correlation_id

    def receive(self, api: ApiKey | str, version: int) -> tuple[int, Any]:
        """The next answer, with its correlation id, taken for this API and version."""
        return response_from(_key(api), version, self.receive_frame())

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, api: ApiKey | str, version: int, request: Any) -> Any:
        """Send and wait for the answer."""
        sent = self.send(api, version, request)
        correlation_id, response = self.receive(api, version)
        assert correlation_id == sent
        return response

    def is_closed(self) -> bool:
        """Whether the broker closes without another byte (waits for it)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _key(api: ApiKey | str) -> ApiKey:
    return api_named(api) if isinstance(api, str) else api
