"""A worker of the exactly-once runs: a process that works until it is killed, or the file `stop` is there.

python -m faults.exactly_once.worker ROLE LIBRARY NAME BOOTSTRAP FOLDER SEED

It may be killed at any moment and started again under the same name: it goes on from its journal.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import klamm
from faults.exactly_once.journal import Journal, read_journal
from faults.exactly_once.library import (
    IN,
    OUT,
    PARTITIONS,
    PATIENCE_S,
    TRANSACTION_TIMEOUT_MS,
    Member,
    Transactional,
    library,
)
from faults.exactly_once.with_klamm import KlammProducer

TWO_PHASE: Final = {"transaction.two.phase.commit.enable": True}
PAUSE_S: Final = 0.02


class Worker:
    """What all roles have."""

    def __init__(self, library_name: str, name: str, bootstrap: str, folder: Path, seed: int) -> None:
        self.library = library(library_name)
        self.name = name
        self.bootstrap = bootstrap
        self.folder = folder
        self.random = Random(f"{seed} {name} {os.getpid()}")
        self.path = folder / f"{name}.journal"
        self.journal = Journal(self.path)
        self._numbers = count()

    @property
    def is_stopped(self) -> bool:
        return (self.folder / "stop").exists()

    def next_transaction(self) -> str:
        """A name that no other transaction has; a process id is not used twice in so short a time."""
        return f"{self.name}/{os.getpid()}/{next(self._numbers)}"

    def values(self, transaction: str, part: str = "") -> list[str]:
        values = [f"{transaction}{part}#{number}" for number in range(self.random.randint(1, 8))]
        self.journal.sends(transaction, values)
        return values

    def send(self, producer: Transactional, values: list[str]) -> None:
        for value in values:
            producer.send(OUT, self.random.randrange(PARTITIONS), value)

    def failed(self, error: Exception) -> None:
        self.journal.write(note=f"{time.strftime('%X')} {type(error).__name__}: {error}")
        time.sleep(PAUSE_S)

    def end(self, producer: Transactional, transaction: str, how: str) -> None:
        self.journal.ends(transaction, how)
        if how == "commit":
            producer.commit()
        else:
            producer.abort()
        if how == "abort" or producer.acknowledges_commits:
            self.journal.ended(transaction, how)


def produce(worker: Worker) -> None:
    """Transactions of a few records; most are committed."""
    producer: Transactional | None = None
    while not worker.is_stopped:
        transaction = ""
        try:
            producer = producer or worker.library.make_producer(worker.bootstrap, worker.name)
            producer.begin()
            transaction = worker.next_transaction()
            worker.send(producer, worker.values(transaction))
            worker.end(producer, transaction, "commit" if worker.random.random() < 0.75 else "abort")
            time.sleep(worker.random.uniform(0, PAUSE_S))
        except Exception as error:
            worker.failed(error)
            producer = after_failure(worker, producer, transaction, error)


def after_failure(
    worker: Worker, producer: Transactional | None, transaction: str, error: Exception
) -> Transactional | None:
    """Abort as the library's error says, or start over with a new producer."""
    if producer is None:
        return None
    if transaction and isinstance(error, klamm.KlammError) and error.is_abortable:
        try:
            worker.end(producer, transaction, "abort")
        except klamm.KlammError as second:
            worker.failed(second)
        else:
            return producer
    producer.close()
    return None


def copy(worker: Worker) -> None:
    """Consume, transform, produce: every record of one topic to another, with its offset."""
    producer: Transactional | None = None
    member: Member | None = None
    while not worker.is_stopped:
        transaction = ""
        try:
            producer = producer or worker.library.make_producer(worker.bootstrap, worker.name)
            member = member or worker.library.make_member(worker.bootstrap, worker.name, IN)
            polled = member.poll()
            if not polled:
                continue
            producer.begin()
            transaction = worker.next_transaction()
            worker.journal.sends(transaction, [])  # what it copies is known by the offsets
            for each in polled:
                producer.send(worker.name, each.partition, each.value)
            # In the order of each partition, so that the last one counts.
            producer.send_offsets({each.partition: each.offset + 1 for each in polled}, member)
            if worker.random.random() < 0.9:
                worker.end(producer, transaction, "commit")
                continue
            worker.end(producer, transaction, "abort")
            member.rewind()
        except Exception as error:
            worker.failed(error)
            producer = after_failure(worker, producer, transaction, error)
            if member is not None:
                member.close()  # the next one begins at what is committed
            member = None
    if member is not None:
        member.close()


def decide(worker: Worker) -> None:
    """Two-phase commit: prepared, decided in the journal, carried out, by the next process if need be."""
    while not worker.is_stopped:
        try:
            run_two_phase(worker)
        except klamm.KlammError as error:
            worker.failed(error)


