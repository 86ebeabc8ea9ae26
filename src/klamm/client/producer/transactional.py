"""The producer's transactions, as a program calls them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Self

from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.client.consumer.arguments import committable
from klamm.client.producer.settings import ProducerSettings
from klamm.client.producer.transactions.calls import TransactionCalls
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.client.producer.transactions.offsets import group_of
from klamm.client.producer.transactions.states import LEGAL, ProducerPhase
from klamm.client.runtime import ClientThread
from klamm.errors import IllegalStateError, KlammError
from klamm.protocol.types import TopicPartition

_NEEDS_ID: Final = "{}() needs a transactional producer: set transactional.id"

log = logging.getLogger(__name__)


class TransactionMethods:
    """The part of a producer that needs `transactional.id`."""

    _transactions: TransactionCalls | None
    _settings: ProducerSettings
    _thread: ClientThread
    _is_closed: bool

    def close(self, timeout: float | None = 30.0) -> None:
        """Stop; the producer has its own."""
        raise NotImplementedError

    def _enter(self) -> None:
        """Every call but `send`, which has a faster way, and those that only look."""
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        self._thread.check()

    def _transactional(self, call: str) -> TransactionCalls:
        self._enter()
        if self._transactions is None:
            raise IllegalStateError(_NEEDS_ID.format(call))
        return self._transactions

    def init_transactions(self, *, keep_prepared: bool = False, timeout: float | None = None) -> None:
        """Get this `transactional.id` for this producer, before its first transaction.

        Older producers with the same id are fenced, and a transaction they left open is aborted. With
        `keep_prepared` (two-phase commit) a prepared one is kept, for `complete_transaction`.
        """
        calls = self._transactional("init_transactions")
        calls.wait(calls.initialize(keep_prepared=keep_prepared), timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on becomes visible together, or not at all."""
        self._transactional("begin_transaction").begin()

    begin = begin_transaction

    def transaction(self) -> AbstractContextManager[Self]:
        """`with producer.transaction():` commits at the end, and aborts on an exception.

        A fatal error, such as being fenced, closes the producer.
        """
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            fatal = self.give_up_transaction(error)
            if fatal is not None and isinstance(error, KlammError) and fatal is not error:
                raise fatal from error  # as a zombie learns it: first its batch is refused, then its abort
            raise

    def give_up_transaction(self, error: BaseException) -> KlammError | None:
        """Abort the transaction after an error, or close the producer if that is all that is left.

        Returns the fatal error that made it close. For code with a `transaction()` of its own.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"error is the exception that ended the transaction, not {error!r}")
        calls = self._transactions
        if calls is None:
            raise IllegalStateError(_NEEDS_ID.format("give_up_transaction"))
        if not self._is_closed and calls.manager.state in LEGAL["abort_transaction"]:
            try:
                calls.ended()
                self.abort_transaction()
            except KlammError as second:
                error.add_note(f"aborting the transaction failed, too: {second}")
        if calls.manager.state is not ProducerPhase.FATAL_ERROR:
            return None
        self.close(0)
        return calls.manager.error

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | Committed],
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction: of each partition, the next record to read.

        Pass `consumer.group_metadata()`: it keeps a consumer that has lost its partitions from committing. A
        group id alone is accepted, and not checked.
        """
        calls = self._transactional("send_offsets_to_transaction")
        wanted, group = committable(offsets), group_of(group_metadata)
        calls.manager.check("send_offsets_to_transaction")
        if wanted:
            calls.wait(calls.send_offsets(wanted, group), timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records of the transaction, then commit it.

        Raises what kept a record from being delivered; then abort. After KlammTimeoutError call it again.
        """
        calls = self._transactional("commit_transaction")
        calls.wait(calls.commit(), timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop all records and offsets of the transaction."""
        calls = self._transactional("abort_transaction")
        calls.wait(calls.abort(), timeout)

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """The first half of a two-phase commit: everything is written, nothing is decided.

        Store the result with your decision. After a crash `init_transactions(keep_prepared=True)` and
        `complete_transaction` with the stored value carry the decision out.
        """
        calls = self._transactional("prepare_transaction")
        if not self._settings.is_two_phase:
            raise IllegalStateError("prepare_transaction() needs transaction.two.phase.commit.enable=true")
        return calls.wait(calls.prepare(), timeout)

    def complete_transaction(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one; abort it if it is another."""
        calls = self._transactional("complete_transaction")
        calls.wait(calls.complete(prepared), timeout)

    def hand_over_transaction(self, timeout: float | None = None) -> OpenTransaction:
        """Wait for all records, and give the open transaction as a value that other processes can resume.

        Closing this producer afterwards does not abort it.
        """
        calls = self._transactional("hand_over_transaction")
        return calls.wait(calls.hand_over(), timeout)

    def resume_transaction(self, transaction: OpenTransaction) -> None:
        """Continue a transaction that another process handed over: send, add offsets, hand over or end it.

        Needs a producer with the same `transactional.id`, without `init_transactions`: that would abort it.
        """
        if not isinstance(transaction, OpenTransaction):
            raise TypeError(f"transaction is what hand_over_transaction() gave, not {transaction!r}")
        self._transactional("resume_transaction").resume(transaction)

    def _abort_open_transaction(self, timeout: float | None) -> None:
        """On closing: readers of committed records must not wait until the transaction times out."""
        calls = self._transactions
        if calls is None or self._thread.reactor.is_own_thread():
            return
        if calls.manager.state not in (ProducerPhase.IN_TRANSACTION, ProducerPhase.ABORTABLE_ERROR):
            return
        if timeout is not None and timeout <= 0:
            return  # as in Java: nothing is sent any more, and the coordinator aborts it in time
        try:
            calls.ended()
            calls.wait(calls.abort(), timeout)
        except KlammError as error:
            log.warning(
                "closing: aborting the transaction of %s failed: %s", calls.manager.transactional_id, error
            )
