"""Assignors in threads: bounded in time, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

from klamm.assignors.server import AssignorFailure, GroupAssignor, GroupSpec, MemberSpec, TopicSpec
from klamm.assignors.server.uniform import UniformAssignor
from klamm.broker.coordinators.computing import TargetComputing
from unit.coordinator.group.consumer.user_assignors import FirstTakesAll, Hangs, Waits

T = b"t" * 16
LIMIT_MS = 100


def group(name: str = "g") -> GroupSpec:
    members = {"A": MemberSpec(topics=frozenset({T}))}
    return GroupSpec(group_id=name, members=members, topics={T: TopicSpec(name="t", partition_count=2)})


def computed(work: Callable[[TargetComputing], Any]) -> Any:
    async def run() -> Any:
        return await work(TargetComputing(asyncio.get_running_loop(), cast(Any, asyncio.to_thread), LIMIT_MS))

    return asyncio.run(run())


def test_klamms_own_and_those_of_users_compute_targets() -> None:
    for assignor in (UniformAssignor(), FirstTakesAll()):
        assert computed(lambda each, assignor=assignor: each.compute(assignor, group())) == {  # type: ignore[misc]
            "A": {T: (0, 1)}
        }


def test_one_that_computes_for_ever_is_ended_and_works_for_the_next_group() -> None:
    async def work(computing: TargetComputing) -> list[Any]:
        return [await computing.compute(Hangs(), group(name)) for name in ("g", "h")]

    overdue = AssignorFailure(f"assignor hangs did not return within {LIMIT_MS} ms")
    assert computed(work) == [overdue, overdue]
    for thread in threading.enumerate():
        if thread.name == "assignor-hangs":
            thread.join(10)
            assert not thread.is_alive()


def test_while_one_computes_for_ever_the_event_loop_goes_on() -> None:
    async def work(computing: TargetComputing) -> int:
        turns = 0
        computation = asyncio.ensure_future(computing.compute(Hangs(), group()))
        while not computation.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert computed(work) > 5


def test_one_that_cannot_be_ended_fails_at_once_until_it_returns() -> None:
    Waits.may_go_on.clear()
    waits: GroupAssignor = Waits()

    async def work(computing: TargetComputing) -> list[Any]:
        found = [await computing.compute(waits, group()), await computing.compute(waits, group("h"))]
        Waits.may_go_on.set()
        for thread in threading.enumerate():
            if thread.name == "assignor-waits":
                thread.join(10)
        await asyncio.sleep(0)  # it tells the loop
        return [*found, await computing.compute(waits, group("i"))]

    late, busy, works = computed(work)
    assert late.reason == f"assignor waits did not return within {LIMIT_MS} ms"
    assert busy.reason == "assignor waits is still busy with group g, long after its time limit"
    assert works == {"A": {}}
