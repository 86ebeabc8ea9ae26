"""Several tasks of one executor write to the same partitions in one transaction: they take turns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

import klamm
from klamm.client.producer.encoded import EncodedBatch
from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.clock import SystemClock
from klamm.errors import IllegalStateError, KlammError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import EncodedRegion
from klamm.spark.setup import connections
from klamm.spark.write import turns, writers
from klamm.spark.write.steps import ManyWritersError
from klamm.spark.write.turns import Span, TakingTurns, TurnFiles
from spark.batches import Driver, World
from spark.clusters import Cluster
from unit.spark.moving import Time

NOW = OpenTransaction("sink", 7, 3, 2)
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def sink(broker: klamm.Broker, tmp_path: Path) -> Iterator[World]:
    with Cluster("klamm", broker.bootstrap) as cluster:
        yield World(cluster, f"turns-{os.urandom(4).hex()}", tmp_path / "checkpoint")
        connections.close_all()


def rows(task: int, batches: int, size: int = 60) -> Iterator[pa.RecordBatch]:
    """Rows for every partition, of every task."""
    for batch in range(batches):
        names = [f"{task}-{batch}-{number}" for number in range(size)]
        yield pa.record_batch({"key": names, "value": names})


def expected(tasks: int, batches: int) -> Counter[str]:
    return Counter(
        value
        for task in range(tasks)
        for batch in rows(task, batches)
        for value in batch.column("value").to_pylist()
    )


@pytest.mark.parametrize(
    ("turn_bytes", "waiting_bytes"), [(2 << 20, 32 << 20), (1, 32 << 20), (2 << 20, 2000)]
)
def test_tasks_at_the_same_time_share_all_partitions(
    sink: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn_bytes: int, waiting_bytes: int
) -> None:
    monkeypatch.setattr(turns, "TURN_BYTES", turn_bytes)
    monkeypatch.setattr(turns, "MAX_WAITING_BYTES", waiting_bytes)
    driver, tasks = Driver(sink), [Driver(sink) for _ in range(3)]
    for batch_id in range(2):  # the second finds the files of the first
        plan, together = driver.plan(), Barrier(len(tasks))

        def run(number: int, plan: Any = plan, batch_id: int = batch_id, together: Barrier = together) -> Any:
            together.wait()
            return tasks[number].write(plan, batch_id, number, rows(number, 20), folder=tmp_path)

        with ThreadPoolExecutor(len(tasks)) as pool:
            messages = list(pool.map(run, range(len(tasks))))
        driver.commit(messages)
    assert sink.committed() == Counter(dict.fromkeys(expected(3, 20), 2))


def test_the_rows_of_a_task_keep_their_order(
    sink: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_BYTES", 1)
    driver = Driver(sink)
    values = [f"{number:04}" for number in range(500)]
    batches = [
        pa.record_batch(
            {"value": values[at : at + 7], "partition": pa.array([0] * len(values[at : at + 7]), pa.int32())}
        )
        for at in range(0, len(values), 7)
    ]
    driver.commit([driver.write(driver.plan(), 0, 0, batches, folder=tmp_path)])
    with klamm.Consumer(bootstrap_servers=sink.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(sink.topic, 0)])
        found: list[str] = []
        while len(found) < len(values):
            found += [record.value.decode() for record in consumer.poll(5) if record.value is not None]
    assert found == values


def test_a_task_that_ends_in_its_turn_fails_the_others(tmp_path: Path) -> None:
    with TurnFiles(tmp_path, NOW) as killed:
        assert killed.take(FIRST) == 0
    with TurnFiles(tmp_path, NOW) as other, pytest.raises(KlammError, match="ended while it wrote to t-0"):
        other.take(FIRST)
    with TurnFiles(tmp_path, replace(NOW, epoch=5)) as following:
        assert following.take(FIRST) == 0


def test_a_turn_continues_where_the_last_one_ended(tmp_path: Path) -> None:
    with TurnFiles(tmp_path, NOW) as one, TurnFiles(tmp_path, NOW) as two:
        assert one.take(FIRST) == 0
        assert two.take(FIRST) is None
        assert two.take(SECOND) == 0
        one.give_back(FIRST, 12)
        assert two.take(FIRST) == 12
        assert one.take(FIRST) is None
        with TurnFiles(tmp_path, replace(NOW, transactional_id="other")) as other:
            assert other.take(FIRST) == 0


class Sent:
    """A producer whose batches are delivered when the test says so."""

    def __init__(self) -> None:
        self.batches: list[EncodedBatch] = []
        self.positions: dict[TopicPartition, int] = {}

    def send_regions(self, topic: str, regions: list[EncodedRegion]) -> list[EncodedBatch]:
        made = [EncodedBatch(TopicPartition(topic, region.partition), 0, region) for region in regions]
        self.batches += made
        return made

    def continue_at(self, partition: TopicPartition, position: int) -> None:
        self.positions[partition] = position

    def wait(self, batches: list[EncodedBatch]) -> None:
        for batch in batches:
            if not batch.is_settled:
                batch.succeed(0, 0)


def region(partition: TopicPartition, count: int = 3, size: int = 10) -> EncodedRegion:
    return EncodedRegion(partition.partition, bytearray(size), count, 0, 0)


def test_a_task_that_waits_holds_no_turn(tmp_path: Path, time: Time) -> None:
    """Otherwise two tasks, each with a partition that the other wants, wait for each other for ever."""
    clock = SystemClock()
    with TurnFiles(tmp_path, NOW) as others, TurnFiles(tmp_path, NOW) as files:
        assert others.take(SECOND) == 0
        seen: list[int | None] = []

        def pause(_seconds: float) -> None:
            seen.append(others.take(FIRST))
            others.give_back(FIRST, 3)
            others.give_back(SECOND, 5)

        mine = TakingTurns(Sent(), files, clock, 60, pause)
        mine.send("t", [region(FIRST), region(SECOND)])
        mine.finish()
    assert seen == [3]
    assert mine.written() == {FIRST: (Span(0, 3),), SECOND: (Span(5, 8),)}


def test_a_turn_that_never_comes_is_an_error(tmp_path: Path, time: Time) -> None:
    def pause(_seconds: float) -> None:
        time.pass_by(1000)

    with TurnFiles(tmp_path, NOW) as others, TurnFiles(tmp_path, NOW) as files:
        others.take(FIRST)
        mine = TakingTurns(Sent(), files, SystemClock(), 60, pause)
        mine.send("t", [region(FIRST)])
        with pytest.raises(KlammTimeoutError, match="t-0 was in use by other tasks for 60 s"):
            mine.finish()


def test_a_turn_is_given_back_as_soon_as_its_records_are_delivered(tmp_path: Path) -> None:
    with TurnFiles(tmp_path, NOW) as others, TurnFiles(tmp_path, NOW) as files:
        sent = Sent()
        mine = TakingTurns(sent, files, SystemClock(), 60)
        mine.send("t", [region(FIRST, size=turns.TURN_BYTES)])
        assert others.take(FIRST) is None
        sent.wait(sent.batches)
        mine.send("t", [region(FIRST)])  # too little for a turn
        assert others.take(FIRST) == 3


@pytest.mark.parametrize(
    ("spans", "error", "says"),
    [
        ([(0, 3), (0, 3)], ManyWritersError, "records 0 to 2 of .* were written twice; .*by_partition"),
        ([(0, 4), (3, 6)], ManyWritersError, "records 3 to 3"),
        ([(0, 3), (5, 8)], KlammError, "records 3 to 4 of .* are of a task that failed"),
        ([(2, 3), (3, 8)], KlammError, "records 0 to 1"),
    ],
)
def test_a_batch_whose_parts_do_not_add_up_is_not_committed(
    sink: World, tmp_path: Path, spans: list[tuple[int, int]], error: type[KlammError], says: str
) -> None:
    driver = Driver(sink)
    plan = driver.plan()
    message = driver.write(plan, 0, 0, rows(0, 1), folder=tmp_path)
    partition = TopicPartition(sink.topic, 0)
    messages = [replace(message, spans={partition: (Span(*span),)}) for span in spans]
    with pytest.raises(error, match=says):
        driver.commit(messages)
    driver.abort([message])
    assert sink.committed() == Counter()


def test_tasks_of_two_transactions_are_not_committed_together(sink: World, tmp_path: Path) -> None:
    driver = Driver(sink)
    message = driver.write(driver.plan(), 0, 0, rows(0, 1), folder=tmp_path)
    other = replace(message, transaction=replace(message.transaction, epoch=99), spans={})
    with pytest.raises(KlammError, match="wrote in two transactions"):
        driver.commit([message, other])


def test_only_a_transactional_producer_continues_elsewhere(sink: World) -> None:
    mine = connections.producer({"bootstrap.servers": sink.cluster.bootstrap})
    with pytest.raises(IllegalStateError, match="needs a transactional producer"):
        mine.continue_at(FIRST, 3)


def test_the_folder_is_that_of_the_executor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert writers.shared_folder() == tmp_path / "klamm"
    monkeypatch.setattr(writers, "CAN_SHARE", False)
    assert writers.shared_folder() is None
    monkeypatch.undo()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert writers.shared_folder() is None
