"""The producer: `send` returns a future at once, a thread of its own delivers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.config import with_given
from klamm.client.consumer.offsets.lookup import all_topics
from klamm.client.interceptors import ProducerRecord, call_all, passed
from klamm.client.key_value_types import SentKey, SentValue, Serializing, SettingsOf
from klamm.client.producer import report as reports
from klamm.client.producer.accumulator import NOW, Accumulator
from klamm.client.producer.batch import Batch
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.delivery_callbacks import OnDelivery, of_delivery
from klamm.client.producer.failures import attach, delivery_error
from klamm.client.producer.named_partitioners import MAKERS
from klamm.client.producer.partitioner import Partitioner, StickyPartitioner
from klamm.client.producer.sender import Sender
from klamm.client.producer.serializing import Headers, HeaderValue, pairs, serialized
from klamm.client.producer.settings import parse
from klamm.client.producer.transactional import TransactionMethods
from klamm.client.producer.transactions.calls import TransactionCalls
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.runtime import ClientThread
from klamm.client.statistics import Statistics
from klamm.client.topic_names import check_topic_name
from klamm.clock import condition_on, patience_of
from klamm.errors import (
    AuthenticationError,
    DeliveryError,
    IllegalStateError,
    KlammTimeoutError,
    broker_error,
)
from klamm.net.cluster import TopicInfo
from klamm.net.reactor import forks
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.murmur2 import murmur2

if TYPE_CHECKING:
    from klamm.client.setting_types import ProducerKeywords

log = logging.getLogger(__name__)
_numbers = count(1)


class Producer(TransactionMethods, Generic[SentKey, SentValue]):
    """Sends records; settings by Kafka's names, as a dictionary or keywords.

    Keys and values are bytes, or text (sent as UTF-8), or whatever `key_serializer` and `value_serializer`
    take. `send` blocks only while metadata is missing or `buffer.memory` is full, `max.block.ms` at most.
    """

    def __init__(
        self,
        config: SettingsOf[SentKey, SentValue] | None = None,
        /,
        *,
        key_serializer: Serializing[SentKey] | None = None,
        value_serializer: Serializing[SentValue] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None:
        given = with_given(settings, key_serializer=key_serializer, value_serializer=value_serializer)
        parsed, self._settings = parse(config, given)
        client_id = parsed.values.text("client.id") or f"klamm-producer-{next(_numbers)}"
        self._client_id = client_id
        self._clock = parsed.clock()
        self._patience = patience_of(self._clock)
        self._random = Random()
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
        self._interceptors = self._settings.interceptors
        named = self._settings.partitioner_name
        self._partitioner: Partitioner | None = (
            self._settings.partitioner if named is None else MAKERS[named](self._random)
        )
        self._accumulator = Accumulator(self._settings, self._clock, self._wake, sticky)
        self._transactions = self._make_transactions()
        self._sender = Sender(
            core,
            self._settings,
            self._accumulator,
            None if self._transactions is None else self._transactions.manager,
            choose=self._choose,
        )
        if self._transactions is not None:
            self._transactions.manager.on_state = self._on_transaction_state
        self._parked = self._accumulator.parked
        self._metadata = core.metadata
        self._check_fork = self._thread.reactor.check_fork
        self._accumulator.is_own_thread = self._thread.reactor.is_own_thread
        self._forks = forks.count
        self._timestamp_ms = self._clock.timestamp_ms
        self._metadata_changed = condition_on(self._clock)
        self._thread.reactor.on_failure = self._on_thread_failure
        core.components.append(self._sender)
        if self._settings.statistics_callback is not None:
            core.components.append(
                Statistics(
                    self._settings.statistics_callback,
                    self._settings.statistics_interval_ms,
                    self.metrics,
                    self._clock.now_ms(),
                )
            )
        core.metadata.listen(self._on_metadata)
        core.metadata.listen_for_refusal(self._on_metadata)
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
        """The client's thread is stopping: fail the records that wait."""
        self._sender.die(self._thread.reactor.ended())
        self._on_metadata(None)  # callers that wait for it see that it does not come

    def _on_transaction_state(self, may_send: bool) -> None:
        self._sender.refuses = not may_send

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self)} records not delivered yet"
        return f"<klamm.Producer {self._client_id}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = self.finish()
        if failed is None:
            return
        if error is None:
            raise failed
        attach(error, failed)

    def send(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        headers: Headers | Mapping[str, HeaderValue] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        *,
        block: bool = True,
    ) -> Delivery:
        """Send one record; its future returns the record's partition and offset, or raises.

        With `block=False` it never waits: a record whose topic is not known yet, as while no broker answers,
        is queued, and ends within `delivery.timeout.ms`. A full `buffer.memory` raises BufferExhaustedError.
        """
        if self._is_closed or self._sender.refuses:
            self._refuse()
        if forks.count != self._forks:
            self._check_fork()
        if self._interceptors:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            topic, value, key, headers, partition, timestamp_ms = passed(
                self._interceptors, "on_send", record
            )
        settings = self._settings
        topics = self._metadata.cluster.topics
        info = topics[topic] if topic in topics else None  # noqa: SIM401 - a proxy's `get` is slow
        due_at_ms = None if block else NOW  # None: reckoned from now if there is something to wait for
        if (
            info is None
            or (partition is not None and partition not in info.partitions)
            or topic in self._parked
        ):
            info, due_at_ms = self._not_known(topic, partition, block=block)
        key_data: Any = key
        value_data: Any = value
        if key is not None and (settings.key_serializer is not None or type(key) is not bytes):
            key_data = serialized(topic, key, settings.key_serializer, "key")
        if value is not None and (settings.value_serializer is not None or type(value) is not bytes):
            value_data = serialized(topic, value, settings.value_serializer, "value")
        if partition is None and (key_data is not None or self._partitioner is not None) and info is not None:
            partition = self._choose(info, key_data, value_data)
        report = None if on_delivery is None else of_delivery(on_delivery, key_data, value_data, headers)
        if timestamp_ms is None:
            timestamp_ms = self._timestamp_ms()
        delivery = None
        if info is not None and not headers:
            if partition is None:
                delivery = self._accumulator.append_keyless(topic, timestamp_ms, key_data, value_data)
            else:
                place = (topic, partition)
                delivery = self._accumulator.append_keyed(place, timestamp_ms, key_data, value_data)
        if delivery is None:
            content = (timestamp_ms, key_data, value_data, pairs(headers) if headers else ())
            if info is None:
                delivery = self._accumulator.park(topic, partition, content)
            else:
                delivery = self._accumulator.append(info, partition, content, due_at_ms)
        if report is not None:
            delivery.add_done_callback(report)
        if self._interceptors:
            delivery.when_settled(partial(_acknowledge, self._interceptors, delivery))
        return delivery

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and the producer is its parent's."""
        return self._thread.reactor.is_inherited

    def _not_known(
        self, topic: str, partition: int | None, *, block: bool
    ) -> tuple[TopicInfo | None, int | None]:
        """The topic, waited for, and until when to wait for memory; no topic: the record is to be parked."""
        if topic in self._parked:  # also if the caller would wait: not to overtake what was sent before
            return None, None
        if not block or self._thread.reactor.is_own_thread():  # a callback would wait for its own thread
            _check_place(topic, partition)
            return None, None
        due_at_ms = self._patience.now_ms() + self._settings.max_block_ms
        return self._topic(topic, partition, due_at_ms), due_at_ms

    def produce(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | Mapping[str, HeaderValue] | None = None,
        *,
        callback: OnDelivery | None = None,
    ) -> Delivery:
        """As `send`, with the arguments of confluent-kafka: partition -1 and timestamp 0 mean "not given"."""
        if on_delivery is not None and callback is not None:
            raise ValueError("give on_delivery or callback, not both")
        return self.send(
            topic,
            value,
            key,
            headers,
            None if partition == -1 else partition,
            timestamp or None,
            on_delivery or callback,
        )

    def poll(self, timeout: float | None = None) -> int:
        """Do nothing: callbacks run on the producer's thread; confluent-kafka needs such a call."""
        return 0

    def __len__(self) -> int:
        """How many records are not delivered yet."""
        return self._accumulator.record_count

    def __bool__(self) -> bool:
        return True  # also one without records

    def would_wait(self, topic: str, partition: int | None = None) -> bool:
        """Whether `send` would wait now, for metadata or for memory."""
        if self.is_inherited:
            return False  # it raises
        info = self._metadata.cluster.topics.get(topic)
        is_known = info is not None and (partition is None or partition in info.partitions)
        return not is_known or not self._accumulator.has_room

    def _refuse(self) -> NoReturn:
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        if self._sender.fatal is not None:
            raise self._sender.fatal
        self._transactional("send").manager.check("send")
        raise IllegalStateError("the transaction changed its state during send()")

    def _choose(self, info: TopicInfo, key: bytes | None, value: bytes | None) -> int | None:
        """The partition of a record for which none was given; None: any."""
        if self._partitioner is not None:
            return self._own_choice(self._partitioner, info, key, value)
        if key is not None and not self._settings.ignores_keys:
            return (murmur2(key) & 0x7FFFFFFF) % len(info.partitions)
        return None

    @staticmethod
    def _own_choice(
        partitioner: Partitioner, info: TopicInfo, key: bytes | None, value: bytes | None
    ) -> int | None:
        partitions = len(info.partitions)
        chosen = partitioner(info.name, key, value, partitions)
        if chosen is not None and not (isinstance(chosen, int) and 0 <= chosen < partitions):
            raise ValueError(
                f"the partitioner returned {chosen!r} for {info.name}, which has {partitions} partitions"
            )
        return chosen

    def _topic(self, name: str, partition: int | None, due_at_ms: int) -> TopicInfo:
        """The topic's metadata, waited for if need be."""
        info = self._thread.core.metadata.cluster.topics.get(name)
        if info is not None and (partition is None or partition in info.partitions):
            return info
        _check_place(name, partition)
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
                if self._is_closed or self._sender.fatal is not None:
                    self._refuse()
                if isinstance(metadata.error, AuthenticationError):
                    raise metadata.error
                left_ms = due_at_ms - self._patience.now_ms()
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

    def health(self) -> reports.ProducerHealth:
        """Whether the cluster can be reached and records are being delivered; from any thread."""
        ended = self._thread.failure
        return reports.health(
            self._thread.core, self._accumulator, self._sender, ended, is_closed=self._is_closed
        )

    def metrics(self) -> dict[str, float]:
        """Counters since the beginning, and what is buffered; from any thread."""
        return reports.metrics(self._accumulator, self._sender)

    def _enter_to_wait(self, call: str) -> None:
        self._enter()
        if self._thread.reactor.is_own_thread():
            raise IllegalStateError(f"{call}() in a callback would wait for that callback: call it elsewhere")

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; waits for its metadata, `max.block.ms` by default."""
        self._enter_to_wait("partitions_for")
        limit_ms = self._settings.max_block_ms if timeout is None else round(timeout * 1000)
        info = self._topic(topic, None, self._patience.now_ms() + limit_ms)
        return [TopicPartition(topic, number) for number in sorted(info.partitions)]

    def list_topics(self, topic: str | None = None, timeout: float | None = None) -> dict[str, TopicInfo]:
        """All topics, or one, with their partitions; a topic that does not exist is left out, not created."""
        self._enter_to_wait("list_topics")
        settings = self._settings
        limit_ms = settings.max_block_ms if timeout is None else round(timeout * 1000)
        policy = RetryPolicy(limit_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        calls = Calls(self._thread.core, policy)
        names = None if topic is None else [topic]
        return self._thread.run(lambda: all_topics(calls, names, calls.deadline("listing topics"))).result()

    def purge(self) -> int:
        """Give up all records that are not in flight, with PurgedError; how many."""
        self._enter()
        if self._thread.reactor.is_own_thread():
            return self._sender.purge()
        return self._thread.ask(self._sender.purge).result()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent before is settled and its callbacks have run.

        Raises DeliveryError if a record failed whose future was not read, KlammTimeoutError when it
        takes too long.
        """
        self._enter_to_wait("flush")
        batches = self._accumulator.begin_flush()
        try:
            self._wait_for(batches, timeout)
        finally:
            self._accumulator.end_flush(batches)
        failed = delivery_error(batches, self._accumulator.take_dropped_failures())
        if failed is not None:
            raise failed

    def _wait_for(self, batches: list[Batch], timeout: float | None) -> None:
        due_at_ms = None if timeout is None else self._patience.now_ms() + timeout * 1000
        for batch in batches:
            left = None if due_at_ms is None else max(0.0, (due_at_ms - self._patience.now_ms()) / 1000)
            if not batch.wait_reported(left):
                raise KlammTimeoutError(f"not everything was delivered and reported within {timeout} s")

    def close(self, timeout: float | None = 30.0) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice.

        Raises DeliveryError, with the producer closed, if records were not delivered and neither a future nor
        a callback has reported that. An open transaction is aborted, unless `timeout` is 0.
        """
        failed = self.finish(timeout)
        if failed is not None:
            raise failed

    def finish(self, timeout: float | None = 30.0) -> DeliveryError | None:
        """As `close`, but return the error that it would raise."""
        if self._is_closed:
            return None
        self._is_closed = True
        if self.is_inherited:
            return None  # records and transaction are those of the parent process, which goes on with them
        self._on_metadata(None)
        self._abort_open_transaction(timeout)
        batches = self._accumulator.begin_flush()
        self._accumulator.close()
        self._wake()
        on_own_thread = self._thread.reactor.is_own_thread()
        try:
            self._wait_for(batches, 0 if on_own_thread else timeout)
        except KlammTimeoutError:
            why = f"the producer was closed with timeout={0 if on_own_thread else timeout}"
            if on_own_thread:
                self._sender.abandon_all(why)
            else:
                self._thread.ask(lambda: self._sender.abandon_all(why)).result()
        self._thread.stop()
        failed = delivery_error(batches, self._accumulator.take_dropped_failures())
        if failed is not None and (self._transactions is not None or on_own_thread):
            # Of a transaction its commit reports what failed; on its own thread it cannot be caught.
            log.error("closing the producer: %s", failed)
            return None
        return failed


def _acknowledge(interceptors: Sequence[Any], delivery: Delivery) -> None:
    metadata, error = delivery.outcome()
    call_all(interceptors, "on_acknowledgement", metadata, error, caught=BaseException)


def _check_place(topic: str, partition: int | None) -> None:
    check_topic_name(topic)
    if partition is not None and partition < 0:
        raise ValueError(f"partition {partition}: expected 0 or more, or None")


def _nothing() -> None:
    """Waking up is all."""
