"""Consumer groups on the whole broker: members come, go, die and dawdle, and so does everything else."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.consumer import leaving, progress, reconciliation
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership
from klamm.coordinator.group.consumer.reconciliation import Goal
from klamm.coordinator.runtime.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from simulation.consumer_members import CONSUMER_SETTINGS
from simulation.faults import Faults
from simulation.scenarios import CONSUMER_FAULTS, settle_consumers
from simulation.seeds import seeds
from simulation.world import BrokenPromiseError, World

FIXED = 25
FOR_MS = 15_000


def consumer_world(seed: int, faults: Faults = CONSUMER_FAULTS) -> World:
    return World(seed, faults, CONSUMER_SETTINGS, test="test_consumer_worlds.py")


@pytest.mark.parametrize("seed", seeds(FIXED))
def test_whatever_happens_every_partition_has_one_owner_and_every_member_its_share(seed: int) -> None:
    with consumer_world(seed) as world:
        settle_consumers(world)
        world.run(for_ms=FOR_MS)
        world.heal()
        assert world.consumer_groups.grants


# --- faults of ours, planted -------------------------------------------------------------------------------


def first_complaint() -> str:
    """What is wrong with a coordinator, found in one of a few worlds; "" when nobody notices."""
    for seed in range(6):
        try:
            with consumer_world(seed, Faults(drop=0.01)) as world:
                settle_consumers(world)
                world.run(for_ms=10_000)
                world.heal()
        except BrokenPromiseError as error:
            return str(error).partition("\n")[0]
    return ""


def test_a_coordinator_that_gives_what_others_have_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(goal: Goal) -> Goal:
        return goal._replace(is_free=lambda topic_id, partition: True)

    step = reconciliation.next_current
    monkeypatch.setattr(
        progress, "next_current", lambda current, goal, owned: step(current, free(goal), owned)
    )
    assert " own " in first_complaint()


def test_a_coordinator_that_takes_silence_for_a_release_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    step = reconciliation.next_current
    monkeypatch.setattr(
        progress, "next_current", lambda current, goal, owned: step(current, goal, owned or {})
    )
    assert "has not given up" in first_complaint()


def test_a_coordinator_that_takes_commits_of_former_owners_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ConsumerGroupMembership, "holds_since", lambda *_: True)
    monkeypatch.setattr(ConsumerGroupMembership, "offset_commit_error", lambda *_, **__: ErrorCode.none)
    assert " has had since " in first_complaint()


def test_a_coordinator_whose_silent_members_stay_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "_removed", lambda *_: Outcome())
    assert "did not come to rest" in first_complaint()
