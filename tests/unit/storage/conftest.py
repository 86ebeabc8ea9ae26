"""Fixtures of the engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgresql import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server per run and worker; tests use schemas of their own."""
    with PostgresServer() as server:
        yield server
