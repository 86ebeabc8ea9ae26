"""kill -9 in mid-stream: of the driver, of Python workers, of the broker. Nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from interop.kafka_tools import free_port
from interop.processes import ROOT, KlammProcess, LineProcess
from klamm.protocol.types import TopicPartition
from spark.clusters import Cluster

COUNT = 1000


def until(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    """Wait for what must come."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def fill(cluster: Cluster, topic: str) -> set[bytes]:
    values = [b"%d" % number for number in range(COUNT)]
    for partition in range(2):
        cluster.fill(topic, values[partition::2], partition=partition)
    return set(values)


def start(spark: SparkSession, cluster: Cluster, topics: tuple[str, str], group: str, checkpoint: str) -> Any:
    """The job of `spark.job`, in this application."""
    broker = {"kafka.bootstrap.servers": cluster.bootstrap}
    return (
        spark.readStream.format("klamm")
        .options(**broker, subscribe=topics[0], startingOffsets="earliest", maxOffsetsPerTrigger="50")
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
    until(
        lambda: (
            cluster.committed(group).keys() == {TopicPartition(origin, number) for number in ends}
            and all(found.offset == ends[key.partition] for key, found in cluster.committed(group).items())
        )
    )


def test_a_killed_driver_loses_nothing(
    spark: SparkSession, cluster: Cluster, names: Iterator[str], tmp_path: Path, checkpoint: str
) -> None:
    origin, target = (cluster.create(next(names), 2) for _ in range(2))
    group = f"{origin}-group"
    values = fill(cluster, origin)
    job = LineProcess(
        [sys.executable, "-m", "spark.job", cluster.bootstrap, origin, target, group, checkpoint],
        stderr_path=tmp_path / "job.log",
        environment={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )
    try:
        jvm = json.loads(job.read_line(120))["jvm"]
        until(lambda: written(cluster, target) >= 150)
        check_not_ahead(cluster, group, checkpoint)
        workers = python_children(jvm)
        assert workers
        os.kill(jvm, signal.SIGKILL)
        # Its workers die with it: nobody goes on writing.
        until(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        job.kill()
    check_not_ahead(cluster, group, checkpoint)
    assert written(cluster, target) < COUNT
    query = start(spark, cluster, (origin, target), group, checkpoint)
    try:
        query.processAllAvailable()
        check_complete(cluster, origin, group)
        check_not_ahead(cluster, group, checkpoint)
    finally:
        query.stop()
    assert arrived(spark, cluster, target) == values


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
    until(lambda: written(cluster, target) >= 150)
    for worker in forked_workers(pid):
        with suppress(ProcessLookupError):  # it ended by itself
            os.kill(worker, signal.SIGKILL)
    # No task is tried again on one machine: the query fails, or was between two tasks and noticed nothing.
    with suppress(StreamingQueryException):
        query.processAllAvailable()
    query.stop()
    check_not_ahead(cluster, group, checkpoint)
    again = start(spark, cluster, (origin, target), group, checkpoint)
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
            until(lambda: written(cluster, target) >= 150)
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


def test_a_broker_that_is_away_at_the_start_is_named(spark: SparkSession, checkpoint: str) -> None:
    frame = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.default.api.timeout.ms", "300")
        .option("kafka.request.timeout.ms", "200")
        .option("subscribe", "t")
        .load()
    )
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(StreamingQueryException, match=r"127\.0\.0\.1:1"):
        query.awaitTermination()


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
