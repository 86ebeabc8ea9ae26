"""The writers that Spark calls. They hold options only: they are pickled into every task."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from klamm.clock import SystemClock
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import producer
from klamm.spark.setup.freezing import freeze_once
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
        """Nothing can be taken back; the rows of the tasks that ended stay."""
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
