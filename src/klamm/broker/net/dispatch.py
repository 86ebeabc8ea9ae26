"""From an API's key and version to everything that serves it, made on first use."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.net.context import Handler
from klamm.broker.net.elements import reader_of, writer_of
from klamm.broker.net.failures import failure_of
from klamm.broker.net.repeats import decoder_of_repeats
from klamm.broker.routes import RouteTable
from klamm.clock import Clock
from klamm.printable import printable
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Decode, Encode, request_decoder, response_encoder
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.headers import response_has_tags
from klamm.protocol.schema import is_flexible

if TYPE_CHECKING:
    from klamm.broker.services import Services

_REPORTS_PER_WINDOW: Final = 10
_WINDOW_MS: Final = 10_000
_MOST_OF_A_REASON: Final = 500  # characters

API_VERSIONS_KEY: Final = int(ApiKey.API_VERSIONS).to_bytes(2, "big")
HEAD: Final = Struct(">ii")
_MOST_REPEATED: Final = 512  # responses of one endpoint
_MOST_REPEATED_BYTES: Final = 1024  # of each
TAGGED_HEAD: Final = Struct(">iix")  # no tags: their number is the byte that is packed as zero

_log = logging.getLogger(__name__)


class Endpoint:
    """One version of one API."""

    __slots__ = (
        "api_key", "bodies", "decode", "encode", "failed", "handle", "head_bytes", "header_has_tags",
        "pack_head", "response_type", "streams", "version",
    )  # fmt: skip

    def __init__(
        self,
        *,
        api_key: ApiKey,
        version: int,
        header_has_tags: bool,
        head_bytes: int,  # what precedes the body of a response: size, correlation id, tags if there are any
        pack_head: Callable[[int, int], bytes],
        decode: Decode,
        encode: Encode,
        handle: Handler,
        failed: Callable[[Any, ErrorCode], Any],
        streams: bool = False,  # responses may hold megabytes: they are sent in parts, without a copy
        # By `id`, small responses that may be sent again, their encoded bodies and sizes; None: none is.
        bodies: dict[int, tuple[Any, bytes, int]] | None = None,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.header_has_tags = header_has_tags
        self.head_bytes = head_bytes
        self.pack_head = pack_head
        self.decode = decode
        self.encode = encode
        self.handle = handle
        self.failed = failed
        self.response_type: type | None = None  # once known, saves asking each answer whether it is one
        self.streams = streams
        self.bodies = bodies

    def with_handler(self, handle: Handler) -> Endpoint:
        """The same with another handler."""
        return Endpoint(
            api_key=self.api_key,
            version=self.version,
            header_has_tags=self.header_has_tags,
            head_bytes=self.head_bytes,
            pack_head=self.pack_head,
            decode=self.decode,
            encode=self.encode,
            handle=handle,
            failed=self.failed,
            streams=self.streams,
            bodies=self.bodies,
        )

    def __str__(self) -> str:
        return f"{self.api_key.name} {self.version}"

    def whole(self, correlation_id: int, response: Any) -> bytes:
        """An encoded response that is not sent in parts."""
        bodies = self.bodies
        known = None if bodies is None else bodies.get(id(response))
        if known is not None and known[0] is response:
            return self.pack_head(known[2], correlation_id) + known[1]
        body = self._new_body(response)
        return self.pack_head(self.head_bytes - 4 + len(body), correlation_id) + body

    def parts(self, correlation_id: int, response: Any) -> tuple[Sequence[Any], int]:
        """An encoded response that is sent in parts, and its size."""
        parts = self.encode(response)
        size_bytes = self.head_bytes + sum(map(len, parts))
        return [self.pack_head(size_bytes - 4, correlation_id), *parts], size_bytes

    def _new_body(self, response: Any) -> bytes:
        bodies = self.bodies
        parts = self.encode(response)
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        if bodies is not None and len(body) <= _MOST_REPEATED_BYTES:
            if len(bodies) >= _MOST_REPEATED:
                bodies.clear()
            bodies[id(response)] = response, body, self.head_bytes - 4 + len(body)
        return body


class Dispatcher:
    """Finds endpoints by the first four bytes of a request: its key and its version."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._endpoints: dict[bytes, Endpoint] = {}
        self.overlapping = routes.overlapping
        self.find = self._endpoints.get  # those requested before; None for the others

    def endpoint(self, start: bytes) -> Endpoint:
        """The endpoint for these four bytes; DecodeError when this API or version is not served."""
        found = self._endpoints.get(start)
        if found is None:
            found = self._endpoints[start] = self._make(start)
        return found

    def unsupported_api_versions(self, services: Services) -> tuple[Endpoint, Any]:
        """What answers ApiVersions in an unknown version: the oldest layout, which any client can read."""
        from klamm.broker.apis.api_versions import (  # noqa: PLC0415 - as all handlers, when needed
            unsupported_version,
        )

        return self.endpoint(API_VERSIONS_KEY + bytes(2)), unsupported_version(services)

    def _make(self, start: bytes) -> Endpoint:
        key = int.from_bytes(start[0:2], "big", signed=True)
        version = int.from_bytes(start[2:4], "big", signed=True)
        route = self._routes.find(key, version)
        if route is None:
            raise DecodeError(f"API {key} version {version} is not served")
        head = TAGGED_HEAD if response_has_tags(key, version) else HEAD
        api_key = route.api_key
        return Endpoint(
            api_key=api_key,
            version=version,
            header_has_tags=is_flexible(key, version),
            head_bytes=head.size,
            pack_head=head.pack,
            decode=decoder_of_repeats(api_key, request_decoder(key, version, reader_of)),
            encode=response_encoder(key, version, writer_of),
            handle=self._routes.handler(route),
            failed=failure_of(api_key),
            streams=route.streams,
            bodies={} if route.repeats else None,
        )


class RefusalLog:
    """One line per refused connection, until there are too many of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_ends_at_ms = 0
        self._reports = 0
        self._unreported = 0
        self.decode_failures: Counter[str] = Counter()  # by kind

    def report(self, peer: str, reason: str, kind: str = "") -> None:
        """`kind` is what could not be read, if it was that."""
        if kind:
            self.decode_failures[kind] += 1
        now_ms = self._clock.now_ms()
        if now_ms >= self._window_ends_at_ms:
            if self._unreported:
                _log.warning("%d similar messages suppressed", self._unreported)
            self._window_ends_at_ms = now_ms + _WINDOW_MS
            self._reports = self._unreported = 0
        if self._reports >= _REPORTS_PER_WINDOW:
            self._unreported += 1
            return
        self._reports += 1
        _log.warning("connection from %s closed: %s", peer, printable(reason, _MOST_OF_A_REASON))
