"""A broker for the tests of the admin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import klamm


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker(settings={"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: klamm.Broker) -> Iterator[klamm.Admin]:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as connected:
        yield connected
