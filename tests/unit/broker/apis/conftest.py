"""A fresh broker for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from unit.broker.apis.admin_jar import AdminJar


@pytest.fixture
def make_jar() -> Iterator[Callable[..., AdminJar]]:
    """Builds brokers; they are stopped after the test."""
    built: list[AdminJar] = []

    def make(*args: Any, **kwargs: Any) -> AdminJar:
        built.append(AdminJar(*args, **kwargs))
        return built[-1]

    yield make
    for jar in built:
        jar.close()


@pytest.fixture
def jar(make_jar: Callable[..., AdminJar]) -> AdminJar:
    return make_jar()


@pytest.fixture
def restart(make_jar: Callable[..., AdminJar]) -> Callable[[AdminJar], AdminJar]:
    """Stops a broker and starts another one on the same disk."""

    def again(jar: AdminJar) -> AdminJar:
        jar.close()
        return make_jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)

    return again
