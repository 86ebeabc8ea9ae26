"""What every engine's contract stands on: a clock, a store, a log in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.clock import ManualClock
from klamm.storage.log import (
    EngineLog,
    LogStore,
)
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
)

A, B = 4001, 4002  # producers


class EngineContract:
    """Tests of any engine; it provides the fixture `store`, and says whether flushes move the watermark."""

    flush_on_commit = True

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(timestamp_ms=T)

    @pytest.fixture
    def store(self, clock: ManualClock) -> LogStore:
        raise AssertionError("an engine's tests provide their store")

    @pytest.fixture
    def open_log(self, store: LogStore) -> Callable[..., EngineLog]:
        def open_log(config: TopicConfig | None = None, *, leader_epoch: int = 0) -> EngineLog:
            return store.open("t", TOPIC_ID, 0, leader_epoch=leader_epoch, config=config or TopicConfig())

        return open_log

    @pytest.fixture
    def log(self, open_log: Callable[..., EngineLog]) -> EngineLog:
        return open_log()
