"""Clusters for tests; they are closed after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from internals.shared_jar import SharedJar


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., SharedJar]]:
    built: list[SharedJar] = []

    def make(*args: Any, **kwargs: Any) -> SharedJar:
        built.append(SharedJar(*args, **kwargs))
        return built[-1]

    yield make
    for jar in built:
        jar.close()


@pytest.fixture
def cluster(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    """Three brokers, and a topic `t` whose partitions 0, 1, 2 are led by 1, 2, 3."""
    jar = make_cluster()
    jar.create_topic()
    return jar
