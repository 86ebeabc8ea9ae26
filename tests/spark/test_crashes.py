"""kill -9 in mid-stream: of the driver, of Python workers, of the broker. Nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from interop.kafka_tools import free_port
from interop.processes import ROOT, KlammProcess, LineProcess
from klamm.protocol.types import TopicPartition
from klamm.testing import wait_until
from spark.clusters import Cluster

COUNT = 600
A_WHILE = 60  # rows written: the second of many micro-batches


def fill(cluster: Cluster, topic: str) -> set[bytes]:
    values = [b"%d" % number for number in range(COUNT)]
    for partition in range(2):
        cluster.fill(topic, values[partition::2], partition=partition)
    return set(values)


def start(
    spark: SparkSession,
    cluster: Cluster,
    topics: tuple[str, str],
    group: str,
    checkpoint: str,
    *,
    at_once: int = 50,
) -> Any:
    """The job of `spark.job`, in this application."""
    broker = {"kafka.bootstrap.servers": cluster.bootstrap}
    return (
        spark.readStream.format("klamm")
        .options(**broker, subscribe=topics[0], startingOffsets="earliest", maxOffsetsPerTrigger=str(at_once))
        .options(**{"kafka.group.id": group, "commitOffsets": "progress"})
        .load()
        .selectExpr("key", "value")
        .writeStream.format("klamm")
        .options(**broker, topic=topics[1], checkpointLocation=checkpoint)
        .start()
    )


def written(cluster: Cluster, topic: str) -> int:
    return sum(cluster.ends(topic).values())


def arrived(spark: SparkSession, cluster: Cluster, topic: str) -> set[bytes]:
    frame = (
        spark.read.format("klamm")
        .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
        .load()
    )
    return {bytes(row.value) for row in frame.select("value").collect()}


def logged_as_done(checkpoint: str) -> dict[int, int]:
    """How far Spark's commit log says the query is, by partition."""
    done = [int(path.name) for path in (Path(checkpoint) / "commits").glob("[0-9]*")]
    if not done:
        return {}
    text = (Path(checkpoint) / "offsets" / str(max(done))).read_text().splitlines()[-1]
    (partitions,) = (ends for topic, ends in json.loads(text).items() if not topic.startswith("$"))
    return {int(number): offset for number, offset in partitions.items()}


def check_not_ahead(cluster: Cluster, group: str, checkpoint: str) -> None:
    """What the group has committed is in Spark's log already; asked in this order, it can only be behind."""
    committed = cluster.committed(group)
    done = logged_as_done(checkpoint)
    for partition, found in committed.items():
        assert found.offset <= done.get(partition.partition, 0), (committed, done)


def check_complete(cluster: Cluster, origin: str, group: str) -> None:
    ends = cluster.ends(origin)
    wait_until(
        lambda: (
            cluster.committed(group).keys() == {TopicPartition(origin, number) for number in ends}
            and all(found.offset == ends[key.partition] for key, found in cluster.committed(group).items())
        ),
        "2m",
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A job of its own on one cluster."""

    cluster: Cluster
    origin: str
    target: str
    folder: Path

    @property
    def group(self) -> str:
        return f"{self.origin}-group"

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")


def test_a_killed_driver_loses_nothing(
    spark: SparkSession, klamm_cluster: Cluster, kafka: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    jobs = []
    for cluster in (klamm_cluster, kafka):
        origin, target = (cluster.create(next(names), 2) for _ in range(2))
        folder = tmp_path / cluster.kind
        folder.mkdir()
        values = fill(cluster, origin)
        jobs.append(Job(cluster, origin, target, folder))
    # Both at the same time: each spends most of its life starting.
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(run_and_kill, jobs))
    for job in jobs:
        cluster = job.cluster
        query = start(spark, cluster, (job.origin, job.target), job.group, job.checkpoint, at_once=COUNT)
        try:
            query.processAllAvailable()
            check_complete(cluster, job.origin, job.group)
            check_not_ahead(cluster, job.group, job.checkpoint)
        finally:
            query.stop()
        assert arrived(spark, cluster, job.target) == values


def run_and_kill(job: Job) -> None:
    """Start it, and kill its JVM when it has written some rows."""
    cluster = job.cluster
    process = LineProcess(
        [
            *(sys.executable, "-m", "spark.job", cluster.bootstrap),
            *(job.origin, job.target, job.group, job.checkpoint),
        ],
        stderr_path=job.folder / "job.log",
        environment={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )
    try:
        jvm = json.loads(process.read_line(120))["jvm"]
        wait_until(lambda: written(cluster, job.target) >= A_WHILE, "2m")
        check_not_ahead(cluster, job.group, job.checkpoint)
        workers = python_children(jvm)
        assert workers
        os.kill(jvm, signal.SIGKILL)
        # Its workers die with it: nobody goes on writing.
        wait_until(lambda: not any(is_alive(worker) for worker in workers), "2m")
    finally:
        process.kill()
    check_not_ahead(cluster, job.group, job.checkpoint)
    assert written(cluster, job.target) < COUNT


def test_killed_workers_lose_nothing(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], checkpoint: str
) -> None:
    cluster = klamm_cluster
    origin, target = (cluster.create(next(names), 2) for _ in range(2))
    group = f"{origin}-group"
    values = fill(cluster, origin)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    query = start(spark, cluster, (origin, target), group, checkpoint)
    wait_until(lambda: written(cluster, target) >= A_WHILE, "2m")
    for worker in forked_workers(pid):
        with suppress(ProcessLookupError):  # it ended by itself
            os.kill(worker, signal.SIGKILL)
    # No task is tried again on one machine: the query fails, or was between two tasks and noticed nothing.
    with suppress(StreamingQueryException):
        query.processAllAvailable()
    query.stop()
    check_not_ahead(cluster, group, checkpoint)
    again = start(spark, cluster, (origin, target), group, checkpoint, at_once=COUNT)
    try:
        again.processAllAvailable()
        check_complete(cluster, origin, group)
    finally:
        again.stop()
    assert arrived(spark, cluster, target) == values


def test_a_killed_broker_loses_nothing_and_the_query_goes_on(
    spark: SparkSession, names: Iterator[str], tmp_path: Path, checkpoint: str
) -> None:
    port = free_port()
    broker = KlammProcess(tmp_path / "data", stderr_path=tmp_path / "first.log", port=port)
    try:
        with Cluster("klamm", broker.bootstrap) as cluster:
            origin, target = (cluster.create(next(names), 2) for _ in range(2))
            group = f"{origin}-group"
            values = fill(cluster, origin)
            query = start(spark, cluster, (origin, target), group, checkpoint)
            wait_until(lambda: written(cluster, target) >= A_WHILE, "2m")
            broker.kill()
            broker = KlammProcess(tmp_path / "data", stderr_path=tmp_path / "second.log", port=port)
            try:
                query.processAllAvailable()
                check_complete(cluster, origin, group)
                check_not_ahead(cluster, group, checkpoint)
            finally:
                query.stop()
            assert arrived(spark, cluster, target) == values
    finally:
        broker.close()


def children(pid: int) -> list[int]:
    found = []
    with suppress(OSError):  # a process or a thread that has just ended
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def python_children(pid: int) -> list[int]:
    """The daemons that a JVM started, and what they forked."""
    daemons = children(pid)
    return daemons + [worker for daemon in daemons for worker in children(daemon)]


def forked_workers(pid: int) -> list[int]:
    return [worker for daemon in children(pid) for worker in children(daemon)]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
