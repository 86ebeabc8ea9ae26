"""Exactly-once queries that stop at a named point, once, so that something can be killed there.

The data source is klamm's own with stops between its steps. `python -m spark.crashing` runs queries in a JVM
of their own, which the test kills; for other victims the application of the tests runs them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import klamm.spark
from klamm.spark.source import KlammDataSource
from klamm.spark.write import slots
from klamm.spark.write.per_task import SlotWritten
from klamm.spark.write.writers import ExactlyOnceStreamWriter, current_task, protocol_of
from klamm.testing import wait_until

PLACES: Final = (
    "planned",
    "task begins",
    "task has written",
    "task done",
    "commit entered",
    "before EndTxn",
    "after EndTxn",
    "one slot committed",  # with a transaction for each task only
    "committed",
)
FORMAT: Final = "klamm-stopping"
AT_BATCH: Final = 1  # the second one: there is something before it
PER_BATCH: Final = 40
ROWS: Final = 3 * PER_BATCH
PARTITIONS: Final = 3
REACHED_WITHIN: Final = "8m"  # by all queries of a test, which start one after the other
STOPPED_S: Final = 600  # the first one to stop waits for all others, and then for the kill
MAX_LOSSES: Final = 3  # of workers, by a query that is not the cause
_PREFIX: Final = "stop."


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a query stops, and whether its Python process ends there by itself."""

    folder: str
    name: str
    place: str
    is_suicide: bool = False

    @property
    def reached(self) -> Path:
        return Path(self.folder) / f"reached-{self.name}"

    @property
    def released(self) -> Path:
        """Made by the test when it has killed what it came for."""
        return Path(self.folder) / "released"

    def at(self, place: str, batch_id: int) -> None:
        """Stop, if this is the place, the batch, and the first time."""
        if place != self.place or batch_id != AT_BATCH:
            return
        try:
            self.reached.touch(exist_ok=False)
        except FileExistsError:
            return
        if self.is_suicide:
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + STOPPED_S
        while not self.released.exists():
            assert time.monotonic() < deadline, "nobody released this process"
            time.sleep(0.005)


class StoppingWriter(DataSourceStreamArrowWriter):
    """The exactly-once writer, with stops between its steps."""

    def __init__(self, writer: ExactlyOnceStreamWriter, stop: Stop) -> None:
        self.writer = writer
        self.stop = stop

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = current_task()
        assert task.key is not None
        batch_id = task.key.batch_id
        self.stop.at("task begins", batch_id)

        def rows() -> Iterator[Any]:
            yield from iterator
            self.stop.at("task has written", batch_id)  # handed over, perhaps not acknowledged

        options = self.writer.options
        message = protocol_of(options).write(options, self.writer.plan, task, rows())
        self.stop.at("task done", batch_id)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        options = self.writer.options

        def at(place: str) -> None:
            self.stop.at(place, batchId)
            written = [message.slot for message in messages if isinstance(message, SlotWritten)]
            if (place, self.stop.place) == ("after EndTxn", "one slot committed") and written:
                assert options.transactional_id is not None
                slots.end(options, [slots.open_slot(options.transactional_id, written[0])], commits=True)
                self.stop.at("one slot committed", batchId)

        protocol_of(options).commit(options, messages, at=at)
        self.stop.at("committed", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.writer.abort(messages, batchId)


class StoppingSource(KlammDataSource):
    """klamm's source under another name."""

    def __init__(self, options: dict[str, str]) -> None:
        own = {name: value for name, value in options.items() if name.lower().startswith(_PREFIX)}
        super().__init__({name: value for name, value in options.items() if name not in own})
        given = {name.lower().removeprefix(_PREFIX): value for name, value in own.items()}
        self.stop = Stop(given["folder"], given["name"], given["place"], given["suicide"] == "true")

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, ExactlyOnceStreamWriter)
        if made.plan is not None:
            last = max((item.batch_id for item in made.plan.decisions), default=-1)
            self.stop.at("planned", last + 1)
        return StoppingWriter(made, self.stop)


