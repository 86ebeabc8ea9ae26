"""The exactly-once sink, crash by crash, without Spark: a driver, its tasks and its commit, called by hand.

Every process of a query is a `Driver` with connections of its own. What became visible is read by librdkafka.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from klamm.errors import KlammError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SinkOptions, sink_options
from klamm.spark.setup import connections
from klamm.spark.write import shared
from klamm.spark.write.decisions import BatchKey
from spark.clusters import Cluster
from spark.readers import committed_values

PARTITIONS: Final = 4
_numbers = itertools.count()


class KilledError(BaseException):
    """The process ends here: nothing that follows is done."""


class Driver:
    """One run of a query: plans batches, runs their tasks, commits, as Spark would have it."""

    def __init__(self, world: World, *, query: str = "q1", **options: str) -> None:
        self.world = world
        self.query = query
        self.options: SinkOptions = sink_options(
            {
                "kafka.bootstrap.servers": world.cluster.bootstrap,
                "kafka.client.id": f"driver-{next(_numbers)}",  # connections of its own
                "topic": world.topic,
                "delivery": "exactly-once",
                "transactionalId": f"{world.topic}-sink",
                "checkpointLocation": str(world.checkpoint),
                **options,
            }
        )

    def plan(self) -> shared.Plan:
        return shared.plan(self.options)

    def task(self, plan: shared.Plan, batch_id: int, number: int, tasks: int, *, attempt: int = 0) -> Any:
        key = BatchKey(self.query, batch_id)
        return shared.write(self.options, plan, key, attempt, iter(self.world.rows(batch_id, number, tasks)))

    def tasks(self, plan: shared.Plan, batch_id: int, *, tasks: int = 2) -> list[Any]:
        return [self.task(plan, batch_id, number, tasks) for number in range(tasks)]

    def commit(self, batch_id: int, messages: Sequence[Any], at: Callable[[str], None] | None = None) -> None:
        shared.commit(self.options, messages, BatchKey(self.query, batch_id), at=at or (lambda _place: None))

    def abort(self, batch_id: int, messages: Sequence[Any]) -> None:
        shared.abort(self.options, messages, BatchKey(self.query, batch_id))

    def batch(self, batch_id: int, *, tasks: int = 2) -> list[Any]:
        """A whole micro-batch without any trouble."""
        plan = self.plan()
        messages = self.tasks(plan, batch_id, tasks=tasks)
        self.commit(batch_id, messages)
        return messages


class World:
    """A topic to write to, a topic that rows come from, and a checkpoint."""

    def __init__(self, cluster: Cluster, topic: str, checkpoint: Path) -> None:
        self.cluster = cluster
        self.topic = cluster.create(topic, PARTITIONS)
        self.source = cluster.create(f"{topic}-source", 2)
        self.checkpoint = checkpoint
        (checkpoint / "offsets").mkdir(parents=True)

    def rows(self, batch_id: int, number: int, tasks: int) -> list[pa.RecordBatch]:
        """The rows of one task: each output partition belongs to one task."""
        mine = [partition for partition in range(PARTITIONS) if partition % tasks == number]
        values = [f"{batch_id}-{partition}-{row}" for partition in mine for row in range(3)]
        numbers = [partition for partition in mine for _ in range(3)]
        return [pa.record_batch({"value": values, "partition": pa.array(numbers, pa.int32())})]

    def expected(self, *batches: int) -> Counter[str]:
        return Counter(
            value
            for batch_id in batches
            for rows in self.rows(batch_id, 0, 1)
            for value in rows.column("value").to_pylist()
        )

    def log_offsets(self, batch_id: int, *ends: int) -> None:
        """What Spark writes before it runs a batch."""
        offsets = {self.source: {str(number): end for number, end in enumerate(ends)}}
        text = f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps(offsets)}"
        (self.checkpoint / "offsets" / str(batch_id)).write_text(text)

    def committed(self) -> Counter[str]:
        """What a reader of committed records sees, once nothing is open."""
        self.cluster.until_stable(self.topic)
        return self.seen()

    def seen(self) -> Counter[str]:
        """What a reader of committed records sees now, by librdkafka."""
        found = committed_values(self.cluster.bootstrap, self.topic, PARTITIONS)
        return Counter({value.decode(): count for value, count in found.items()})


@pytest.fixture(params=["kafka", "klamm"])
def world(request: pytest.FixtureRequest, topic: str, tmp_path: Path) -> Iterator[World]:
    cluster: Cluster = request.getfixturevalue({"klamm": "klamm_cluster"}.get(request.param, request.param))
    yield World(cluster, topic, tmp_path / "checkpoint")
    connections.close_all()


def killed_at(place: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == place:
            raise KilledError(place)

    return at


def failing_at(place: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == place:
            raise KlammError(f"made to fail at {place}")

    return at


def test_batches_without_trouble_are_there_once_and_not_before_their_end(world: World) -> None:
    driver = Driver(world)
    driver.batch(0)
    plan = driver.plan()
    messages = driver.tasks(plan, 1)
    assert world.seen() == world.expected(0)
    driver.commit(1, messages)
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


def test_a_task_that_is_tried_again_fails_the_batch(world: World) -> None:
    first = Driver(world)
    plan = first.plan()
    message = first.task(plan, 0, 0, 2)
    with pytest.raises(KlammError, match="tried before"):
        first.task(plan, 0, 1, 2, attempt=1)
    first.abort(0, [message, None])
    assert world.committed() == Counter()
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


@pytest.mark.parametrize("place", ["commit entered", "before EndTxn"])
def test_a_crash_before_the_decision_leaves_nothing(world: World, place: str) -> None:
    first = Driver(world)
    plan = first.plan()
    with pytest.raises(KilledError):
        first.commit(0, first.tasks(plan, 0), at=killed_at(place))
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_commit_that_fails_before_the_decision_is_aborted(world: World) -> None:
    first = Driver(world)
    plan = first.plan()
    messages = first.tasks(plan, 0)
    with pytest.raises(KlammError, match="made to fail"):
        first.commit(0, messages, at=failing_at("before EndTxn"))
    first.abort(0, messages)
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
        first.commit(0, messages)
    monkeypatch.undo()
    # Whatever became of it, the next run sees it settled: all of the batch, or nothing.
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_a_crash_after_the_decision_is_recognised(world: World) -> None:
    first = Driver(world)
    first.batch(0)
    plan = first.plan()
    with pytest.raises(KilledError):
        first.commit(1, first.tasks(plan, 1), at=killed_at("after EndTxn"))
    messages = Driver(world).batch(1)
    assert all(isinstance(message, shared.Skipped) for message in messages)
    assert world.committed() == world.expected(0, 1)


def test_an_abort_after_the_decision_undoes_nothing(world: World) -> None:
    first = Driver(world)
    plan = first.plan()
    messages = first.tasks(plan, 0)
    with pytest.raises(KlammError, match="made to fail"):
        first.commit(0, messages, at=failing_at("after EndTxn"))
    first.abort(0, messages)
    assert world.committed() == world.expected(0)
    assert all(isinstance(message, shared.Skipped) for message in Driver(world).batch(0))
    assert world.committed() == world.expected(0)


def test_a_stalled_committer_is_fenced_and_says_so(world: World) -> None:
    old, new = Driver(world), Driver(world)
    plan = old.plan()
    messages = old.tasks(plan, 0)
    new.batch(0)
    with pytest.raises(shared.SinkFencedError, match="used by a newer query"):
        old.commit(0, messages)
    old.abort(0, messages)  # must not disturb the newer one
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
    new.commit(0, messages)
    assert world.committed() == world.expected(0)


def test_a_transaction_that_expires_is_written_again(world: World) -> None:
    slow = Driver(world, **{"kafka.transaction.timeout.ms": "1000"})
    plan = slow.plan()
    messages = slow.tasks(plan, 0)
    world.cluster.until_stable(world.topic)  # the broker has aborted it
    with pytest.raises(KlammError):
        slow.commit(0, messages)
    slow.abort(0, messages)
    Driver(world).batch(0)
    assert world.committed() == world.expected(0)


def test_another_number_of_tasks_changes_nothing(world: World) -> None:
    first = Driver(world)
    first.batch(0, tasks=4)
    assert all(isinstance(message, shared.Skipped) for message in Driver(world).batch(0, tasks=1))
    plan = first.plan()
    first.tasks(plan, 1, tasks=2)
    Driver(world).batch(1, tasks=4)
    assert world.committed() == world.expected(0, 1)


@pytest.mark.parametrize("rows", [(3, 3), (2, 5)], ids=["equal numbers", "other numbers"])
def test_two_tasks_on_one_partition_are_refused_loudly(world: World, rows: tuple[int, int]) -> None:
    driver = Driver(world)
    plan = driver.plan()
    key = BatchKey(driver.query, 0)
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
            written.append(shared.write(driver.options, plan, key, 0, iter([batch])))
        driver.commit(0, written)

    with pytest.raises(shared.ManyWritersError, match="by_partition"):
        run()
    driver.abort(0, written)
    assert world.committed() == Counter()


def test_source_offsets_are_committed_with_the_records(world: World) -> None:
    group = f"{world.topic}-progress"
    driver = Driver(world, commitGroup=group)
    world.log_offsets(0, 5, 7)
    driver.batch(0)
    world.log_offsets(1, 8, 9)
    plan = driver.plan()
    with pytest.raises(KilledError):
        driver.commit(1, driver.tasks(plan, 1), at=killed_at("before EndTxn"))
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
    assert not any(isinstance(message, shared.Skipped) for message in messages)


def test_a_batch_write_with_a_token_is_done_once(world: World) -> None:
    key = BatchKey("token:nightly-7", 0)
    for _ in range(2):
        driver = Driver(world, batchToken="nightly-7")
        plan = driver.plan()
        messages = [
            shared.write(driver.options, plan, key, 0, iter(world.rows(0, number, 2))) for number in range(2)
        ]
        shared.commit(driver.options, messages, key)
    assert world.committed() == world.expected(0)


def test_an_empty_batch_is_decided_too(world: World) -> None:
    driver = Driver(world)
    plan = driver.plan()
    message = shared.write(driver.options, plan, BatchKey(driver.query, 0), 0, iter([]))
    driver.commit(0, [message])
    assert isinstance(driver.task(driver.plan(), 0, 0, 2), shared.Skipped)
