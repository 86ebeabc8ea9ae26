"""Connections that a worker process keeps between tasks, opened on first use after the fork.

Readers and writers are pickled into every task and hold options only. Spark uses a worker for many tasks, one
after the other, so expensive connections are cached here by their settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random
from typing import Final

from klamm.client.admin.admin import Admin
from klamm.client.config import ADMIN, CONSUMER, PRODUCER, ClientConfig
from klamm.client.producer.encoded import EncodedProducer
from klamm.client.runtime import ClientThread
from klamm.clock import SystemClock
from klamm.spark.options.options import for_client

_Key = tuple[int, frozenset[tuple[str, str]]]
_fetchers: Final[dict[_Key, ClientThread]] = {}
_producers: Final[dict[_Key, EncodedProducer]] = {}
_admins: Final[dict[_Key, Admin]] = {}

# Large enough for the largest batch that a broker accepts, and the fetch around it.
_MAX_RESPONSE_BYTES: Final = 1 << 30


def _key(settings: Mapping[str, str]) -> _Key:
    return os.getpid(), frozenset(settings.items())


def fetcher(settings: Mapping[str, str]) -> ClientThread:
    """The connections that this process reads through."""
    key = _key(settings)
    thread = _fetchers.get(key)
    if thread is None or thread.reactor.failure is not None:
        parsed = ClientConfig.parse(CONSUMER, for_client(settings, CONSUMER), {})
        client_id = parsed.values.text("client.id") or "klamm-spark"
        thread = _fetchers[key] = ClientThread(
            parsed.network(client_id, _MAX_RESPONSE_BYTES),
            parsed.metadata(allow_auto_topic_creation=False),
            clock=SystemClock(),
            random=Random(),
            name=client_id,
        )
        thread.start()
    return thread


def producer(settings: Mapping[str, str]) -> EncodedProducer:
    """The producer that this process writes through; a broken one is replaced."""
    key = _key(settings)
    found = _producers.get(key)
    if found is None or found.is_broken:
        found = _producers[key] = EncodedProducer(
            {"client.id": "klamm-spark", **for_client(settings, PRODUCER)}
        )
    return found


def admin(settings: Mapping[str, str]) -> Admin:
    """The administration client of this process."""
    key = _key(settings)
    found = _admins.get(key)
    if found is None:
        found = _admins[key] = Admin({"client.id": "klamm-spark-sink", **for_client(settings, ADMIN)})
    return found


def discard_producer(settings: Mapping[str, str], *, abort_s: float = 0) -> None:
    """Drop a failed producer: the next one starts without its state.

    Its open transaction is aborted within `abort_s`; with 0 it stays open.
    """
    found = _producers.pop(_key(settings), None)
    if found is not None:
        found.close(abort_s)


def close_all() -> None:
    """Close what this process has opened; tests do so, workers simply end."""
    for thread in _fetchers.values():
        thread.stop()
    for item in _producers.values():
        item.close()
    for client in _admins.values():
        client.close()
    _admins.clear()
    _fetchers.clear()
    _producers.clear()
