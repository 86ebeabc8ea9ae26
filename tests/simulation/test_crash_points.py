"""A crash at every append of a story of transactions: before it, in the middle of it, and after it."""

from __future__ import annotations

from typing import Final

import pytest

from simulation.crash_points import tell
from simulation.hardware import Moment
from simulation.machine import CrashPoint

SHARES: Final = 4  # so that several processes can divide the work


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize(
    ("moment", "loses_power"), [("before", False), ("torn", True), ("after", True), ("refused", False)]
)
def test_a_crash_at_any_append_changes_no_outcome(moment: Moment, loses_power: bool, share: int) -> None:
    # scenarios 80, 81, 82, 83, 84 and 85 of transactions, on the whole broker
    appends = tell().machine.appends
    assert appends > 60
    for append in range(1 + share, appends + 1, SHARES):
        world = tell(CrashPoint(append, moment, loses_power))
        # Every death but the last, with which each story ends.
        assert len(world.deaths) == 2 or moment == "refused", f"append {append}: {world.deaths}"
        told = world.transactions.ledger.by_number.values()
        assert sum(each.told is True for each in told) >= 4, f"append {append}"