@dataclass(frozen=True, slots=True)
class Copying:
    """A query: rows as they are, in batches of a fixed size, from the start to what there is now."""

    bootstrap: str
    origin: str
    target: str
    checkpoint: str
    mode: str

    def start(self, spark: SparkSession, stop: Stop | None = None) -> Any:
        broker = {"kafka.bootstrap.servers": self.bootstrap}
        rows = (
            spark.readStream.format("klamm")
            .options(**broker, subscribe=self.origin, startingOffsets="earliest")
            .options(maxOffsetsPerTrigger=str(PER_BATCH), commitOffsets="transaction")
            .load()
            .selectExpr("key", "value")
        )
        if self.mode == "shared":
            rows = klamm.spark.by_partition(rows, PARTITIONS)
        writer = rows.writeStream.format("klamm" if stop is None else FORMAT)
        if stop is not None:
            given = {"folder": stop.folder, "name": stop.name, "place": stop.place}
            given["suicide"] = str(stop.is_suicide).lower()
            writer = writer.options(**{f"{_PREFIX}{name}": value for name, value in given.items()})
        return started(
            writer.options(**broker, topic=self.target, checkpointLocation=self.checkpoint)
            .options(**{"delivery": "exactly-once", "txn.mode": self.mode})
            .options(transactionalId=f"{self.target}-sink", commitGroup=f"{self.target}-group")
            .trigger(availableNow=True)
        )


def started(writer: Any) -> Any:
    """A query whose reader's process is up: several that start at a time need long on a busy machine.

    Spark gives such a process ten seconds. A query that failed for that alone is started again.
    """
    while True:
        query = writer.start()
        wait_until(partial(_is_beyond_start, query), "4m")
        if not _was_slow_to_start(query.exception()):
            return query


def ended(
    query: Any, start_again: Callable[[], Any], has_stopped: Callable[[], bool] = lambda: True
) -> Exception | None:
    """How a query ended: its failure, or None. Later processes of a query may be slow to start, too.

    A query that has lost its worker to another one of the application before it stopped is started again, as
    after any crash, but not for ever.
    """
    losses_left = MAX_LOSSES
    while True:
        with suppress(StreamingQueryException):
            assert query.awaitTermination(240)
        failure: Exception | None = query.exception()
        if _has_lost_its_worker(failure) and not has_stopped() and losses_left:
            losses_left -= 1
        elif not _was_slow_to_start(failure):
            return failure
        query = start_again()


def _has_lost_its_worker(failure: Exception | None) -> bool:
    """Whether a worker was gone; perhaps with all others.

    When a query has failed, Spark interrupts its tasks. If one of them waits for a new worker, that is taken
    for a time-out of the daemon that forks them, and starts another daemon: every worker of the old one ends,
    whichever query it works for. The busier the machine, the longer tasks wait for workers.
    """
    return failure is not None and "Python worker exited unexpectedly" in str(failure)


def _was_slow_to_start(failure: Exception | None) -> bool:
    return failure is not None and "Python worker failed to connect back" in str(failure)


def _is_beyond_start(query: Any) -> bool:
    return bool(query.status["message"] != "Initializing sources")


def job(queries: list[tuple[Copying, Stop]]) -> str:
    """What the job in a JVM of its own gets as its argument."""
    return json.dumps([[asdict(query), asdict(stop)] for query, stop in queries])


def run_until_killed(spark: SparkSession, asked: list[tuple[Copying, Stop]]) -> None:
    """Run the queries, none of which ends by itself; the failure of any of them is raised.

    Later processes of a query may be as slow to start as that of its reader: it is started again, too.
    """
    running = [query.start(spark, stop) for query, stop in asked]
    while True:
        with suppress(StreamingQueryException):
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        for number, (query, stop) in enumerate(asked):
            if running[number].isActive:
                continue
            if not _was_slow_to_start(running[number].exception()):
                running[number].awaitTermination()  # raises what it failed with
                return
            running[number] = query.start(spark, stop)


if __name__ == "__main__":
    asked = [(Copying(**query), Stop(**stop)) for query, stop in json.loads(sys.argv[1])]
    # A stopped task keeps its thread: each query has two of them.
    session = klamm.spark.session("stopping", master=f"local[{2 * len(asked)}]", quick=True, log_level="OFF")
    jvm = session.sparkContext._jvm
    assert jvm is not None
    session.dataSource.register(StoppingSource)
    sys.stdout.write(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid()}) + "\n")
    sys.stdout.flush()
    run_until_killed(session, asked)
