"""Exactly once, by a transaction for each task and a decision of the driver: needs no shuffle.

Tasks leave their transactions open. The driver writes the decision, which names them all, in a transaction of
its own; from then on the batch is written, and each task's transaction is committed, by this driver or by the
next one. One that expires in between is lost: its task writes it again, provided that the rows are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.clock import Clock, SystemClock
from klamm.errors import KlammError
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import admin
from klamm.spark.write import decision_log, slots
from klamm.spark.write.decision_log import SlotDecision
from klamm.spark.write.decisions import (
    BatchKey,
    Decision,
    decode_decisions,
    is_decided,
    sink_offsets,
    source_offsets,
)
from klamm.spark.write.digest import RowDigest
from klamm.spark.write.slots import Slot, driver_id, open_slot, slot_id
from klamm.spark.write.steps import Hook, Messages, Task, check_owner, drain, fenced, nowhere, producing
from klamm.spark.write.writing import write_batches

log = logging.getLogger(__name__)

# A decision is made only if every slot has this long to be committed; a tenth of a shorter time-out.
MIN_LEFT_MS: Final = 30_000


class SlotLostError(KlammError):
    """The transaction of a task ended before it was committed; the batch is run again."""


class LostRowsError(KlammError):
    """A batch was decided, some of its rows are missing, and they cannot be written again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a batch; pickled for the tasks."""

    driver: OpenTransaction
    decisions: tuple[Decision, ...]
    last: BatchKey | None = None  # the last batch that was decided by this protocol
    lost: tuple[Slot, ...] = ()  # what of it is missing


@dataclass(frozen=True, slots=True)
class SlotSkipped(WriterCommitMessage):
    """A task of a batch that is written already, as far as this task goes."""

    key: BatchKey
    lost: frozenset[int] = frozenset()  # other tasks must write these again
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class SlotWritten(WriterCommitMessage):
    """What one task wrote; its transaction is open."""

    key: BatchKey
    driver: OpenTransaction
    slot: Slot
    lost: frozenset[int] = frozenset()  # not empty: the batch is decided, and this is a part that was lost

    @property
    def row_count(self) -> int:
        return self.slot.row_count


def plan(options: SinkOptions) -> Plan:
    """Fence older drivers, commit what they decided, abort what they did not: once per batch."""
    assert options.transactional_id is not None
    check_owner(options)
    with producing(options, "plan", transactional_id=driver_id(options.transactional_id)) as mine:
        mine.init_transactions()
        mine.begin_transaction()
        driver = mine.hand_over_transaction()
    committed = sink_offsets(options.client, options.transactional_id)
    decisions = decode_decisions(committed)
    last: SlotDecision | None = None
    lost: tuple[Slot, ...] = ()
    if decision_log.CARRIER in committed:
        last = decision_log.read(options, committed[decision_log.CARRIER].offset)
        lost = _rolled_forward(options, last)
    else:
        decision_log.create_topic(options)
    slots.fence(options, slots.open_numbers(options))
    return Plan(driver, decisions, last.key if last is not None else None, lost)


def _rolled_forward(options: SinkOptions, last: SlotDecision) -> tuple[Slot, ...]:
    """Commit every slot of a decided batch; those that are lost for good."""
    assert options.transactional_id is not None
    transactions = [open_slot(options.transactional_id, slot) for slot in last.slots]
    results = slots.end(options, transactions, commits=True)
    refused = [slot for slot, error in zip(last.slots, results, strict=True) if error is not None]
    if not refused:
        return ()
    # Expired, or committed and used again since. Once nothing of the slot is open its mark says which.
    numbers = [slot.number for slot in refused]
    slots.fence(options, numbers)
    there = decision_log.marked(options, last.key, numbers)
    lost = tuple(slot for slot in refused if slot.number not in there)
    if lost:
        log.warning(
            "batch %d of query %s was decided, but the transactions of tasks %s had ended before they could "
            "be committed: these tasks must write the same rows again",
            last.key.batch_id,
            last.key.query_id,
            _listed(slot.number for slot in lost),
        )
    return lost


def _listed(numbers: Iterator[int] | Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def write(options: SinkOptions, planned: Plan, task: Task, rows: Iterator[Any]) -> SlotSkipped | SlotWritten:
    """One task; tried again, it fences the attempt before."""
    assert task.key is not None
    if not is_decided(planned.decisions, task.key):
        if planned.lost:
            raise _missing(options, planned.last, planned.lost)
        return _written(options, planned, task, task.key, rows, None)
    lost = planned.lost if planned.last == task.key else ()
    mine = next((slot for slot in lost if slot.number == task.number), None)
    if mine is not None:
        return _written(options, planned, task, task.key, rows, mine)
    drain(rows)
    return SlotSkipped(task.key, frozenset(slot.number for slot in lost))


def _written(
    options: SinkOptions, planned: Plan, task: Task, key: BatchKey, rows: Iterator[Any], before: Slot | None
) -> SlotWritten:
    """Write the rows of a task in its slot; `before` is what it wrote when the batch was decided."""
    assert options.transactional_id is not None
    _check_driver(options, planned.driver)
    transactional_id = slot_id(options.transactional_id, task.number)
    lost = frozenset(slot.number for slot in planned.lost)
    with producing(options, "task", transactional_id=transactional_id, is_kept=False) as mine:
        mine.init_transactions()
        mine.begin_transaction()
        digest = RowDigest()
        written = write_batches(digest.over(rows), options, mine, clock=SystemClock(), random=Random())
        found = digest.hexdigest()
        if before is not None and (before.row_count, before.digest) != (written.row_count, found):
            mine.abort_transaction(options.transaction_timeout_s)
            raise LostRowsError(
                f"task {task.number} of batch {key.batch_id} wrote {before.row_count} rows, the batch was "
                f"decided, and then the task's transaction was lost; now it has {written.row_count} rows, "
                f"which are not the same. {_consequence(options)}"
            )
        mine.send_offsets_to_transaction(
            decision_log.mark(key), decision_log.mark_group(options.transactional_id, task.number)
        )
        transaction = mine.hand_over_transaction()
    slot = Slot(
        number=task.number,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        version=transaction.version,
        row_count=written.row_count,
        digest=found,
    )
    return SlotWritten(key, planned.driver, slot, lost)


def _check_driver(options: SinkOptions, driver: OpenTransaction) -> None:
    """Raise if a newer driver has taken over: a slot must not be taken from its tasks."""
    found = admin(options.client).describe_transactions([driver.transactional_id]).unwrap()
    (now,) = found.values()
    if (now.producer_id, now.producer_epoch) != (driver.producer_id, driver.epoch):
        raise fenced(
            options,
            f"{driver.transactional_id} has producer {now.producer_id} with epoch {now.producer_epoch}, "
            f"this query has {driver.producer_id} with epoch {driver.epoch}",
        )


def _missing(options: SinkOptions, last: BatchKey | None, lost: Sequence[Slot]) -> LostRowsError:
    assert last is not None
    return LostRowsError(
        f"batch {last.batch_id} of query {last.query_id} was decided, but {sum(s.row_count for s in lost)} "
        f"rows of its tasks {_listed([s.number for s in lost])} are missing, and this is not that batch run "
        f"again. {_consequence(options)}"
    )


def _consequence(options: SinkOptions) -> str:
    return (
        "Nothing is there twice, but rows are missing: write them by other means, then start the query with "
        f"another transactionalId than {options.transactional_id}"
    )


def commit(
    options: SinkOptions, messages: Messages, *, at: Hook = nowhere, clock: Clock | None = None
) -> None:
    """Decide, then commit the tasks' transactions. `at` is called at each step."""
    assert options.transactional_id is not None
    written = [message for message in messages if isinstance(message, SlotWritten)]
    skipped = [message for message in messages if isinstance(message, SlotSkipped)]
    lost = frozenset[int]().union(
        *(message.lost for message in written), *(message.lost for message in skipped)
    )
    missing = lost - {message.slot.number for message in written}
    if missing:
        raise LostRowsError(
            f"the batch was decided, but the rows of its tasks {_listed(list(missing))} were lost, and no "
            f"task has written them again: the number of tasks has changed. {_consequence(options)}"
        )
    if not written:
        return  # all tasks found the batch written
    at("commit entered")
    if not lost:
        _decide(options, written, at, clock or SystemClock())
    at("after EndTxn")
    transactions = [open_slot(options.transactional_id, message.slot) for message in written]
    results = slots.end(options, transactions, commits=True)
    refused = [error for error in results if error is not None]
    if refused:
        raise SlotLostError(f"the batch is decided, and will be completed when it is run again: {refused[0]}")
    at("slots committed")


