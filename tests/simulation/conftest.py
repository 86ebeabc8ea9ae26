"""Fixtures of simulations with a database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgresql import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server per run and worker; each world has a schema of its own."""
    with PostgresServer(["fsync=off", "full_page_writes=off", "synchronous_commit=on"]) as server:
        yield server
