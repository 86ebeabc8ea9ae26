"""Counts, durations and error codes of requests; collected only if metrics are enabled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from klamm.broker.net.dispatch import Endpoint
from klamm.protocol.api import ApiKey
from klamm.protocol.message import Message


@dataclass(slots=True)
class RequestStats:
    """All requests of one API."""

    by_version: Counter[int] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)  # by error code, 0 too, as Kafka counts them
    answers: int = 0
    total_ms: int = 0  # from arrival to answer
    local_ms: int = 0  # deciding
    remote_ms: int = 0  # waiting for an event, or for the disk
    request_bytes: int = 0


class RequestMeter:
    """Called for every request when it is decided, and when its response is sent."""

    def __init__(self) -> None:
        self.by_api: dict[ApiKey, RequestStats] = {}

    def _of(self, endpoint: Endpoint) -> RequestStats:
        stats = self.by_api.get(endpoint.api_key)
        if stats is None:
            stats = self.by_api[endpoint.api_key] = RequestStats()
        return stats

    def decided(self, endpoint: Endpoint, size_bytes: int, local_ms: int) -> None:
        stats = self._of(endpoint)
        stats.by_version[endpoint.version] += 1
        stats.request_bytes += size_bytes
        stats.local_ms += local_ms

    def answered(self, endpoint: Endpoint, response: Any, total_ms: int, *, has_waited: bool) -> None:
        stats = self._of(endpoint)
        stats.answers += 1
        stats.total_ms += total_ms
        if has_waited:
            stats.remote_ms += total_ms
        if response is not None:
            stats.errors.update(error_codes(response))


def error_codes(message: Any) -> Iterator[int]:
    """All error codes in a response."""
    kind: Any = type(message)
    has_code, inner_names = _places_of_codes(kind)
    if has_code:
        yield message.error_code
    for name in inner_names:
        for inner in getattr(message, name) or ():
            if not isinstance(inner, Message):
                break
            yield from error_codes(inner)


@cache
def _places_of_codes(kind: Any) -> tuple[bool, tuple[str, ...]]:
    types = {name: declared for _, _, name, declared, *_ in kind.SCHEMA}
    arrays = (name for name, declared in types.items() if declared.startswith("[]"))
    return "error_code" in types, tuple(arrays)
