"""Interceptors: objects that see every record and commit. An error in one is logged, never raised."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from klamm.client.callables import name_of
from klamm.config import ConfigError

log = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """What `send` was given, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Override what you care about."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in `send`; returns the record to send, the same or another."""
        return record

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        """Called on the producer's thread when a record is delivered or has failed."""


class ConsumerInterceptor:
    """Override what you care about."""

    def on_consume(self, records: Any) -> Any:
        """Called before `poll` returns records; returns what to return."""
        return records

    def on_commit(self, offsets: Mapping[Any, Any]) -> None:
        """Called after offsets were committed."""


def checked(given: Any, methods: Sequence[str]) -> tuple[Any, ...]:
    """The interceptors of a setting; each must have the methods."""
    items = tuple(given) if isinstance(given, list | tuple) else () if given is None else (given,)
    for item in items:
        if isinstance(item, type) or not all(callable(getattr(item, name, None)) for name in methods):
            raise ConfigError(
                "interceptors", f"interceptors: {item!r} needs the methods {' and '.join(methods)}"
            )
    return items


def passed(interceptors: Sequence[Any], method: str, value: Any) -> Any:
    """A value handed through all interceptors; one that raises or forgets to return it is passed over."""
    for item in interceptors:
        try:
            returned = getattr(item, method)(value)
        except Exception:
            log.exception("interceptor %s failed in %s", name_of(item), method)
            continue
        if returned is None:
            log.error(
                "interceptor %s failed in %s: it returned None in place of %s",
                name_of(item), method, type(value).__name__,
            )  # fmt: skip
        else:
            value = returned
    return value


def call_all(
    interceptors: Sequence[Any],
    method: str,
    *arguments: Any,
    caught: type[BaseException] = Exception,
) -> None:
    """Call a method of all interceptors; on a thread of the client `caught` is BaseException."""
    for item in interceptors:
        try:
            getattr(item, method)(*arguments)
        except caught:
            log.exception("interceptor %s failed in %s", name_of(item), method)
