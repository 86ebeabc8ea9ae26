"""A job that lives for years: adopted, changed in every way, killed meanwhile. Each record counts once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from klamm.cli.pipe import app
from klamm.spark.pipe.failures import BAD_RECORD, NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.job import Job
from spark.clusters import Cluster
from spark.test_pipe import committed
from spark.test_pipe_changes import Living
from unit.spark.pipe.killing import ADOPT, MIGRATE, REDRIVE, killed_at


class Life(Living):
    """A job with a file, whose commands are killed before they are done."""

    def __init__(self, spark: SparkSession, cluster: Cluster, names: Iterator[str], folder: Path) -> None:
        super().__init__(spark, cluster, names, folder)
        self.name = f"{self.origin}-job"

    def now(self, **settings: Any) -> Job:
        return super().now(name=self.name, **settings)

    def file(self) -> Path:
        """The job's file, as it is now."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.head.items()]
        for table, settings in self.all_tables.items():
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
        path = self.folder / "job.toml"
        path.write_text("\n".join(lines))
        return path

    @property
    def head(self) -> dict[str, str]:
        checkpoint = str(self.folder / "checkpoint")
        return {"name": self.name, "bootstrap": self.cluster.bootstrap, "checkpoint": checkpoint}

    @property
    def all_tables(self) -> dict[str, dict[str, Any]]:
        source = {"topics": [self.origin], **self.tables["source"]}
        sink = {"topic": self.target, **self.tables.get("sink", {})}
        return {**self.tables, "source": source, "sink": sink}

    def command(self, command: str, *arguments: str) -> str:
        done = CliRunner().invoke(app, [command, *arguments, str(self.file())])
        assert done.exit_code == 0, done.output
        return done.output

    def needs_checkpoint(self) -> None:
        """A run is refused, and the check says what to do."""
        with pytest.raises(JobFailedError) as refused:
            self.run(self.now())
        assert refused.value.exit_code == NEEDS_CHECKPOINT
        assert "klamm pipe migrate" in str(refused.value)

    def forget_last_end(self) -> None:
        """As a kill leaves it after the transaction's commit, before Spark notes the end of the batch."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(file.name) for file in commits.glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink()

    def send(self, topic: str, *values: dict[str, Any]) -> None:
        self.cluster.fill(topic, [json.dumps(value).encode() for value in values])


@pytest.fixture
def life(spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path) -> Life:
    return Life(spark, klamm_cluster, names, tmp_path)


def copied_by_the_official_connector(life: Life) -> str:
    """Two records, and the checkpoint of the query that has written them."""
    life.sent += [0, 1]
    life.send(life.origin, *({"id": number, "cents": number} for number in life.sent))
    folder = str(life.folder / "theirs")
    broker = {"kafka.bootstrap.servers": life.cluster.bootstrap}
    source = life.spark.readStream.format("kafka").options(**broker, subscribe=life.origin)
    query = (
        source.option("startingOffsets", "earliest")
        .load()
        .selectExpr(f"'{life.target}' AS topic", "value")
        .writeStream.format("kafka")
        .options(**broker, checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return folder


def test_every_record_of_a_long_life_is_written_once(
    life: Life, klamm_cluster: Cluster, names: Iterator[str]
) -> None:
    theirs = copied_by_the_official_connector(life)
    for place in ADOPT:
        killed_at(place, "adopt", theirs, life.file())
    assert f"{life.origin}-0 at 2" in life.command("adopt", theirs)
    life.goes_on()

    # A value that does not fit: the advice is taken, and the letter goes back when the job can read it.
    bad = len(life.sent)
    life.sent.append(bad)
    life.send(life.origin, {"id": bad, "cents": "12 EUR"})
    with pytest.raises(JobFailedError) as failed:
        life.run(life.now())
    assert failed.value.exit_code == BAD_RECORD
    life.change("source", dead_letters=life.dead)
    life.goes_on()
    life.change("source", schema="id long, cents string, note string")
    life.change("transform", sql="SELECT id, cents AS price FROM input")
    for place in REDRIVE:
        killed_at(place, "redrive", life.file())
    assert "put back 0 of 0 dead letters" in life.command("redrive")
    life.goes_on()
    assert life.ids() == life.sent

    # A source more, and one that replaces them all.
    second = klamm_cluster.create(next(names), 1)
    life.change("source", topics=[life.origin, second])
    life.goes_on(second)
    third = klamm_cluster.create(next(names), 2)
    life.change("source", topics=[third])
    life.needs_checkpoint()
    killed_at("in place", "migrate", life.file())
    life.command("migrate")
    life.goes_on(third)

    # Another transactional id, while only the former one knows that the last batch was written.
    life.forget_last_end()
    life.name += "-2"
    life.needs_checkpoint()
    for place in MIGRATE[:-1]:
        killed_at(place, "migrate", life.file())
    life.command("migrate")
    life.goes_on(third)
    life.forget_last_end()
    life.goes_on(third)
    life.change("source", dead_letters=None)
    life.goes_on(third)
    assert life.ids() == life.sent

    # State begins, is lost where it must be, and is kept where it can be.
    life.targets = [klamm_cluster.create(next(names), 1)]
    life.change("sink", topic=life.targets[0], mode="complete")
    life.change("transform", sql="SELECT 'all' AS product, count(*) AS records FROM input GROUP BY 1")
    life.needs_checkpoint()
    life.command("migrate")
    life.goes_on(third)
    life.change("source", dead_letters=life.dead)
    life.forget_last_end()
    life.goes_on(third, b"no JSON")
    life.goes_on(third)
    assert counts(life) == [2, 4, 6]
    letters = committed(life.spark, life.cluster, life.dead)
    assert [json.loads(value)["id"] if value != b"no JSON" else None for _, value in letters] == [None, bad]


def counts(life: Life) -> list[int]:
    rows = committed(life.spark, life.cluster, life.targets[0])
    return sorted(json.loads(value)["records"] for _, value in rows)
