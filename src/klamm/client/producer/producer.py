"""The producer as a program sees it: `send` gives a future at once, a thread of its own does the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, NoReturn, Self

from klamm.client.assignors.base import GroupMetadata
from klamm.client.calls import Calls, RetryPolicy
from klamm.client.consumer.arguments import committable
from klamm.client.consumer.offsets.positions import Committed
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.batch import Batch
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.partitioner import Partitioner, StickyPartitioner
from klamm.client.producer.sender import Sender
from klamm.client.producer.settings import Serializer, parse
from klamm.client.producer.transactions.calls import TransactionCalls
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.producer.transactions.offsets import group_of
from klamm.client.producer.transactions.states import LEGAL, State
from klamm.client.runtime import ClientThread
from klamm.clock import Clock, SystemClock
from klamm.errors import (
    DeliveryError,
    IllegalStateError,
    KlammError,
    KlammTimeoutError,
    broker_error,
)
from klamm.net.cluster import TopicInfo
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.murmur2 import murmur2

log = logging.getLogger(__name__)
_numbers = count(1)

Headers = Iterable[tuple[str, bytes | None]]


class Producer:
    """Sends records; settings by Kafka's names, as a dictionary or keywords.

    Keys and values are bytes, or text (sent as UTF-8), or whatever `key_serializer` and `value_serializer`
    take. `send` blocks only while metadata is missing or `buffer.memory` is full, `max.block.ms` at most.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        parsed, self._settings = parse(config, settings)
        client_id = parsed.values.text("client.id") or f"klamm-producer-{next(_numbers)}"
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._thread = ClientThread(
            parsed.network(client_id),
            parsed.metadata(allow_auto_topic_creation=True),
            clock=self._clock,
            random=self._random,
            name=client_id,
        )
        core = self._thread.core
        sticky = StickyPartitioner(
            self._settings.batch_size, is_adaptive=self._settings.is_adaptive, random=self._random
        )
        self._accumulator = Accumulator(self._settings, self._clock, self._wake, sticky)
        self._transactions = self._make_transactions()
        self._sender = Sender(
            core,
            self._settings,
            self._accumulator,
            None if self._transactions is None else self._transactions.manager,
        )
        if self._transactions is not None:
            self._transactions.manager.on_state = self._on_transaction_state
        self._metadata = core.metadata
        self._check_fork = self._thread.reactor.check_fork
        self._metadata_changed = threading.Condition()
        self._thread.reactor.on_failure = self._on_thread_failure
        core.components.append(self._sender)
        core.metadata.listen(self._on_metadata)
        self._is_closed = False
        self._thread.start()

    def _make_transactions(self) -> TransactionCalls | None:
        settings = self._settings
        if settings.transactional_id is None:
            return None
        policy = RetryPolicy(settings.max_block_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        core = self._thread.core
        manager = TransactionManager(
            core,
            Calls(core, policy),
            settings.transactional_id,
            settings.transaction_timeout_ms,
            is_two_phase=settings.is_two_phase,
        )
        return TransactionCalls(self._thread, manager, self._accumulator, settings.max_block_ms)

    def _on_thread_failure(self) -> None:
        """The client's thread is dying: nobody is left to deliver what waits."""
        error = IllegalStateError(f"the client's thread has died: {self._thread.reactor.failure!r}")
        error.__cause__ = self._thread.reactor.failure
        self._sender.die(error)

    def _on_transaction_state(self, may_send: bool) -> None:
        self._sender.refuses = not may_send

    def _transactional(self, call: str) -> TransactionCalls:
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        self._check_fork()
        if self._transactions is None:
            raise IllegalStateError(f"{call}() needs a transactional producer: set transactional.id")
        return self._transactions

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Hand over one record; its future says where it went, or why it did not."""
        if self._is_closed or self._sender.refuses:
            self._refuse()
        self._check_fork()
        settings = self._settings
        info = self._metadata.cluster.topics.get(topic)
        due_at_ms = None  # reckoned from now only if something has to be waited for
        if info is None or (partition is not None and partition not in info.partitions):
            due_at_ms = self._clock.now_ms() + settings.max_block_ms
            info = self._topic(topic, partition, due_at_ms)
        if settings.key_serializer is not None or (key is not None and type(key) is not bytes):
            key = _serialized(key, settings.key_serializer, "key")
        if settings.value_serializer is not None or (value is not None and type(value) is not bytes):
            value = _serialized(value, settings.value_serializer, "value")
        if partition is None:
            if settings.partitioner is not None:
                partition = self._own_choice(settings.partitioner, info, key, value)
            elif key is not None and not settings.ignores_keys:
                partition = (murmur2(key) & 0x7FFFFFFF) % len(info.partitions)
        delivery = self._accumulator.append(
            info,
            partition,
            self._clock.timestamp_ms() if timestamp_ms is None else timestamp_ms,
            key,
            value,
            _pairs(headers) if headers else (),
            due_at_ms,
        )
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    produce = send

    def would_wait(self, topic: str, partition: int | None = None) -> bool:
        """Whether `send` would wait now, for metadata or for memory."""
        info = self._thread.core.metadata.cluster.topics.get(topic)
        is_known = info is not None and (partition is None or partition in info.partitions)
        return not is_known or not self._accumulator.has_room

    def _refuse(self) -> NoReturn:
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        if self._sender.fatal is not None:
            raise self._sender.fatal
        self._transactional("send").manager.check("send")
        raise IllegalStateError("the transaction changed its state during send()")

    @staticmethod
    def _own_choice(partitioner: Partitioner, info: TopicInfo, key: bytes | None, value: bytes | None) -> int:
        partitions = len(info.partitions)
        chosen = partitioner(info.name, key, value, partitions)
        if not 0 <= chosen < partitions:
            raise ValueError(f"the partitioner chose {chosen} of {partitions} partitions")
        return chosen

    def _topic(self, name: str, partition: int | None, due_at_ms: int) -> TopicInfo:
        """The topic's metadata, waited for if need be."""
        info = self._thread.core.metadata.cluster.topics.get(name)
        if info is not None and (partition is None or partition in info.partitions):
            return info
        if not name:
            raise ValueError("a topic must have a name")
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition}: expected 0 or more, or None")
        return self._wait_for_topic(name, partition, due_at_ms)

    def _wait_for_topic(self, name: str, partition: int | None, due_at_ms: int) -> TopicInfo:
        metadata = self._thread.core.metadata

        def ask() -> None:
            metadata.want([name])
            metadata.request_update()

        with self._metadata_changed:
            self._thread.ask(ask)
            while True:
                cluster = metadata.cluster
                info = cluster.topics.get(name)
                if info is not None and (partition is None or partition in info.partitions):
                    return info
                code = cluster.errors.get(name)
                if code in (ErrorCode.invalid_topic_exception, ErrorCode.topic_authorization_failed):
                    raise broker_error(code, f"topic {name}")
                left_ms = due_at_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise self._no_topic(info, name, partition)
                self._metadata_changed.wait(left_ms / 1000)

    def _no_topic(self, info: TopicInfo | None, name: str, partition: int | None) -> KlammTimeoutError:
        limit_ms = self._settings.max_block_ms
        if info is not None:
            return KlammTimeoutError(
                f"{name} has partitions 0 to {len(info.partitions) - 1}, no {partition}, "
                f"after max.block.ms={limit_ms}"
            )
        cause = self._thread.core.metadata.error
        code = self._thread.core.metadata.cluster.errors.get(name)
        reason = cause or (broker_error(code, name) if code else "no answer")
        return KlammTimeoutError(f"no metadata of topic {name} within max.block.ms={limit_ms}: {reason}")

    def _on_metadata(self, _cluster: object) -> None:
        with self._metadata_changed:
            self._metadata_changed.notify_all()

    def _wake(self) -> None:
        self._thread.reactor.submit(_nothing)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent before is settled.

        Raises DeliveryError if a record failed whose future nobody looked at, KlammTimeoutError when it
        takes too long.
        """
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        batches = self._accumulator.begin_flush()
        try:
            self._wait_for(batches, timeout)
        finally:
            self._accumulator.end_flush(batches)
        failures = [error for batch in batches for error in batch.unseen_failures()]
        if failures:
            raise DeliveryError(failures)

    def _wait_for(self, batches: list[Batch], timeout: float | None) -> None:
        due_at_ms = None if timeout is None else self._clock.now_ms() + timeout * 1000
        for batch in batches:
            left = None if due_at_ms is None else max(0.0, (due_at_ms - self._clock.now_ms()) / 1000)
            if not batch.wait(left):
                raise KlammTimeoutError(f"not everything was delivered within {timeout} s")

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

        Returns the fatal error that made it close. For those who write a `transaction()` of their own.
        """
        calls = self._transactions
        assert calls is not None
        if not self._is_closed and calls.manager.state in LEGAL["abort_transaction"]:
            try:
                calls.ended()
                self.abort_transaction()
            except KlammError as second:
                error.add_note(f"aborting the transaction failed, too: {second}")
        if calls.manager.state is not State.FATAL_ERROR:
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
        """Wait for all records of the transaction, and make them visible.

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
        """Carry on a transaction that was handed over: send, send offsets, hand over again, or end it.

        Needs a producer with the same `transactional.id`, without `init_transactions`: that would abort it.
        """
        self._transactional("resume_transaction").resume(transaction)

    def _abort_open_transaction(self, timeout: float | None) -> None:
        """On closing: readers of committed records must not wait until the transaction times out."""
        calls = self._transactions
        if calls is None or self._thread.reactor.is_own_thread():
            return
        if calls.manager.state not in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            return
        try:
            calls.ended()
            calls.wait(calls.abort(), timeout)
        except KlammError as error:
            log.warning(
                "closing: aborting the transaction of %s failed: %s", calls.manager.transactional_id, error
            )

    def close(self, timeout: float | None = 30.0) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice.

        An open transaction is aborted.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._abort_open_transaction(timeout)
        batches = self._accumulator.begin_flush()
        self._accumulator.close()
        self._wake()
        on_own_thread = self._thread.reactor.is_own_thread()
        try:
            self._wait_for(batches, 0 if on_own_thread else timeout)
        except KlammTimeoutError:
            error = KlammTimeoutError("the producer was closed before this was delivered")
            if on_own_thread:
                self._sender.fail_all(error)
            else:
                self._thread.ask(lambda: self._sender.fail_all(error)).result()
        self._thread.stop()
        failures = [error for batch in batches for error in batch.unseen_failures()]
        if failures:
            log.error("%d records were not delivered; the first: %s", len(failures), failures[0])


def _nothing() -> None:
    """Waking up is all."""


def _pairs(headers: Headers | Mapping[str, bytes | None]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(headers.items() if isinstance(headers, Mapping) else headers)


def _serialized(value: Any, serializer: Serializer | None, what: str) -> bytes | None:
    if serializer is not None:
        value = serializer(value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {what} is bytes, text or None, not {type(value).__name__}; or set {what}_serializer")
