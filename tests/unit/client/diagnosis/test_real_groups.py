"""Groups of klamm's own client on klamm, in every kind of trouble."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

import klamm
from internals.troubled_groups import Scene, TroubledGroups

_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
    with klamm.Broker(settings=settings) as broker:
        yield broker.bootstrap


class TestKlammsClient(TroubledGroups):
    @pytest.fixture
    def scene(self, bootstrap: str) -> Iterator[Scene]:
        scene = Scene(
            bootstrap,
            next(_numbers),
            klamm.Consumer,
            is_klamm=True,
        )
        yield scene
        scene.close()
