"""Request and response headers; the header version depends on the API's version."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from klamm.protocol.api import ApiKey
from klamm.protocol.codec.parts import skip_tags
from klamm.protocol.errors import DecodeError
from klamm.protocol.schema import is_flexible
from klamm.protocol.types import Buffer

_START: Final = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
_NAME_AT: Final = 8
_INT32: Final = struct.Struct(">i")


@dataclass(slots=True)
class RequestHeader:
    """A request header; `body_position` is where the message begins in its frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_position: int


def read_request_header(frame: bytes, *, has_tags: bool) -> RequestHeader:
    """The header of a frame; unknown tags are skipped by their size."""
    try:
        api_key, version, correlation_id, length = _START.unpack_from(frame)
        position = _START.size
        client_id = ""
        if length >= 0:
            position += length
            if position > len(frame):
                raise DecodeError("client id ends beyond the request")
            client_id = str(frame[_START.size : position], "utf-8")
        elif length != -1:
            raise DecodeError(f"a client id of length {length}")
        if has_tags:
            position = skip_tags(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id, position)


class RequestHeaders:
    """Decodes the headers of one connection, whose client id is mostly the same."""

    __slots__ = ("_client_id", "_name_end", "_tagged_name", "_written_name")

    def __init__(self) -> None:
        self._written_name = b"\xff\xff"  # the encoded client id of the last request; at first none
        self._tagged_name = b"\xff\xff\0"  # the same, and no tags
        self._client_id = ""
        self._name_end = _START.size

    def read(self, frame: bytes, has_tags: bool) -> tuple[int, str, int]:
        """(correlation id, client id, position of the message). Raises DecodeError."""
        if has_tags:
            if frame.startswith(self._tagged_name, _NAME_AT):
                return _int32_at_4(frame), self._client_id, self._name_end + 1
        elif frame.startswith(self._written_name, _NAME_AT):
            return _int32_at_4(frame), self._client_id, self._name_end
        header = read_request_header(frame, has_tags=has_tags)
        self._client_id = header.client_id
        length = int.from_bytes(frame[_NAME_AT : _START.size], "big", signed=True)
        self._name_end = _START.size + max(length, 0)
        self._written_name = frame[_NAME_AT : self._name_end]
        self._tagged_name = self._written_name + b"\0"
        return header.correlation_id, header.client_id, header.body_position


def _int32_at_4(frame: bytes) -> int:
    value = frame[4] << 24 | frame[5] << 16 | frame[6] << 8 | frame[7]
    return value - (1 << 32) if value >= 1 << 31 else value


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: list[Buffer]
) -> list[Buffer]:
    """An encoded request: size, header, body."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    header = _START.pack(api_key, version, correlation_id, length) + name
    if is_flexible(api_key, version):
        header += b"\0"
    return [_INT32.pack(len(header) + sum(map(len, body))) + header, *body]


def response_has_tags(api_key: int, version: int) -> bool:
    """Whether the response header has a tag section; never for ApiVersions."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)


def read_response_header(frame: Buffer, *, has_tags: bool) -> tuple[int, int]:
    """(correlation id, position of the body)."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        return correlation_id, skip_tags(frame, 4) if has_tags else 4
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
