"""A transaction for each task, crash by crash, without Spark: what is special to this protocol."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from klamm.clock import ManualClock, SystemClock
from klamm.errors import KlammError
from klamm.spark.write import per_task, slots
from klamm.spark.write.decision_log import CARRIER, TOPIC, mark_group
from klamm.spark.write.decisions import sink_group
from klamm.spark.write.steps import SinkFencedError
from spark.batches import Driver, KilledError, World, are_skipped, killed_at


def decided(world: World, batch_id: int, *, tasks: int = 2) -> tuple[Driver, list[Any]]:
    """A driver that was killed right after its decision: no task's transaction is committed."""
    driver = Driver(world)
    messages = driver.tasks(driver.plan(), batch_id, tasks=tasks)
    with pytest.raises(KilledError):
        driver.commit(messages, at=killed_at("after EndTxn"))
    return driver, messages


def lose(driver: Driver, *numbers: int) -> None:
    """What expiry does, or an old task that begins anew: the open transaction is aborted."""
    slots.fence(driver.options, numbers)


def test_tasks_may_share_partitions_and_may_be_tried_again(slot_world: World) -> None:
    world = slot_world
    driver = Driver(world)
    plan = driver.plan()
    rows = [pa.record_batch({"value": [f"{number}" for number in range(4)]})]
    first = driver.write(plan, 0, 0, [rows[0].slice(0, 2)])
    driver.write(plan, 0, 1, [rows[0].slice(2)])  # finished, but Spark did not hear of it
    again = driver.write(plan, 0, 1, [rows[0].slice(2)], attempt=1)
    driver.commit([first, again])
    assert world.committed() == Counter("0123")


def test_an_attempt_that_was_replaced_is_not_decided(slot_world: World) -> None:
    world = slot_world
    driver = Driver(world)
    plan = driver.plan()
    messages = driver.tasks(plan, 0)
    driver.task(plan, 0, 1, 2, attempt=1)
    with pytest.raises(per_task.SlotLostError, match="not open any more"):
        driver.commit(messages)
    driver.abort(messages)
    driver.batch(0)
    assert world.committed() == world.expected(0)


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_what_was_decided_is_completed_by_the_next_run(slot_world: World, committed: int) -> None:
    world = slot_world
    driver, messages = decided(world, 0)
    ended = [slots.open_slot(world.transactional_id, message.slot) for message in messages[:committed]]
    assert slots.end(driver.options, ended, commits=True) == [None] * committed
    assert are_skipped(Driver(world).batch(0))
    assert world.committed() == world.expected(0)


def test_another_number_of_tasks_completes_it_too(slot_world: World) -> None:
    world = slot_world
    decided(world, 0, tasks=4)
    assert are_skipped(Driver(world).batch(0, tasks=1))
    Driver(world).batch(1, tasks=2)
    assert world.committed() == world.expected(0, 1)


def test_a_completed_batch_is_told_from_a_lost_one_after_its_slots_were_used_again(slot_world: World) -> None:
    world = slot_world
    first = Driver(world)
    first.batch(0)
    first.tasks(first.plan(), 1)  # killed: the slots have newer transactions than the decision names
    second = Driver(world)
    plan = second.plan()
    assert plan.lost == ()
    second.commit(second.tasks(plan, 1))
    assert world.committed() == world.expected(0, 1)


@pytest.mark.parametrize("lost", [(0,), (0, 1)])
def test_a_lost_slot_is_written_again(slot_world: World, lost: tuple[int, ...]) -> None:
    world = slot_world
    driver, _ = decided(world, 0)
    lose(driver, *lost)
    second = Driver(world)
    plan = second.plan()
    assert tuple(slot.number for slot in plan.lost) == lost
    messages = second.tasks(plan, 0)
    assert [are_skipped([message]) for message in messages] == [number not in lost for number in range(2)]
    second.commit(messages)
    assert are_skipped(Driver(world).batch(0))
    Driver(world).batch(1)
    assert world.committed() == world.expected(0, 1)


def test_a_slot_that_is_written_again_survives_another_crash(slot_world: World) -> None:
    world = slot_world
    driver, _ = decided(world, 0)
    lose(driver, 0, 1)
    second = Driver(world)
    messages = second.tasks(second.plan(), 0)  # written again, not committed
    third = Driver(world)
    messages = third.tasks(third.plan(), 0)
    one = slots.open_slot(world.transactional_id, messages[0].slot)
    assert slots.end(third.options, [one], commits=True) == [None]  # and killed between two slots
    fourth = Driver(world)
    plan = fourth.plan()
    assert [slot.number for slot in plan.lost] == [1]
    fourth.commit(fourth.tasks(plan, 0))
    assert world.committed() == world.expected(0)


