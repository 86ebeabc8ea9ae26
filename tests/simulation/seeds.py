"""Which worlds are tried: the same as always, and a few that nobody has seen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Final

import pytest
from _pytest.mark import ParameterSet

# What lands is judged by the same worlds every time; whoever works on it looks into new ones.
FRESH: Final = int(os.environ.get("KLAMM_FRESH_SEEDS", "0" if "CI" in os.environ else "4"))


def seeds(fixed: int, also: Sequence[int] = ()) -> list[ParameterSet]:
    """KLAMM_SEED alone when it is set; otherwise the same as always, and fresh ones that nobody has seen.

    `also` are worlds that once failed.
    """
    if "KLAMM_SEED" in os.environ:
        seed = int(os.environ["KLAMM_SEED"])
        return [pytest.param(seed, id=f"seed-{seed}")]
    # Workers that share a run must agree on what there is to try; alone, it is chance.
    chance = Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))
    fresh = [chance.randrange(fixed, 2**31) for _ in range(FRESH)]
    return [pytest.param(seed, id=f"seed-{seed}") for seed in (*range(fixed), *also, *fresh)]
