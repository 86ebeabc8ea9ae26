"""A network without sockets: a transport whose other end is the test."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from klamm.net.network import Address, LinkEvents, Network, NetworkConfig
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, response_encoder
from klamm.protocol.headers import read_request_header, response_has_tags
from klamm.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from klamm.protocol.schema import is_flexible, schema_versions
from klamm.protocol.types import Buffer
from klamm.testing.wire import response_bytes


@dataclass
class Asked:
    """A request that reached the other end."""

    link: FakeLink
    api_key: ApiKey
    version: int
    correlation_id: int
    request: Any

    def answer(self, response: Any) -> None:
        if self.link.is_closed:
            return  # nothing arrives over a closed connection
        self.link.events.received(self.answer_bytes(response))

    def answer_bytes(self, response: Any) -> bytes:
        body = response_encoder(self.api_key, self.version)(response)
        has_tags = response_has_tags(self.api_key, self.version)
        return response_bytes(self.correlation_id, body, has_tags=has_tags)


class FakeLink:
    """One connection; what the client sends becomes `Asked`."""

    def __init__(self, transport: FakeTransport, address: Address, events: LinkEvents) -> None:
        self.transport = transport
        self.address = address
        self.events = events
        self.is_closed = False

    def send(self, parts: Sequence[Buffer]) -> None:
        frame = b"".join(parts)
        while frame:
            (size,) = struct.unpack_from(">i", frame)
            self._request(frame[4 : 4 + size])
            frame = frame[4 + size :]

    def _request(self, frame: bytes) -> None:
        key, version = struct.unpack_from(">hh", frame)
        header = read_request_header(frame, has_tags=is_flexible(key, version))
        request = request_decoder(key, version)(frame, header.body_position)
        asked = Asked(self, ApiKey(key), version, header.correlation_id, request)
        self.transport.arrived(asked)

    def arrives(self, stream: bytes, piece_bytes: int) -> None:
        """Bytes arrive so many at a time, and are put where the client has room for them, as by a socket."""
        while stream:
            room = self.events.room()
            count = min(piece_bytes, len(stream) if room is None else len(room))
            piece, stream = stream[:count], stream[count:]
            if room is None:
                self.events.received(piece)
            else:
                room[: len(piece)] = piece
                self.events.filled(len(piece))

    def close(self) -> None:
        self.is_closed = True

    def lose(self) -> None:
        """The other end is gone."""
        if not self.is_closed:
            self.events.lost(OSError(104, "Connection reset by peer"))


@dataclass
class FakeTransport:
    """Connections are made when the test says so; ApiVersions is answered by itself."""

    links: list[FakeLink] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    versions: Callable[[], Sequence[ApiVersion]] = field(default_factory=lambda: every_version)
    negotiates: bool = True
    features: dict[str, int] = field(default_factory=dict)

    def connect(self, address: Address, events: LinkEvents) -> FakeLink:
        link = FakeLink(self, address, events)
        self.links.append(link)
        return link

    def arrived(self, asked: Asked) -> None:
        if asked.api_key is ApiKey.API_VERSIONS and self.negotiates:
            finalized = [FinalizedFeatureKey(name, level, 1) for name, level in self.features.items()]
            asked.answer(
                ApiVersionsResponse(
                    api_keys=self.versions(), finalized_features_epoch=1, finalized_features=finalized
                )
            )
        else:
            self.asked.append(asked)

    def open_all(self) -> None:
        """Let every connection that is being made succeed."""
        for link in list(self.links):
            if not link.is_closed and not getattr(link, "was_opened", False):
                link.was_opened = True  # type: ignore[attr-defined]  # a mark for this loop only
                link.events.connected()

    def take(self, api_key: ApiKey) -> Asked:
        """The oldest unanswered request of this API."""
        found = next(item for item in self.asked if item.api_key is api_key)
        self.asked.remove(found)
        return found


def every_version() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=schema_versions(key)[0], max_version=schema_versions(key)[-1])
        for key in ApiKey
    ]


def a_network(transport: FakeTransport, **config: Any) -> Network:
    bootstrap = config.pop("bootstrap", (("127.0.0.1", 9092),))
    return Network(
        NetworkConfig(bootstrap=bootstrap, client_id="test", **config), transport, Random(7), now_ms=0
    )