def test_a_failed_commit_of_rows_written_again_is_aborted(slot_world: World) -> None:
    world = slot_world
    driver, _ = decided(world, 0)
    lose(driver, 1)
    second = Driver(world)
    messages = second.tasks(second.plan(), 0)
    second.abort(messages)
    assert world.committed() == Counter(
        value for value in world.expected(0) if int(value.split("-")[1]) % 2 == 0
    )
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_other_rows_than_those_that_were_decided_stop_the_query(slot_world: World) -> None:
    world = slot_world
    driver, _ = decided(world, 0)
    lose(driver, 1)
    second = Driver(world)
    plan = second.plan()
    others = pa.record_batch({"value": ["other"] * 6, "partition": pa.array([1, 3] * 3, pa.int32())})
    with pytest.raises(per_task.LostRowsError, match=r"which are not the same.*another transactionalId"):
        second.write(plan, 0, 1, [others])
    kept = Counter(value for value in world.expected(0) if int(value.split("-")[1]) % 2 == 0)
    assert world.committed() == kept


def test_fewer_tasks_than_lost_slots_stop_the_query(slot_world: World) -> None:
    world = slot_world
    driver, _ = decided(world, 0, tasks=4)
    lose(driver, 3)
    second = Driver(world)
    messages = second.tasks(second.plan(), 0, tasks=2)
    with pytest.raises(per_task.LostRowsError, match=r"tasks 3 were lost.*number of tasks has changed"):
        second.commit(messages)
    kept = Counter(value for value in world.expected(0) if not value.startswith("0-3"))
    assert world.committed() == kept


def test_another_batch_does_not_pass_over_lost_rows(slot_world: World) -> None:
    world = slot_world
    driver, _ = decided(world, 0)
    lose(driver, 0)
    other = Driver(world, query="q2")
    plan = other.plan()
    with pytest.raises(per_task.LostRowsError, match="6 rows of its tasks 0 are missing"):
        other.task(plan, 0, 0, 2)


def test_an_old_task_does_not_take_a_slot_from_a_newer_query(slot_world: World) -> None:
    world = slot_world
    old, new = Driver(world), Driver(world)
    stale = old.plan()
    messages = new.tasks(new.plan(), 0)
    with pytest.raises(SinkFencedError, match="used by a newer query"):
        old.task(stale, 0, 0, 2)
    new.commit(messages)
    assert world.committed() == world.expected(0)


def test_what_an_undecided_batch_with_more_tasks_left_open_is_aborted(slot_world: World) -> None:
    world = slot_world
    first = Driver(world)
    first.tasks(first.plan(), 0, tasks=4)
    Driver(world).batch(0, tasks=1)
    assert world.committed() == world.expected(0)  # waits for whatever is open


def test_a_batch_is_not_decided_when_its_slots_are_about_to_expire(slot_world: World) -> None:
    driver = Driver(slot_world)
    messages = driver.tasks(driver.plan(), 0)
    late = ManualClock(timestamp_ms=SystemClock().timestamp_ms() + 880_000)  # of the 900 s of the default
    with pytest.raises(per_task.SlotLostError, match="too soon to decide"):
        per_task.commit(driver.options, messages, clock=late)
    driver.abort(messages)
    assert slot_world.committed() == Counter()


def test_a_slot_that_expires_after_the_decision_is_found_out(slot_world: World) -> None:
    world = slot_world
    driver = Driver(world)
    messages = driver.tasks(driver.plan(), 0)

    def expire(place: str) -> None:
        if place == "after EndTxn":
            lose(driver, 1)

    with pytest.raises(per_task.SlotLostError, match="completed when it is run again"):
        driver.commit(messages, at=expire)
    driver.abort(messages)  # undoes nothing
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_change_of_the_protocol_is_no_reason_to_write_a_batch_twice(slot_world: World) -> None:
    world = slot_world
    Driver(world).batch(0)
    for mode in ("shared", "per-task"):
        world.mode = mode
        assert are_skipped(Driver(world).batch(0))
    world.mode = "shared"
    Driver(world).batch(1)
    world.mode = "per-task"
    assert are_skipped(Driver(world).batch(1))
    assert world.committed() == world.expected(0, 1)


def test_a_decision_that_cannot_be_read_stops_the_query(slot_world: World) -> None:
    world = slot_world
    driver = Driver(world)
    driver.batch(0)
    group = sink_group(world.transactional_id)
    world.cluster.until_stable(TOPIC)
    found = world.cluster.admin.list_group_offsets(group)[CARRIER]
    marker = found._replace(offset=found.offset + 1)  # what follows the record of a decision
    world.cluster.admin.alter_group_offsets(group, {CARRIER: marker}).unwrap()
    with pytest.raises(KlammError, match=f"offset {marker.offset} of {TOPIC}, cannot be read"):
        Driver(world).plan()


def test_slots_leave_a_mark_in_groups_of_their_own(slot_world: World) -> None:
    world = slot_world
    Driver(world).batch(3)
    for number in range(2):
        group = mark_group(world.transactional_id, number)
        found = world.cluster.admin.list_group_offsets(group, [CARRIER], require_stable=True)
        assert (found[CARRIER].offset, found[CARRIER].metadata) == (3, "v1;q1")
