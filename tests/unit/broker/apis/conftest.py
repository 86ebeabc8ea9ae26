"""A fresh broker for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from unit.broker.apis.stub_logs import AdminJar


@pytest.fixture
def make_jar() -> Iterator[Callable[..., AdminJar]]:
    """Builds brokers; they are stopped after the test."""
    built: list[AdminJar] = []

    def make(*args: object, **kwargs: object) -> AdminJar:
        built.append(AdminJar(*args, **kwargs))  # type: ignore[arg-type]  # as AdminJar itself says
        return built[-1]

    yield make
    for jar in built:
        jar.close()


@pytest.fixture
def jar(make_jar: Callable[..., AdminJar]) -> AdminJar:
    return make_jar()
