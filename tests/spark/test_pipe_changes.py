"""A job that is changed over its life, on one checkpoint or by the commands that make another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from klamm.protocol.types import TopicPartition
from klamm.spark.pipe.failures import BAD_RECORD, NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.migrating import adopt, migrate
from spark.clusters import Cluster
from spark.test_pipe import Pipe, committed, totals

SCHEMA = "id long, cents long"


class Living(Pipe):
    """A job, and records that are numbered through its life."""

    def __init__(self, spark: SparkSession, cluster: Cluster, names: Iterator[str], folder: Path) -> None:
        super().__init__(spark, cluster, names, folder)
        self.tables: dict[str, dict[str, Any]] = {"source": {"format": "json", "schema": SCHEMA}}
        self.sent: list[int] = []
        self.targets = [self.target]

    def change(self, table: str, **settings: Any) -> None:
        """Settings of the job's file; None takes one out."""
        kept = {**self.tables.get(table, {}), **settings}
        self.tables[table] = {name: value for name, value in kept.items() if value is not None}

    def now(self, **settings: Any) -> Job:
        return self.job(**self.tables, **settings)

    def goes_on(self, topic: str | None = None, *bad: bytes, **settings: Any) -> None:
        """Two more records, and a run that has them all."""
        new = [len(self.sent), len(self.sent) + 1]
        self.sent += new
        values = [json.dumps({"id": number, "cents": number}).encode() for number in new]
        self.cluster.fill(topic or self.origin, [*bad, *values])
        self.run(self.now(**settings))

    def ids(self) -> list[int]:
        """Every id that was written, in any of the targets."""
        found = []
        for target in self.targets:
            rows = committed(self.spark, self.cluster, target)
            found += [json.loads(value)["id"] for _, value in rows]
        return sorted(found)


@pytest.fixture
def living(spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path) -> Living:
    return Living(spark, klamm_cluster, names, tmp_path)


def test_a_job_that_changes_ten_times_writes_every_record_once(
    living: Living, klamm_cluster: Cluster, names: Iterator[str]
) -> None:
    living.goes_on()
    # A value that does not fit ends the job; the advice in the error is taken, and the job goes on.
    living.cluster.fill(living.origin, [b"not json"])
    with pytest.raises(JobFailedError, match=r"set source\.dead_letters to keep") as failed:
        living.run(living.now())
    assert failed.value.exit_code == BAD_RECORD
    living.change("source", dead_letters=living.dead)
    living.goes_on()
    counted = [batch for batch in living.batches if batch["dead_letters"]]
    assert [batch["dead_letters"] for batch in counted] == [1]
    assert counted[0]["first_dead_letter"].startswith(f"{living.origin}-0 offset 2: the value is not JSON")
    living.change("transform", sql="SELECT id, cents * 2 AS doubled FROM input")
    living.goes_on()
    living.change("source", schema=f"{SCHEMA}, note string")
    living.goes_on()
    second = klamm_cluster.create(next(names), 1)
    klamm_cluster.fill(second, [b"{}"] * 3)
    klamm_cluster.admin.delete_records({TopicPartition(second, 0): 3})
    living.change("source", topics=[living.origin, second])
    living.goes_on(second)  # a topic whose first records are gone
    living.targets.append(klamm_cluster.create(next(names), 1))
    living.change("sink", topic=living.targets[-1])
    living.goes_on()
    living.change("source", dead_letters=None)
    living.goes_on()
    living.change("source", topics=[second])
    living.goes_on(second)
    living.goes_on(second, delivery="at-least-once")
    living.goes_on(second)
    assert living.ids() == living.sent
    assert [value for _, value in dead(living)] == [b"not json"]


def dead(living: Living) -> list[tuple[Any, bytes]]:
    return committed(living.spark, living.cluster, living.dead)


def test_state_is_kept_with_dead_letters_and_needs_a_new_checkpoint_of_another_shape(living: Living) -> None:
    living.change("transform", sql="SELECT 'all' AS product, sum(cents) AS cents FROM input GROUP BY 1")
    living.change("sink", mode="complete", key="product")
    living.goes_on()
    living.change("source", dead_letters=living.dead)
    living.goes_on(None, b"not json")
    assert totals(living) == {"all": [1, 6]}
    living.change("transform", sql="SELECT 'all' AS product, count(*) AS cents FROM input GROUP BY 1")
    with pytest.raises(JobFailedError, match="its state is of another shape") as refused:
        living.goes_on()
    assert refused.value.exit_code == NEEDS_CHECKPOINT
    made = migrate(living.now(), timeout_s=30)
    assert made.loses_state
    living.goes_on()
    # The four that the old checkpoint had not read, those of the run that was refused among them.
    assert totals(living) == {"all": [1, 4, 6]}
    living.goes_on()
    assert totals(living) == {"all": [1, 4, 6, 6]}
    assert [value for _, value in dead(living)] == [b"not json"]


def test_a_batch_that_was_committed_and_not_ended_is_not_repeated_by_a_new_checkpoint(living: Living) -> None:
    living.goes_on()
    living.goes_on()
    # A crash after the commit of the transaction, and before that of Spark.
    for name in ("1", ".1.crc"):
        (living.folder / "checkpoint" / "commits" / name).unlink()
    former = living.now()
    made = migrate(replace(former, name=f"{former.name}-2"), timeout_s=30)
    assert (made.repeats, made.loses_state) == (0, False)
    living.goes_on(name=f"{former.name}-2")
    assert living.ids() == living.sent


def test_a_job_goes_on_where_a_query_of_the_official_connector_stopped(
    living: Living, tmp_path: Path
) -> None:
    def theirs(until: str) -> str:
        """A query with Spark's own connector, stopped after all there is."""
        folder = str(tmp_path / "theirs")
        source = living.spark.readStream.format("kafka").options(
            **{
                "kafka.bootstrap.servers": living.cluster.bootstrap,
                "subscribe": living.origin,
                "startingOffsets": until,
            }
        )
        query = (
            source.load()
            .selectExpr(f"'{living.target}' AS topic", "value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", living.cluster.bootstrap)
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        return folder

    values = [json.dumps({"id": number, "cents": number}).encode() for number in range(6)]
    living.cluster.fill(living.origin, values[:2])
    theirs("earliest")
    living.cluster.fill(living.origin, values[2:4], partition=1)
    folder = theirs("earliest")
    made = adopt(living.now(), folder, timeout_s=10)
    assert (made.origin, made.repeats) == (f"batch 1 of {folder}", 0)
    living.cluster.fill(living.origin, values[4:])
    living.run(living.now())
    assert living.ids() == list(range(6))
