"""Requests on the wire in any version, and answers made comparable between two brokers."""

from __future__ import annotations

import json
import socket
import struct
from types import TracebackType
from typing import Any, Self

from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.message import Message

# What two brokers may say differently and still mean the same.
_OWN_WORDS = frozenset(
    {"error_message", "cluster_id", "host", "port", "broker_epoch", "log_dir", "documentation", "session_id"}
)
_ONLY_WHETHER = frozenset(
    {"usable_bytes", "topic_id", "producer_id", "batch_index_error_message", "aborted_transactions"}
)


class Conversation:
    """One connection that asks a broker anything."""

    def __init__(self, bootstrap: str, *, source: str = "") -> None:
        """`source` is the address to come from."""
        host, _, port = bootstrap.rpartition(":")
        local = (source, 0) if source else None
        self._socket = socket.create_connection((host, int(port)), timeout=30, source_address=local)
        self._stream = self._socket.makefile("rb")

    def ask(self, api_key: int, version: int, request: object) -> Any:
        """The answer, or "closed" if the broker closed the connection instead."""
        body = request_encoder(api_key, version)(request)
        self._socket.sendall(b"".join(request_frame(api_key, version, 7, "questions", body)))
        size = self._stream.read(4)
        if len(size) < 4:
            return "closed"
        frame = self._stream.read(struct.unpack(">i", size)[0])
        correlation_id, position = read_response_header(frame, has_tags=response_has_tags(api_key, version))
        assert correlation_id == 7
        return response_decoder(api_key, version)(frame, position)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def comparable(answer: Any) -> Any:
    """An answer as plain values, without what two brokers say in their own words, and in one order."""
    if isinstance(answer, Message):
        return {
            name: _whether(value) if name in _ONLY_WHETHER else comparable(value)
            for name, value in answer.values().items()
            if name not in _OWN_WORDS
        }
    if isinstance(answer, list | tuple):
        return sorted((comparable(item) for item in answer), key=lambda item: json.dumps(item, default=str))
    if isinstance(answer, bytes | bytearray | memoryview):
        return bytes(answer).hex()
    return answer


def _whether(value: object) -> str:
    return "nothing" if value in (None, -1, "", bytes(16), []) else "something"
