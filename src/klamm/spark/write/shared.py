"""Exactly once, by one transaction for each micro-batch that all its tasks share.

The driver begins the transaction and hands it to the tasks, each of which writes to partitions of its own;
the driver adds the decision and the source's offsets and ends it. What a crash leaves open is aborted when
the batch is planned again; what was decided is recognised and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from klamm.client.consumer.offsets.positions import Committed
from klamm.client.producer.encoded import EncodedProducer
from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.clock import SystemClock
from klamm.errors import BrokerError, IllegalStateError, KlammError, ProducerFencedError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import discard_producer, producer
from klamm.spark.write.decisions import (
    BatchKey,
    Decision,
    encode_decision,
    fetch_decisions,
    is_decided,
    sink_group,
    source_offsets,
)
from klamm.spark.write.writing import write_batches

log = logging.getLogger(__name__)

_FENCED: Final = (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch)
_MANY_WRITERS: Final = (
    "two tasks wrote to one partition: let each partition have one task, with "
    "klamm.spark.by_partition(df, PARTITIONS) before writing"
)


class SinkFencedError(KlammError):
    """A newer query, or a newer run of this one, uses the transactional id."""


class ManyWritersError(KlammError):
    """Two tasks wrote to one partition, which one transaction cannot hold apart."""


@dataclass(frozen=True, slots=True)
class Skipped(WriterCommitMessage):
    """A task of a batch that is written already."""

    row_count: int = 0


@dataclass(frozen=True, slots=True)
class Shared(WriterCommitMessage):
    """What one task wrote in the common transaction; nobody can see it yet."""

    row_count: int
    key: BatchKey
    transaction: OpenTransaction


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks and the commit go by; pickled into each of them."""

    transaction: OpenTransaction
    decisions: tuple[Decision, ...]


def plan(options: SinkOptions) -> Plan:
    """Fence older writers, abort what they left open, find what was decided: once per batch."""
    assert options.transactional_id is not None
    with _producing(options, "plan") as mine:
        mine.init_transactions(timeout=options.transaction_timeout_s)
        mine.begin_transaction()
        transaction = mine.hand_over_transaction()
        return Plan(transaction, fetch_decisions(options.client, options.transactional_id))


def write(
    options: SinkOptions, planned: Plan, key: BatchKey | None, attempt: int, rows: Iterator[Any]
) -> Skipped | Shared:
    """One task. `key` is None for a batch write that cannot be recognised."""
    if key is not None and is_decided(planned.decisions, key):
        for _ in rows:
            pass  # Spark waits for a task to take all its rows
        return Skipped()
    if attempt > 0:
        raise KlammError(
            "this task was tried before and may have written to the transaction: the batch is run again whole"
        )
    with _producing(options, "task") as mine:
        mine.resume_transaction(planned.transaction)
        written = write_batches(rows, options, mine, clock=SystemClock(), random=Random())
        return Shared(written.row_count, key or NO_KEY, mine.hand_over_transaction())


NO_KEY: Final = BatchKey("", -1)
Hook = Callable[[str], None]


def commit(
    options: SinkOptions,
    messages: Sequence[WriterCommitMessage | None],
    key: BatchKey | None,
    *,
    at: Hook = lambda _place: None,
) -> None:
    """Decide: records, decision and source offsets become visible together. `at` is told how far it is."""
    shared = [message for message in messages if isinstance(message, Shared)]
    if not shared:
        return  # all tasks found the batch written
    at("commit entered")
    try:
        whole = _common(shared).merged(message.transaction for message in shared)
    except IllegalStateError as error:
        raise ManyWritersError(f"{error}; {_MANY_WRITERS}") from error
    sources = {}
    if options.commit_group and options.checkpoint and key is not None:
        sources = source_offsets(options.checkpoint, key.batch_id)
    carrier = _carrier(options, whole, sources)
    if carrier is None and not whole.is_written:
        return  # nothing to make visible
    with _producing(options, "end") as mine:
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


def _carrier(
    options: SinkOptions, whole: OpenTransaction, sources: dict[TopicPartition, int]
) -> TopicPartition | None:
    """A partition that exists, whose offset in the sink's group stands for the decision."""
    if options.topic is not None:
        return TopicPartition(options.topic, 0)
    topics = {partition.topic for partition in (*whole.partitions, *sources)}
    return TopicPartition(min(topics), 0) if topics else None


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], key: BatchKey | None) -> None:
    """Drop what the tasks wrote, unless it was decided. Never fences: a newer query may be at work."""
    shared = [message for message in messages if isinstance(message, Shared)]
    if not shared:
        return  # no task says which transaction it was: the next plan aborts it
    assert options.transactional_id is not None
    try:
        if key is not None and is_decided(fetch_decisions(options.client, options.transactional_id), key):
            log.info("batch %d of query %s is committed; nothing to abort", key.batch_id, key.query_id)
            return
        with _producing(options, "end") as mine:
            mine.resume_transaction(_common(shared))
            mine.abort_transaction(options.transaction_timeout_s)
    except KlammError as error:
        # Fenced, or committed after all: the next plan finds out.
        log.warning("aborting the transaction of %s failed: %s", options.transactional_id, error)


@contextmanager
def _producing(options: SinkOptions, role: str) -> Iterator[EncodedProducer]:
    """The producer for one step. Refusals say what they mean for a query; a producer that failed is dropped.

    Each step has a producer of its own: Spark plans, writes and commits in processes of their own, too.
    """
    settings = {**options.client, "client.id": f"{options.client.get('client.id', 'klamm-spark')}-{role}"}
    try:
        yield producer(settings)
    except BaseException as error:
        discard_producer(settings)
        code = error.error_code if isinstance(error, BrokerError) else None
        if isinstance(error, ProducerFencedError) or code in _FENCED:
            raise SinkFencedError(
                f"transactionalId {options.transactional_id} is used by a newer query, or the batch took "
                f"longer than kafka.transaction.timeout.ms; this query is fenced: {error}"
            ) from error
        if code == ErrorCode.out_of_order_sequence_number:
            raise ManyWritersError(f"{error}; {_MANY_WRITERS}") from error
        raise
