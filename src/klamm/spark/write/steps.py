"""What both protocols of the exactly-once sink have in common: their steps, messages and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from klamm.client.producer.encoded import EncodedProducer
from klamm.errors import BrokerError, KlammError, KlammTimeoutError, ProducerFencedError
from klamm.protocol.errors import ErrorCode
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import admin, discard_producer, producer
from klamm.spark.write.decisions import (
    BatchKey,
    Decision,
    decode_decisions,
    has_ended,
    last_batch,
    running_batch,
    sink_group,
    source_offsets,
)

FENCED: Final = (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch)
MANY_WRITERS: Final = (
    "two executors wrote to one partition: let each partition have one task, with "
    "klamm.spark.by_partition(df, PARTITIONS) before writing"
)
OWN_ABORT_S: Final = 5.0  # how long a task that fails waits for the abort of its own transaction
SETTLING_S: Final = 2.0  # how long the markers of a transaction are waited for
Hook = Callable[[str], None]
Messages = Sequence[WriterCommitMessage | None]


class SinkFencedError(KlammError):
    """A newer query, or a newer run of this one, uses the transactional id."""


class CheckpointBehindError(KlammError):
    """The sink has batches of this query that its checkpoint has not: it was put back to an earlier state."""


class ManyWritersError(KlammError):
    """Two tasks wrote to one partition, which one transaction cannot hold apart."""


class Task(NamedTuple):
    """One attempt of one task."""

    key: BatchKey | None  # None: a batch write that cannot be recognised
    number: int
    attempt: int = 0
    folder: Path | None = None  # that the tasks of this executor share


class SinkProtocol(Protocol):
    """How a batch is planned on the driver, written by tasks, and committed or aborted."""

    def plan(self, options: SinkOptions) -> Any: ...
    def write(
        self, options: SinkOptions, planned: Any, task: Task, rows: Iterator[Any]
    ) -> WriterCommitMessage: ...
    def commit(self, options: SinkOptions, messages: Messages, *, at: Hook = ...) -> None: ...
    def abort(self, options: SinkOptions, messages: Messages, planned: Any = ..., /) -> None: ...


def nowhere(_place: str) -> None:
    """The hook that does nothing."""


def drain(rows: Iterable[Any]) -> None:
    """Read all rows of a task that writes none: Spark waits for a task to read its input."""
    for _ in rows:
        pass


def fenced(options: SinkOptions, error: object) -> SinkFencedError:
    return SinkFencedError(
        f"transactionalId {options.transactional_id} is used by a newer query, or the batch exceeded "
        f"kafka.transaction.timeout.ms; this query is fenced: {error}"
    )


def check_owner(options: SinkOptions) -> None:
    """Raise if another query has written with the transactional id since this one, or this one later batches.

    Planning a batch fences other users of the id: an older query must stop before it fences the newer one.
    """
    own = None if options.checkpoint is None else running_batch(options.checkpoint)
    if own is None:
        return
    assert options.transactional_id is not None
    group = sink_group(options.transactional_id)
    found = decode_decisions(admin(options.client).list_group_offsets(group))
    _check_not_behind(options, own, found)
    if own.batch_id == 0 or not _are_others(found, own):
        return  # a query that begins takes the id over
    # The decision of this query's own last batch may become visible a moment after its commit.
    with suppress(KlammTimeoutError):
        stable = admin(options.client).list_group_offsets(group, require_stable=True, timeout=SETTLING_S)
        found = decode_decisions(stable)
    if _are_others(found, own):
        raise fenced(options, f"the last batch is of query {found[0].query_id}, this is {own.query_id}")


def _check_not_behind(options: SinkOptions, own: BatchKey, found: Sequence[Decision]) -> None:
    """A batch with the number of one that was written would be taken for that one, and be left out."""
    last = last_batch(found, own.query_id)
    if last < own.batch_id:
        return
    behind = last > own.batch_id
    if options.commit_group and options.checkpoint and not has_ended(options.checkpoint, own.batch_id):
        ends = source_offsets(options.checkpoint, own.batch_id)
        # Their marker may come after that of the decision: both are of one transaction, in two logs.
        written = admin(options.client).list_group_offsets(
            options.commit_group, sorted(ends), require_stable=True
        )
        behind = behind or any(written[key].offset != end for key, end in ends.items() if key in written)
    if behind:
        raise CheckpointBehindError(
            f"batch {last} of query {own.query_id} is written, and checkpoint {options.checkpoint} plans "
            f"batch {own.batch_id} without knowing of it: it was put back to an earlier state"
        )


def _are_others(found: Sequence[Decision], own: BatchKey) -> bool:
    return bool(found) and all(decision.query_id != own.query_id for decision in found)


@contextmanager
def producing(
    options: SinkOptions, role: str, *, transactional_id: str | None = None, is_kept: bool = True
) -> Iterator[EncodedProducer]:
    """The producer for one step. Errors are translated for a query; a failed producer is dropped.

    Each step has its own producer, because Spark plans, writes and commits in different processes.
    `is_kept` is for the next batch: the same process will then use the same transactional id. One that is not
    kept is alone in its transaction, and aborts it when it fails; what several share, the driver aborts.
    """
    settings = {**options.client, "client.id": f"{options.client.get('client.id', 'klamm-spark')}-{role}"}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    try:
        yield producer(settings)
    except BaseException as error:
        discard_producer(settings, abort_s=0 if is_kept else OWN_ABORT_S)
        code = error.error_code if isinstance(error, BrokerError) else None
        if isinstance(error, ProducerFencedError) or code in FENCED:
            raise fenced(options, error) from error
        if code == ErrorCode.out_of_order_sequence_number:
            raise ManyWritersError(f"{error}; {MANY_WRITERS}") from error
        if isinstance(error, KlammTimeoutError):
            raise KlammTimeoutError(
                f"no answer from {options.client['bootstrap.servers']}: {error}"
            ) from error
        raise
    if not is_kept:
        discard_producer(settings)
