"""One broker in this process for all tests of readers and writers: no JVM, and milliseconds per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import klamm
from klamm.clock import SystemClock
from klamm.spark.setup import connections
from unit.spark.moving import Host, Time
from unit.spark.world import World


@pytest.fixture(scope="session")
def broker() -> Iterator[klamm.Broker]:
    # Records of long ago are to be there for as long as the tests run.
    with klamm.Broker(auto_create_topics_enable=True, num_partitions=2, log_retention_ms=-1) as started:
        yield started
        connections.close_all()


@pytest.fixture
def world(broker: klamm.Broker) -> Iterator[World]:
    made = World(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    for name in ("now_ms", "timestamp_ms"):
        real: Callable[[SystemClock], int] = getattr(SystemClock, name)
        monkeypatch.setattr(SystemClock, name, lambda self, real=real: real(self) + moved.ahead_ms)
    return moved


@pytest.fixture
def host(time: Time, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "data")
    yield made
    connections.close_all()
    made.stop()
