"""The exactly-once sink over minutes and days: transactions and offsets that expire, brokers that are away.

Client and broker run in this process on one clock, which the test moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from klamm.errors import KlammError
from klamm.spark.write.decisions import sink_group
from klamm.spark.write.steps import SinkFencedError
from klamm.testing import wait_until
from spark.batches import MODES, PARTITIONS, Driver, KilledError, World, are_skipped, killed_at
from spark.clusters import Cluster
from unit.spark.moving import MINUTE_MS, SECOND_MS, Host, Time, in_background, pass_slowly, pass_until_failed

DAY_MS: Final = 24 * 60 * MINUTE_MS


@pytest.fixture(params=MODES)
def world(request: pytest.FixtureRequest, host: Host, tmp_path: Path) -> Iterator[World]:
    with Cluster("klamm", host.bootstrap) as cluster:
        yield World(cluster, "out", tmp_path / "checkpoint", request.param)


@pytest.mark.parametrize("days", [6, 8])
def test_a_decision_is_recognised_for_as_long_as_offsets_are_kept(
    world: World, time: Time, days: int
) -> None:
    first = Driver(world)
    place = "after EndTxn" if world.mode == "shared" else "slots committed"
    with pytest.raises(KilledError):
        first.commit(first.tasks(first.plan(), 0), at=killed_at(place))
    admin, group = world.cluster.admin, sink_group(world.transactional_id)
    wait_until(lambda: bool(admin.list_group_offsets(group, require_stable=True)), "1m")
    time.pass_by(days * DAY_MS)
    if days > 7:
        wait_until(lambda: not admin.list_group_offsets(group), "1m")
    messages = Driver(world).batch(0)
    assert are_skipped(messages) == (days < 7)
    # The one case in which rows are there twice, as documented: down for a week after such a crash.
    times = 1 if days < 7 else 2
    assert world.committed() == Counter(dict.fromkeys(world.expected(0), times))


def test_a_transaction_that_expires_undecided_is_written_again(world: World, time: Time) -> None:
    slow = Driver(world)
    messages = slow.tasks(slow.plan(), 0)
    time.pass_by(901 * SECOND_MS)
    world.cluster.until_stable(world.topic)  # the broker has aborted it
    with pytest.raises(KlammError, match=r"kafka\.transaction\.timeout\.ms"):
        slow.commit(messages)
    slow.abort(messages)
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_decided_slot_that_expires_is_written_again(world: World, time: Time) -> None:
    first = Driver(world)
    with pytest.raises(KilledError):
        first.commit(first.tasks(first.plan(), 0), at=killed_at("after EndTxn"))
    time.pass_by(901 * SECOND_MS)
    world.cluster.until_stable(world.topic)
    second = Driver(world)
    messages = second.batch(0)
    # One transaction for the batch was decided whole; with one for each task, none was committed yet.
    assert are_skipped(messages) == (world.mode == "shared")
    assert are_skipped(Driver(world).batch(0))
    assert world.committed() == world.expected(0)


@pytest.mark.parametrize("step", ["task", "commit", "plan"])
def test_a_broker_that_is_away_for_a_minute_delays_a_batch(
    world: World, host: Host, time: Time, step: str
) -> None:
    driver = Driver(world)
    driver.batch(0)
    plan = driver.plan() if step != "plan" else None
    messages = driver.tasks(plan, 1) if step == "commit" else []
    host.stop()
    work: dict[str, Callable[[], Any]] = {
        "task": lambda: driver.tasks(plan, 1),
        "commit": lambda: driver.commit(messages),
        "plan": driver.plan,
    }
    future = in_background(work[step])
    pass_slowly(time, MINUTE_MS, future)
    assert not future.done(), future.exception()
    host.start()
    done = future.result(60)
    if step == "plan":
        done = driver.tasks(done, 1)
    if step != "commit":
        driver.commit(done)
    assert world.committed() == world.expected(0, 1)


@pytest.mark.parametrize("step", ["task", "plan"])
def test_a_broker_that_is_away_for_longer_is_named(world: World, host: Host, time: Time, step: str) -> None:
    driver = Driver(world)
    driver.batch(0)
    plan = driver.plan()
    # A caller waits for the coordinator by the system's own clock: not for two minutes here.
    hasty = Driver(world, **{"kafka.max.block.ms": "500"})
    host.stop()
    future = in_background(lambda: driver.tasks(plan, 1) if step == "task" else hasty.plan())
    error = pass_until_failed(time, future)
    assert isinstance(error, KlammError)
    assert not isinstance(error, SinkFencedError)
    assert host.bootstrap in str(error), error
    host.start()
    Driver(world).batch(1)
    assert world.committed() == world.expected(0, 1)


def test_a_task_whose_rows_fail_leaves_nothing(world: World) -> None:
    """What a transform that raises, a damaged batch or lost offsets of the source are to the sink."""
    driver = Driver(world)
    plan = driver.plan()

    def broken() -> Iterator[Any]:
        yield from world.rows(0, 1, 2)
        raise ValueError("the transform raises")

    messages = [driver.task(plan, 0, 0, 2), None]
    with pytest.raises(ValueError, match="the transform raises"):
        driver.write(plan, 0, 1, broken())
    driver.abort(messages)
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_an_output_topic_that_vanishes_is_named_and_nothing_is_twice(world: World, time: Time) -> None:
    driver = Driver(world)
    driver.batch(0)
    plan = driver.plan()
    world.cluster.admin.delete_topics([world.topic])
    future = in_background(lambda: driver.tasks(plan, 1))
    error = pass_until_failed(time, future)
    assert isinstance(error, KlammError)
    assert world.topic in str(error), error
    world.cluster.create(world.topic, PARTITIONS)
    Driver(world).batch(1)
    assert world.committed() == world.expected(1)


def test_two_phase_commit_keeps_a_decided_slot_for_days(host: Host, time: Time, tmp_path: Path) -> None:
    with Cluster("klamm", host.bootstrap) as cluster:
        world = World(cluster, "out", tmp_path / "checkpoint", "per-task")
        lasting = {"kafka.transaction.two.phase.commit.enable": "true"}
        first = Driver(world, **lasting)
        messages = first.tasks(first.plan(), 0)
        with pytest.raises(KilledError):
            first.commit(messages, at=killed_at("after EndTxn"))
        time.pass_by(2 * DAY_MS)
        assert are_skipped(Driver(world, **lasting).batch(0))
        assert world.committed() == world.expected(0)
