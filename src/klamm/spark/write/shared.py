"""Exactly once, by one transaction for each micro-batch that all its tasks share.

The driver begins the transaction and passes it to the tasks. A partition is written by one task, or by tasks
of one executor in turns, and the commit checks that what they wrote adds up. Then the driver adds the
decision and the source's offsets, and ends the transaction. What a crash leaves open is aborted when the
batch is planned again; what was decided is recognised and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from klamm.client.committed import Committed
from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.clock import SystemClock
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SinkOptions
from klamm.spark.write.decisions import (
    BatchKey,
    Decision,
    encode_decision,
    fetch_decisions,
    is_decided,
    sink_group,
    source_offsets,
)
from klamm.spark.write.noted import note, noted
from klamm.spark.write.steps import (
    MANY_WRITERS,
    Hook,
    ManyWritersError,
    Messages,
    Task,
    check_owner,
    drain,
    nowhere,
    producing,
)
from klamm.spark.write.turns import Span, TakingTurns, TurnFiles
from klamm.spark.write.writing import write_batches

log = logging.getLogger(__name__)

# How long a failed batch waits for its abort: the next plan aborts what is left.
ABORT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Skipped(WriterCommitMessage):
    """A task of a batch that is written already."""

    row_count: int = 0


@dataclass(frozen=True, slots=True)
class Shared(WriterCommitMessage):
    """What one task wrote in the shared transaction; not visible before the commit."""

    row_count: int
    key: BatchKey | None
    transaction: OpenTransaction
    spans: Mapping[TopicPartition, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of a batch; pickled for the tasks and the commit."""

    transaction: OpenTransaction
    decisions: tuple[Decision, ...]


def plan(options: SinkOptions) -> BatchPlan:
    """Fence older writers, abort their open transaction, fetch the last decision: once per batch."""
    assert options.transactional_id is not None
    check_owner(options)
    with producing(options, "plan") as mine:
        mine.init_transactions()
        mine.begin_transaction()
        transaction = mine.hand_over_transaction()
        note(options, transaction)
        return BatchPlan(transaction, fetch_decisions(options.client, options.transactional_id))


def write(options: SinkOptions, planned: BatchPlan, task: Task, rows: Iterator[Any]) -> Skipped | Shared:
    """One task."""
    if task.key is not None and is_decided(planned.decisions, task.key):
        drain(rows)
        return Skipped()
    if task.attempt > 0:
        raise KlammError(
            "this task was tried before and may have written to the transaction: the batch is run again whole"
        )
    with producing(options, "task") as mine:
        mine.resume_transaction(planned.transaction)
        if task.folder is None:
            written = write_batches(rows, options, mine, clock=SystemClock(), random=Random())
            transaction = mine.hand_over_transaction()
            alone = {key: (Span(0, count),) for key, count in transaction.next_sequences.items()}
            return Shared(written.row_count, task.key, transaction, alone)
        with TurnFiles(task.folder, planned.transaction) as files:
            turns = TakingTurns(mine, files, SystemClock(), options.transaction_timeout_s)
            written = write_batches(rows, options, mine, clock=SystemClock(), random=Random(), outlet=turns)
        return Shared(written.row_count, task.key, mine.hand_over_transaction(), turns.written())


def commit(options: SinkOptions, messages: Messages, *, at: Hook = nowhere) -> None:
    """Decide: records, decision and source offsets become visible together. `at` is called at each step."""
    shared = [message for message in messages if isinstance(message, Shared)]
    if not shared:
        return  # all tasks found the batch written
    key = shared[0].key
    at("commit entered")
    whole = _whole(shared)
    sources = {}
    if options.commit_group and options.checkpoint and key is not None:
        sources = source_offsets(options.checkpoint, key.batch_id)
    carrier = _carrier(options, whole, sources)
    if carrier is None and not whole.is_written:
        return  # nothing to make visible
    with producing(options, "end") as mine:
        mine.resume_transaction(whole)
        if key is not None and carrier is not None:
            offset, metadata = encode_decision(key)
            assert options.transactional_id is not None
            mine.send_offsets_to_transaction(
                {carrier: Committed(offset, -1, metadata)}, sink_group(options.transactional_id)
            )
        if sources and options.commit_group:
            mine.send_offsets_to_transaction(sources, options.commit_group)
        at("before EndTxn")
        mine.commit_transaction(options.transaction_timeout_s)
        at("after EndTxn")


def _common(shared: Sequence[Shared]) -> OpenTransaction:
    """The transaction as the tasks got it."""
    return replace(shared[0].transaction, next_sequences={}, partitions=frozenset(), groups=frozenset())


def _whole(shared: Sequence[Shared]) -> OpenTransaction:
    """The transaction of all tasks. Raises unless each record of a partition was written by one of them."""
    common = _common(shared)
    spans: dict[TopicPartition, list[Span]] = {}
    for message in shared:
        if message.transaction.identity != common.identity:
            raise KlammError(
                f"tasks of one batch wrote in two transactions: {common.identity} and "
                f"{message.transaction.identity}"
            )
        for partition, parts in message.spans.items():
            spans.setdefault(partition, []).extend(parts)
    for partition, found in spans.items():
        reached = 0
        for first, following in sorted(found):
            if first < reached:
                # Brokers answer a number that was used before as if it were the same batch sent again.
                raise ManyWritersError(
                    f"records {first} to {min(reached, following) - 1} of {partition} were written twice; "
                    f"{MANY_WRITERS}"
                )
            if first > reached:
                raise KlammError(
                    f"records {reached} to {first - 1} of {partition} are of a task that failed: the "
                    "batch is run again whole"
                )
            reached = following
    return replace(common, partitions=frozenset(spans))


def _carrier(
    options: SinkOptions, whole: OpenTransaction, sources: dict[TopicPartition, int]
) -> TopicPartition | None:
    """An existing partition whose offset in the sink's group holds the decision."""
    if options.topic is not None:
        return TopicPartition(options.topic, 0)
    topics = {partition.topic for partition in (*whole.partitions, *sources)}
    return TopicPartition(min(topics), 0) if topics else None


def abort(options: SinkOptions, messages: Messages, planned: BatchPlan | None = None) -> None:
    """Drop what the tasks wrote, unless it was decided. Never fences: a newer query may be at work.

    Without a plan, and without a task that reports its transaction, it is the one that was noted.
    """
    shared = [message for message in messages if isinstance(message, Shared)]
    if shared:
        transaction: OpenTransaction | None = _common(shared)
    else:
        transaction = noted(options) if planned is None else planned.transaction
    if transaction is None:
        return  # the next plan aborts it
    try:
        with producing(options, "end") as mine:
            mine.resume_transaction(transaction)
            mine.abort_transaction(min(ABORT_S, options.transaction_timeout_s))
    except KlammError as error:
        # Fenced, or committed after all, which the coordinator does not undo: the next plan finds out.
        log.warning("aborting the transaction of %s failed: %s", options.transactional_id, error)
