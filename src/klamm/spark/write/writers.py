"""The writers that Spark calls. They hold options only: they are pickled into every task."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from klamm.clock import SystemClock
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import producer
from klamm.spark.setup.freezing import freeze_once
from klamm.spark.write import per_task, shared
from klamm.spark.write.decisions import BatchKey
from klamm.spark.write.noted import local_folder
from klamm.spark.write.steps import SinkProtocol, Task
from klamm.spark.write.turns import CAN_SHARE
from klamm.spark.write.writing import Written, write_batches

log = logging.getLogger(__name__)


def _write(options: SinkOptions, iterator: Iterator[Any]) -> Written:
    freeze_once()
    return write_batches(iterator, options, producer(options.client), clock=SystemClock(), random=Random())


def _rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.row_count for message in messages if isinstance(message, Written))


class BatchWriter(DataSourceArrowWriter):
    """Writes at least once: a task that is tried again writes its rows again."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: what a task reports is there."""
        log.debug("%d rows written", _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing can be undone: rows of finished tasks stay."""
        if _rows(messages):
            log.warning("the write failed after %d rows were written; they are not removed", _rows(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes at least once: a micro-batch that is run again after a crash is written again."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do: what a task reports is there."""
        freeze_once()  # one process does so for every batch
        log.debug("%d rows written in batch %d", _rows(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing can be taken back; the batch will be written again, whole."""
        if _rows(messages):
            log.warning(
                "batch %d failed after %d rows were written; they are not removed", batchId, _rows(messages)
            )


QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


def protocol_of(options: SinkOptions) -> SinkProtocol:
    """The protocol that option `txn.mode` names."""
    return per_task if options.is_per_task else shared


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch in transactions; one that is run again after it was decided is skipped.

    Spark makes one for each micro-batch where it plans it, and one more where it commits, which has no plan.
    """

    def __init__(self, options: SinkOptions, *, is_planned: bool) -> None:
        self.options = options
        self.plan = protocol_of(options).plan(options) if is_planned else None

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        freeze_once()
        assert self.plan is not None
        return protocol_of(self.options).write(self.options, self.plan, current_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        freeze_once()
        protocol_of(self.options).commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        log.info("batch %d failed and is aborted", batchId)
        protocol_of(self.options).abort(self.options, messages, self.plan)


def current_task() -> Task:
    """The task of a micro-batch that runs in this process."""
    context = TaskContext.get()
    assert context is not None
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    assert query_id is not None, f"Spark did not pass {QUERY_ID}"
    assert batch_id is not None, f"Spark did not pass {BATCH_ID}"
    return Task(
        BatchKey(query_id, int(batch_id)), context.partitionId(), context.attemptNumber(), shared_folder()
    )


def shared_folder() -> Path | None:
    """A folder in which the tasks of this executor can take turns."""
    return local_folder() if CAN_SHARE else None


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame in transactions; with a token, a second write of the same does nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.plan = protocol_of(options).plan(options)
        self.key: BatchKey | None = None
        if options.batch_token is not None:
            self.key = BatchKey(f"token:{options.batch_token}", 0)
        elif options.is_per_task:
            # Its decision needs a name, for the slots that a crash leaves to be committed.
            self.key = BatchKey(f"write:{uuid4().hex}", 0)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        freeze_once()
        context = TaskContext.get()
        assert context is not None
        task = Task(self.key, context.partitionId(), context.attemptNumber(), shared_folder())
        return protocol_of(self.options).write(self.options, self.plan, task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        protocol_of(self.options).commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("the write failed and is aborted")
        protocol_of(self.options).abort(self.options, messages, self.plan)
