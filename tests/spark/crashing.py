"""An exactly-once job that is killed at a named point, once: `python -m spark.crashing ...` runs it.

The data source is klamm's own with a knife in it. What to kill, and where, comes from the environment, which
Spark's Python processes inherit; the folder says which JVM it is and whether the blow was struck.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import klamm.spark
from klamm.spark.source import KlammDataSource
from klamm.spark.write import shared
from klamm.spark.write.decisions import BatchKey
from klamm.spark.write.writers import BATCH_ID, QUERY_ID, ExactlyOnceStreamWriter

PLACES: Final = (
    "planned",
    "task begins",
    "task has written",
    "task done",
    "commit entered",
    "before EndTxn",
    "after EndTxn",
)
VICTIMS: Final = ("jvm", "python")
AT_BATCH: Final = 1  # the second one: there is something before it
ROWS: Final = 240
PER_BATCH: Final = 60
PARTITIONS: Final = 3


def strike(place: str, batch_id: int | None = None) -> None:
    """Kill, if this is the place, the batch, and the first time."""
    folder = Path(os.environ["CRASH_FOLDER"])
    if os.environ["CRASH_AT"] != place or (batch_id is not None and batch_id != AT_BATCH):
        return
    try:
        (folder / "struck").touch(exist_ok=False)
    except FileExistsError:
        return
    if os.environ["CRASH_VICTIM"] == "python":
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(int((folder / "jvm").read_text()), signal.SIGKILL)
    time.sleep(600)  # ends with the JVM; nothing more is done here


class CrashingWriter(DataSourceStreamArrowWriter):
    """The exactly-once writer, with the blow between its steps."""

    def __init__(self, writer: ExactlyOnceStreamWriter) -> None:
        self.writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query_id, text = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id is not None
        assert text is not None
        batch_id = int(text)
        strike("task begins", batch_id)
        assert self.writer.plan is not None

        def rows() -> Iterator[Any]:
            yield from iterator
            strike("task has written", batch_id)  # handed over, perhaps not acknowledged

        key = BatchKey(query_id, batch_id)
        message = shared.write(self.writer.options, self.writer.plan, key, context.attemptNumber(), rows())
        strike("task done", batch_id)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        found = [message for message in messages if isinstance(message, shared.Shared)]
        key = found[0].key if found else None
        shared.commit(self.writer.options, messages, key, at=lambda place: strike(place, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.writer.abort(messages, batchId)


class CrashingSource(KlammDataSource):
    """klamm's source under another name."""

    @classmethod
    def name(cls) -> str:
        return "klamm-crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, ExactlyOnceStreamWriter)
        if made.plan is not None and any(item.batch_id >= AT_BATCH - 1 for item in made.plan.decisions):
            strike("planned")
        return CrashingWriter(made)


def start(spark: SparkSession, sink: str, bootstrap: str, origin: str, target: str, checkpoint: str) -> Any:
    """The job: rows as they are, in batches of a fixed size, from the start to what there is now."""
    broker = {"kafka.bootstrap.servers": bootstrap}
    rows = (
        spark.readStream.format("klamm")
        .options(**broker, subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger=str(PER_BATCH))
        .option("commitOffsets", "transaction")
        .load()
        .selectExpr("key", "value")
    )
    return (
        klamm.spark.by_partition(rows, PARTITIONS)
        .writeStream.format(sink)
        .options(**broker, topic=target, checkpointLocation=checkpoint, delivery="exactly-once")
        .options(transactionalId=f"{target}-sink", commitGroup=f"{target}-group")
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    session = klamm.spark.session("crashing", master="local[2]", quick=True, log_level="OFF")
    jvm = session.sparkContext._jvm
    assert jvm is not None
    (Path(os.environ["CRASH_FOLDER"]) / "jvm").write_text(str(jvm.java.lang.ProcessHandle.current().pid()))
    session.dataSource.register(CrashingSource)
    query = start(session, "klamm-crashing", *sys.argv[1:])
    try:
        query.awaitTermination()
    except Exception as error:  # any end but the JVM's: the test looks at what is there
        sys.stdout.write(json.dumps({"failed": str(error)[:2000]}) + "\n")
    else:
        sys.stdout.write(json.dumps({"ended": True}) + "\n")
    sys.stdout.flush()
