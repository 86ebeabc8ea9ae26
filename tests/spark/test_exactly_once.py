"""The exactly-once sink, crash by crash, without Spark, in both protocols and on both kinds of broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from klamm.errors import KlammError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SinkOptions
from klamm.spark.write.decisions import BatchKey
from klamm.spark.write.steps import CheckpointBehindError, ManyWritersError, SinkFencedError, Task
from spark.batches import Driver, KilledError, World, are_skipped, failing_at, killed_at


def test_batches_without_trouble_are_there_once_and_not_before_their_end(world: World) -> None:
    driver = Driver(world)
    driver.batch(0)
    plan = driver.plan()
    messages = driver.tasks(plan, 1)
    assert world.seen() == world.expected(0)
    driver.commit(messages)
    assert world.committed() == world.expected(0, 1)


@pytest.mark.parametrize("tasks_done", [0, 1, 2])
def test_a_crash_around_the_tasks_leaves_nothing(world: World, tasks_done: int) -> None:
    first = Driver(world)
    plan = first.plan()
    for number in range(tasks_done):
        first.task(plan, 0, number, 2)
    # The process ends here; another one runs the batch again.
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_task_that_is_tried_again_fails_the_batch(shared_world: World) -> None:
    world = shared_world
    first = Driver(world)
    plan = first.plan()
    message = first.task(plan, 0, 0, 2)
    with pytest.raises(KlammError, match="tried before"):
        first.task(plan, 0, 1, 2, attempt=1)
    first.abort([message, None])
    assert world.committed() == Counter()
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


@pytest.mark.parametrize("place", ["commit entered", "before EndTxn"])
def test_a_crash_before_the_decision_leaves_nothing(world: World, place: str) -> None:
    first = Driver(world)
    plan = first.plan()
    with pytest.raises(KilledError):
        first.commit(first.tasks(plan, 0), at=killed_at(place))
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def failing_rows(world: World) -> Iterator[Any]:
    """Rows of a task that has written some when its next ones cannot be made."""
    yield from world.rows(0, 0, 1) * 2_000
    raise ZeroDivisionError("made to fail")


def test_a_batch_of_which_no_task_reports_anything_leaves_nothing_open(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    first = Driver(world)
    plan = first.plan()
    with pytest.raises(ZeroDivisionError):
        first.write(plan, 0, 0, failing_rows(world))
    assert sum(world.cluster.ends(world.topic).values()) > 0
    first.abort([None])
    listed = world.cluster.admin.list_transactions(states=["Ongoing"])
    assert not [item for item in listed if item.transactional_id.startswith(world.transactional_id)]
    assert world.committed() == Counter()
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_an_older_query_does_not_abort_the_batch_of_a_newer_one(
    shared_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    old = Driver(shared_world, query="old", checkpointLocation=str(tmp_path / "old"))
    old.plan()
    new = Driver(shared_world, query="new", checkpointLocation=str(tmp_path / "new"))
    messages = new.tasks(new.plan(), 0)
    old.abort([None, None])
    new.commit(messages)
    assert shared_world.committed() == shared_world.expected(0)


def test_a_commit_that_fails_before_the_decision_is_aborted(world: World) -> None:
    first = Driver(world)
    plan = first.plan()
    messages = first.tasks(plan, 0)
    with pytest.raises(KlammError, match="made to fail"):
        first.commit(messages, at=failing_at("before EndTxn"))
    first.abort(messages)
    assert world.committed() == Counter()
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_decision_whose_answer_is_lost_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Driver(world)
    plan = first.plan()
    messages = first.tasks(plan, 0)
    monkeypatch.setattr(
        SinkOptions, "transaction_timeout_s", 0.0
    )  # send EndTxn, and do not wait for its answer
    with pytest.raises(KlammTimeoutError):
        first.commit(messages)
    monkeypatch.undo()
    # Whatever became of it, the next run sees it settled: all of the batch, or nothing.
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_crash_after_the_decision_is_recognised(world: World) -> None:
    first = Driver(world)
    first.batch(0)
    plan = first.plan()
    with pytest.raises(KilledError):
        first.commit(first.tasks(plan, 1), at=killed_at("after EndTxn"))
    messages = Driver(world).batch(1)
    assert are_skipped(messages)
    assert world.committed() == world.expected(0, 1)


def test_an_abort_after_the_decision_undoes_nothing(world: World) -> None:
    first = Driver(world)
    plan = first.plan()
    messages = first.tasks(plan, 0)
    with pytest.raises(KlammError, match="made to fail"):
        first.commit(messages, at=failing_at("after EndTxn"))
    first.abort(messages)
    # What was decided is completed, by this run or, with a transaction for each task, by the next one.
    assert are_skipped(Driver(world).batch(0))
    assert world.committed() == world.expected(0)


def test_a_stalled_committer_is_fenced_and_says_so(world: World) -> None:
    old, new = Driver(world), Driver(world)
    plan = old.plan()
    messages = old.tasks(plan, 0)
    new.batch(0)
    with pytest.raises(SinkFencedError, match="used by a newer query"):
        old.commit(messages)
    old.abort(messages)  # must not disturb the newer one
    new.batch(1)
    assert world.committed() == world.expected(0, 1)


def test_a_stalled_task_is_fenced_and_says_so(world: World) -> None:
    old, new = Driver(world), Driver(world)
    plan = old.plan()
    old.task(plan, 0, 0, 2)
    newer = new.plan()
    messages = new.tasks(newer, 0)
    with pytest.raises(KlammError):
        old.task(plan, 0, 1, 2)
    new.commit(messages)
    assert world.committed() == world.expected(0)


def test_a_transaction_that_expires_is_written_again(world: World) -> None:
    slow = Driver(world, **{"kafka.transaction.timeout.ms": "300"})
    plan = slow.plan()
    messages = slow.tasks(plan, 0)
    world.cluster.until_stable(world.topic)  # the broker has aborted it
    with pytest.raises(KlammError):
        slow.commit(messages)
    slow.abort(messages)
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_another_number_of_tasks_changes_nothing(world: World) -> None:
    first = Driver(world)
    first.batch(0, tasks=4)
    assert are_skipped(Driver(world).batch(0, tasks=1))
    plan = first.plan()
    first.tasks(plan, 1, tasks=2)
    Driver(world).batch(1, tasks=4)
    assert world.committed() == world.expected(0, 1)


@pytest.mark.parametrize("rows", [(3, 3), (2, 5)], ids=["equal numbers", "other numbers"])
def test_two_tasks_on_one_partition_are_refused_loudly(shared_world: World, rows: tuple[int, int]) -> None:
    world = shared_world
    driver = Driver(world)
    plan = driver.plan()
    batches = [
        pa.record_batch(
            {
                "value": [f"{task}-{row}" for row in range(count)],
                "partition": pa.array([0] * count, pa.int32()),
            }
        )
        for task, count in enumerate(rows)
    ]
    written: list[Any] = []

    def run() -> None:
        for batch in batches:
            written.append(driver.write(plan, 0, len(written), [batch]))
        driver.commit(written)

    with pytest.raises(ManyWritersError, match="by_partition"):
        run()
    driver.abort(written)
    assert world.committed() == Counter()


def test_source_offsets_are_committed_with_the_records(world: World) -> None:
    group = f"{world.topic}-progress"
    driver = Driver(world, commitGroup=group)
    world.log_offsets(0, 5, 7)
    driver.batch(0)
    world.log_offsets(1, 8, 9)
    plan = driver.plan()
    with pytest.raises(KilledError):
        driver.commit(driver.tasks(plan, 1), at=killed_at("before EndTxn"))
    again = Driver(world, commitGroup=group)
    again.plan()  # aborts what was left open
    found = world.cluster.admin.list_group_offsets(group, require_stable=True)
    assert {key: item.offset for key, item in found.items()} == {
        TopicPartition(world.source, 0): 5,
        TopicPartition(world.source, 1): 7,
    }
    again.batch(1)
    found = world.cluster.admin.list_group_offsets(group, require_stable=True)
    assert [item.offset for item in found.values()] == [8, 9]


def test_a_query_without_its_checkpoint_is_another_query(world: World) -> None:
    Driver(world, query="q1").batch(0)
    # The group's offsets say where the new query starts, so its batch 0 has other rows.
    messages = Driver(world, query="q2").batch(0)
    assert not are_skipped(messages)


def test_a_batch_write_with_a_token_is_done_once(world: World) -> None:
    key = BatchKey("token:nightly-7", 0)
    for _ in range(2):
        driver = Driver(world, batchToken="nightly-7")
        plan = driver.plan()
        messages = [
            driver.protocol.write(driver.options, plan, Task(key, number), iter(world.rows(0, number, 2)))
            for number in range(2)
        ]
        driver.commit(messages)
    assert world.committed() == world.expected(0)


def test_an_empty_batch_is_decided_too(world: World) -> None:
    driver = Driver(world)
    plan = driver.plan()
    message = driver.write(plan, 0, 0, [])
    driver.commit([message])
    assert are_skipped([driver.task(driver.plan(), 0, 0, 2)])


def test_of_two_queries_with_one_id_the_older_is_fenced_and_the_newer_goes_on(
    world: World, tmp_path: Path
) -> None:
    def driver(query: str) -> Driver:
        folder = tmp_path / query
        (folder / "offsets").mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": query}))
        return Driver(world, query=query, checkpointLocation=str(folder))

    def planned(driver: Driver, batch_id: int) -> Any:
        (tmp_path / driver.query / "offsets" / str(batch_id)).write_text("v1")
        return driver.plan()

    old, new = driver("old"), driver("new")
    old.commit(old.tasks(planned(old, 0), 0))
    old.commit(old.tasks(planned(old, 1), 1))
    new.commit(new.tasks(planned(new, 0), 0))
    messages = new.tasks(planned(new, 1), 1)
    with pytest.raises(SinkFencedError, match=r"used by a newer query.*the last batch is of query new"):
        planned(old, 2)
    new.commit(messages)  # which the older one has not disturbed
    assert world.committed() == world.expected(0, 1, 0, 1)


@pytest.mark.parametrize("batch_id", [1, 2], ids=["two batches", "one batch"])
def test_a_checkpoint_that_is_back_by_some_batches_is_refused(world: World, batch_id: int) -> None:
    (world.checkpoint / "metadata").write_text(json.dumps({"id": "q1"}))
    commits = world.checkpoint / "commits"
    commits.mkdir()
    options = {"commitGroup": f"{world.topic}-progress"}
    for number in range(3):
        world.log_offsets(number, number, number)
        Driver(world, **options).batch(number)
        Driver(world, **options).plan()  # run again after a crash, with the same rows
        (commits / str(number)).touch()
    for number in range(batch_id, 3):
        (world.checkpoint / "offsets" / str(number)).unlink()
        (commits / str(number)).unlink()
    world.log_offsets(batch_id, 9, 9)  # what came meanwhile, too
    with pytest.raises(CheckpointBehindError, match="batch 2 of query q1 is written"):
        Driver(world, **options).plan()
    assert world.committed() == world.expected(0, 1, 2)