def _decide(options: SinkOptions, written: Sequence[SlotWritten], at: Hook, clock: Clock) -> None:
    assert options.transactional_id is not None
    key, driver = written[0].key, written[0].driver
    _check_alive(options, driver, [message.slot for message in written], clock)
    sources = {}
    if options.commit_group and options.checkpoint:
        sources = source_offsets(options.checkpoint, key.batch_id)
    with producing(options, "end", transactional_id=driver.transactional_id) as mine:
        mine.resume_transaction(driver)
        decision = SlotDecision(key, tuple(message.slot for message in written))
        decision_log.append(mine, options, decision, clock)
        if sources and options.commit_group:
            mine.send_offsets_to_transaction(sources, options.commit_group)
        at("before EndTxn")
        mine.commit_transaction(options.transaction_timeout_s)


def _check_alive(
    options: SinkOptions, driver: OpenTransaction, written: Sequence[Slot], clock: Clock
) -> None:
    """Raise unless every slot is open, unfenced, and will stay so for long enough to be committed."""
    assert options.transactional_id is not None
    _check_driver(options, driver)
    by_id = {slot_id(options.transactional_id, slot.number): slot for slot in written}
    if len(by_id) != len(written):
        raise SlotLostError("two tasks report the same Spark partition: switch spark.speculation off")
    found = admin(options.client).describe_transactions(list(by_id)).unwrap()
    now_ms = clock.timestamp_ms()
    for transactional_id, slot in by_id.items():
        now = found[transactional_id]
        if (now.state, now.producer_id, now.producer_epoch) != ("Ongoing", slot.producer_id, slot.epoch):
            raise SlotLostError(
                f"the transaction of {transactional_id} is not open any more (state {now.state}, epoch "
                f"{now.producer_epoch}, written with {slot.epoch}): it exceeded "
                "kafka.transaction.timeout.ms, or the task was started again; the batch is run again"
            )
        left_ms = now.timeout_ms - (now_ms - (now.start_time_ms or now_ms))
        if left_ms < min(MIN_LEFT_MS, now.timeout_ms // 10):
            raise SlotLostError(
                f"the transaction of {transactional_id} expires in {left_ms} ms, too soon to decide the "
                "batch: raise kafka.transaction.timeout.ms, or make batches smaller; the batch is run again"
            )


def abort(options: SinkOptions, messages: Messages, _planned: Plan | None = None) -> None:
    """Drop what the tasks wrote, unless it was decided. Never fences: a newer query may be at work.

    A task that fails has aborted what it wrote.
    """
    assert options.transactional_id is not None
    written = [message for message in messages if isinstance(message, SlotWritten)]
    if not written:
        return  # the next plan aborts what is open
    try:
        if not written[0].lost:
            # The coordinator does not abort what is committed: its answer says whether the batch is decided.
            (decided,) = slots.end(options, [written[0].driver], commits=False)
            if decided is not None:
                log.info(
                    "batch %d is not aborted: it is decided, or fenced: %s", written[0].key.batch_id, decided
                )
                return
        transactions = [open_slot(options.transactional_id, message.slot) for message in written]
        slots.end(options, transactions, commits=False)
    except KlammError as error:
        log.warning("aborting the transactions of %s failed: %s", options.transactional_id, error)
