"""Who watches must see: brokers with a fault of ours planted in them do not get away with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from klamm.broker.coordinators.logs import PartitionCoordinatorLog
from klamm.coordinator.group.machine import DECISIONS
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.storage.producer_state import ProducerState
from simulation.faults import Faults
from simulation.hardware import Disk
from simulation.registers import Register
from simulation.scenarios import settle
from simulation.world import BrokenPromiseError, World

STORMY = Faults(drop=0.03, torn_write=0.004, slow_flush=0.05)


def first_complaint(settings: Mapping[str, str] | None = None, faults: Faults = STORMY) -> str:
    """What is wrong with a broker, found in one of a few worlds; "" when nobody notices."""
    for seed in range(12):
        try:
            with World(seed, faults, settings) as world:
                settle(world)
                world.run(for_ms=10_000)
                world.heal()
        except BrokenPromiseError as error:
            return str(error)
    return ""


def test_a_broker_that_does_not_wait_for_its_disk_is_found_out() -> None:
    complaint = first_complaint({"klamm.flush": "os"})
    assert "safe" in complaint or "gone" in complaint


def test_a_disk_that_lies_about_flushes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "sync", lambda self, handle: None)
    complaint = first_complaint()
    # What is noticed first is a matter of chance: lost records, or a file without its content.
    assert "was safe up to" in complaint or "invalid meta.properties" in complaint


def test_a_broker_that_forgets_sequences_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "check", lambda self, header, origin, guard=None: None)
    assert "is next" in first_complaint()


def test_a_coordinator_that_answers_before_the_disk_does_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PartitionCoordinatorLog, "durable_offset", PartitionCoordinatorLog.end_offset)
    complaint = first_complaint(faults=Faults(torn_write=0.01, slow_flush=0.3))
    # What is noticed first is a matter of chance: a commit, a generation or a member that is gone.
    assert "seed" in complaint


def test_a_handler_that_raises_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(cast(dict[type, Any], DECISIONS), HeartbeatRequest, stumble)
    assert "ZeroDivisionError" in first_complaint(faults=Faults())


def test_a_failure_tells_how_to_see_it_again() -> None:
    with World(42) as world:
        world.broken("something")
        with pytest.raises(BrokenPromiseError) as failure:
            world.pass_ms(1)
    assert "KLAMM_SEED=42 python -m pytest tests/simulation/test_seeds.py" in str(failure.value)


def test_a_read_gives_the_last_write_or_one_under_way() -> None:
    register = Register()
    first = register.write((1, "a"), began_at=10)
    assert register.read(None, 11, 12)
    first.ended_at, first.is_certain = 13, True
    assert not register.read(None, 14, 15)
    assert register.read((1, "a"), 14, 15)
    register.write((2, "b"), began_at=16)  # nobody knows what becomes of it
    assert register.read((1, "a"), 17, 18)
    assert register.read((2, "b"), 19, 20)
    assert not register.read((1, "a"), 21, 22), "what was read once is not unread"


def test_a_refused_write_is_never_read() -> None:
    register = Register()
    register.refused(register.write((1, "a"), began_at=10))
    assert not register.read((1, "a"), 11, 12)
    assert register.read(None, 11, 12)
