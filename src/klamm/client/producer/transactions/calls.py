"""The calls of a program, as futures: what the blocking and the asyncio producer have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.batch import Batch
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.producer.transactions.states import ProducerPhase
from klamm.client.runtime import ClientThread
from klamm.errors import IllegalStateError, KlammTimeoutError
from klamm.net.tasks import Promise
from klamm.protocol.types import TopicPartition

T = TypeVar("T")


class TransactionCalls:
    """Starts each call on the client's thread. After a time-out the same call resumes it, no other may."""

    def __init__(
        self, thread: ClientThread, manager: TransactionManager, accumulator: Accumulator, max_block_ms: int
    ) -> None:
        self.manager = manager
        self.max_block_ms = max_block_ms
        self._thread = thread
        self._accumulator = accumulator
        self._pending: tuple[str, Future[Any]] | None = None

    def initialize(self, *, keep_prepared: bool) -> Future[None]:
        return self._start(
            "init_transactions",
            ProducerPhase.INITIALIZING,
            lambda: self.manager.initialize(keep_prepared=keep_prepared),
        )

    def begin(self) -> None:
        self._check_pending("begin_transaction")
        self.manager.begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> Future[None]:
        return self._start(
            "send_offsets_to_transaction", None, lambda: self.manager.send_offsets(offsets, group)
        )

    def commit(self) -> Future[None]:
        return self._start_flushing("commit_transaction", ProducerPhase.COMMITTING, self.manager.commit)

    def abort(self) -> Future[None]:
        return self._start_flushing("abort_transaction", ProducerPhase.ABORTING, self.manager.abort)

    def prepare(self) -> Future[PreparedTransaction]:
        return self._start_flushing("prepare_transaction", None, self.manager.prepare)

    def complete(self, prepared: PreparedTransaction) -> Future[None]:
        """Commit if this is the prepared transaction, abort if it is another."""
        self._check_pending("complete_transaction", "commit_transaction", "abort_transaction")
        if self._pending is not None:
            return self._pending[1]
        self.manager.check("complete_transaction")
        return self.commit() if prepared == self.manager.prepared else self.abort()

    def hand_over(self) -> Future[OpenTransaction]:
        return self._start_flushing("hand_over_transaction", None, self.manager.hand_over)

    def resume(self, transaction: OpenTransaction) -> None:
        self._check_pending("resume_transaction")
        self.manager.resume(transaction)

    def _check_pending(self, *calls: str) -> None:
        if self._pending is not None and self._pending[0] not in calls:
            name = self._pending[0]
            raise IllegalStateError(f"{calls[0]}(): {name}() has not ended; call {name}() again first")

    def _start(
        self,
        call: str,
        state: ProducerPhase | None,
        make: Callable[[], Coroutine[Promise[Any], None, T]],
    ) -> Future[T]:
        self._check_pending(call)
        if self._pending is not None:
            return self._pending[1]
        if state is None:
            self.manager.check(call)
        else:
            self.manager.enter(state, call)
        future = self._thread.run(make)
        self._pending = (call, future)
        return future

    def _start_flushing(
        self,
        call: str,
        state: ProducerPhase | None,
        make: Callable[[Sequence[Batch]], Coroutine[Promise[Any], None, T]],
    ) -> Future[T]:
        """As `_start`, for calls that wait for all records: nothing lingers meanwhile."""

        async def run() -> T:
            batches = self._accumulator.begin_flush()
            try:
                return await make(batches)
            finally:
                self._accumulator.end_flush(batches)
                for batch in batches:
                    batch.mark_examined()  # the call reports what failed

        return self._start(call, state, run)

    def wait(self, future: Future[T], timeout: float | None = None) -> T:
        """The result of a call; KlammTimeoutError after `max.block.ms`."""
        limit = self.max_block_ms / 1000 if timeout is None else timeout
        try:
            result = future.result(limit)
        except TimeoutError as error:
            if not future.done():
                raise self.too_late(limit) from error
            self._pending = None  # the call itself failed with a time-out
            raise
        except BaseException:
            if future.done():  # not if the program was interrupted while it waited
                self._pending = None
            raise
        self._pending = None
        return result

    def ended(self) -> None:
        """The result of the call was taken."""
        self._pending = None

    def too_late(self, limit: float) -> KlammTimeoutError:
        call = self._pending[0] if self._pending else "the call"
        reason = (
            f"; last error: {self.manager.requests.last_error}" if self.manager.requests.last_error else ""
        )
        return KlammTimeoutError(
            f"{call}() timed out after {limit:g} s{reason}; it continues: call {call}() again to wait for it"
        )
