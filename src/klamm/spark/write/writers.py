"""The writers that Spark calls. They hold options only: they are pickled into every task."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

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
from klamm.spark.write import shared
from klamm.spark.write.decisions import BatchKey
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
        log.warning("the write failed after %d rows were written; they stay", _rows(messages))


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
        log.warning("batch %d failed after %d rows were written; they stay", batchId, _rows(messages))


QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch in one transaction; one that is run again after it was decided is skipped.

    Spark makes one for each micro-batch where it plans it, and one more where it commits, which has no plan.
    """

    def __init__(self, options: SinkOptions, plan: shared.Plan | None) -> None:
        self.options = options
        self.plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        freeze_once()
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id is not None, f"Spark says no {QUERY_ID}"
        assert batch_id is not None, f"Spark says no {BATCH_ID}"
        key = BatchKey(query_id, int(batch_id))
        assert self.plan is not None
        return shared.write(self.options, self.plan, key, context.attemptNumber(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        freeze_once()
        shared.commit(self.options, messages, _key(messages, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        log.warning("batch %d failed and is aborted", batchId)
        shared.abort(self.options, messages, _key(messages, batchId))


def _key(messages: Sequence[WriterCommitMessage | None], batch_id: int) -> BatchKey | None:
    """The batch that tasks spoke of; None when no task came so far."""
    found = next((message.key for message in messages if isinstance(message, shared.Shared)), None)
    assert found is None or found.batch_id == batch_id
    return found


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame in one transaction; with a token, a second write of the same does nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.plan = shared.plan(options)
        self.key = None if options.batch_token is None else BatchKey(f"token:{options.batch_token}", 0)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        freeze_once()
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        return shared.write(self.options, self.plan, self.key, attempt, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        shared.commit(self.options, messages, self.key)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("the write failed and is aborted")
        shared.abort(self.options, messages, self.key)
