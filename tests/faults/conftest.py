"""Fixtures of tests with a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from faults.postgresql_cluster import PostgresBrokers
from postgresql import PostgresServer


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(["fsync=off"]) as server:
        yield server


@pytest.fixture
def start(postgres: PostgresServer, tmp_path: Path) -> Iterator[Callable[..., PostgresBrokers]]:
    """Starts so many brokers on the database, with their topics."""
    clusters: list[PostgresBrokers] = []

    def start(size: int, settings: Mapping[str, str] | None = None) -> PostgresBrokers:
        clusters.append(PostgresBrokers(postgres, tmp_path, size, settings))
        clusters[-1].create_topics()
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.close()
