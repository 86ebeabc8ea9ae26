"""One seed, one world: whatever happens in it, what was promised is kept."""

from __future__ import annotations

import pytest

from simulation.scenarios import FAULTS, settle
from simulation.seeds import seeds
from simulation.world import World

# A power loss brought the directory of a deleted topic back, with a torn checkpoint: whose is it?
FAILED = (1834498401,)
FIXED = 170  # and those of test_transactional_worlds.py
FOR_MS = 15_000


@pytest.mark.parametrize("seed", seeds(FIXED, FAILED))
def test_whatever_happens_promises_are_kept(seed: int) -> None:
    with World(seed, FAULTS) as world:
        settle(world)
        world.run(for_ms=FOR_MS)
        world.heal()
        assert set(world.endings_per_join().values()) <= {1}


def test_the_same_seed_is_the_same_world() -> None:
    digests = []
    for _ in range(2):
        with World(7, FAULTS) as world:
            settle(world)
            world.run(for_ms=5_000)
            digests.append((world.digest, world.clock.now_ms(), tuple(world.deaths)))
    assert digests[0] == digests[1]