def run_two_phase(worker: Worker) -> None:
    # Without init_transactions, which the constructor of the other roles calls: it would abort.
    producer = klamm.Producer(
        {"bootstrap.servers": worker.bootstrap, "transactional.id": worker.name, **TWO_PHASE}
    )
    try:
        producer.init_transactions(keep_prepared=True, timeout=PATIENCE_S)
        left = last_decision(worker)
        # What was prepared and not decided is aborted: no transaction has this identity.
        prepared = klamm.PreparedTransaction(0, 32_000)
        if left is not None:
            prepared = klamm.PreparedTransaction.parse(left.prepared)
        # Nothing is prepared any more if it was carried out, and only the acknowledgement is missing.
        with suppress(klamm.IllegalStateError):
            producer.complete_transaction(prepared, timeout=PATIENCE_S)
        if left is not None:
            worker.journal.write(txn=left.transaction, carried_out=True)
        while not worker.is_stopped:
            producer.begin_transaction()
            transaction = worker.next_transaction()
            for value in worker.values(transaction):
                producer.send(OUT, value.encode(), partition=worker.random.randrange(PARTITIONS))
            prepared = producer.prepare_transaction(timeout=PATIENCE_S)
            how = "commit" if worker.random.random() < 0.75 else "abort"
            worker.journal.write(txn=transaction, decided=how, prepared=str(prepared))
            if how == "commit":
                producer.commit_transaction(timeout=PATIENCE_S)
            else:
                producer.abort_transaction(timeout=PATIENCE_S)
            worker.journal.write(txn=transaction, carried_out=True)
            time.sleep(worker.random.uniform(0, PAUSE_S))
    finally:
        producer.close(0)


class Decision(NamedTuple):
    """A commit that was decided and perhaps not carried out."""

    transaction: str
    prepared: str


def last_decision(worker: Worker) -> Decision | None:
    """The one that the last process left behind."""
    left: Decision | None = None
    for line in read_journal(worker.path):
        if line.get("decided") == "commit":
            left = Decision(line["txn"], line["prepared"])
        elif "decided" in line or "carried_out" in line:
            left = None
    return left


def give(worker: Worker) -> None:
    """Begin transactions and hand them to another process, which goes on and ends them."""
    while not worker.is_stopped:
        producer: KlammProducer | None = None
        try:
            producer = KlammProducer(worker.bootstrap, worker.name)
            producer.begin()
            transaction = worker.next_transaction()
            worker.send(producer, worker.values(transaction, "/given"))
            handed_over = producer.raw.hand_over_transaction(timeout=PATIENCE_S)
            leave_for(worker.folder / "handed-over", pickle.dumps((transaction, handed_over)))
        except klamm.KlammError as error:
            worker.failed(error)
        else:
            due_at = time.monotonic() + 1.0
            places = (worker.folder / "handed-over", worker.folder / "taken")
            while any(path.exists() for path in places) and time.monotonic() < due_at:
                time.sleep(0.005)
        finally:
            if producer is not None:
                producer.close()


def take(worker: Worker) -> None:
    """The other process. What it took is taken: if it is killed, the next one does not continue it."""
    path = worker.folder / "taken"
    path.unlink(missing_ok=True)
    while not worker.is_stopped:
        try:
            (worker.folder / "handed-over").rename(path)
        except FileNotFoundError:
            time.sleep(0.005)
            continue
        transaction, handed_over = pickle.loads(path.read_bytes())
        producer = klamm.Producer(
            {
                "bootstrap.servers": worker.bootstrap,
                "transactional.id": handed_over.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )
        try:
            producer.resume_transaction(handed_over)
            for value in worker.values(transaction, f"/taken by {os.getpid()}"):
                producer.send(OUT, value.encode(), partition=worker.random.randrange(PARTITIONS))
            how = "commit" if worker.random.random() < 0.75 else "abort"
            worker.journal.ends(transaction, how)
            if how == "commit":
                producer.commit_transaction(timeout=PATIENCE_S)
            else:
                producer.abort_transaction(timeout=PATIENCE_S)
            worker.journal.ended(transaction, how)
        except klamm.KlammError as error:
            worker.failed(error)
        finally:
            path.unlink(missing_ok=True)
            producer.close(0)


def leave_for(path: Path, content: bytes) -> None:
    aside = path.with_suffix(".new")
    aside.write_bytes(content)
    aside.rename(path)


def read(worker: Worker) -> None:
    """A read_committed reader without a group: it goes on behind the last record in its journal."""
    next_offsets = dict.fromkeys(range(PARTITIONS), 0)
    for line in read_journal(worker.path):
        for partition, offset, _ in line.get("seen", ()):
            next_offsets[partition] = offset + 1
    reader = worker.library.make_reader(worker.bootstrap, OUT, next_offsets)
    while not worker.is_stopped:
        seen = reader.poll()
        if seen:
            worker.journal.write(seen=seen)


ROLES: Final[dict[str, Callable[[Worker], None]]] = {
    "produce": produce,
    "copy": copy,
    "decide": decide,
    "give": give,
    "take": take,
    "read": read,
}


def main() -> None:
    role, library_name, name, bootstrap, folder, seed = sys.argv[1:]
    worker = Worker(library_name, name, bootstrap, Path(folder), int(seed))
    try:
        ROLES[role](worker)
    except BaseException:
        worker.journal.write(note=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
