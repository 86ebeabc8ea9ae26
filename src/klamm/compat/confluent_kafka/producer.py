"""confluent-kafka's Producer on klamm's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from klamm import errors
from klamm.client.message import TIMESTAMP_CREATE_TIME
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.producer import Producer as OwnProducer
from klamm.compat.confluent_kafka.arguments import INT_BITS, header_pairs, raw, seconds, text, whole
from klamm.compat.confluent_kafka.arguments import callback as checked
from klamm.compat.confluent_kafka.error import KafkaError, KafkaException, raised_as_theirs
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.events import Events
from klamm.compat.confluent_kafka.message import Message
from klamm.compat.confluent_kafka.metadata import ClusterMetadata
from klamm.compat.confluent_kafka.outages import Outages
from klamm.compat.confluent_kafka.partitions import TopicPartition, many_partitions
from klamm.compat.confluent_kafka.settings import configuration, flag, own_settings, split_own
from klamm.compat.confluent_kafka.statistics import Emitter, statistics_of_producer
from klamm.compat.confluent_kafka.unsent import Unsent, UnsentRecord
from klamm.compat.settings import ClientKind

Report = Callable[[KafkaError | None, Message], Any]

MAX_MESSAGES: Final = 100_000
PROPAGATION_MS: Final = 30_000


class Producer:
    """confluent-kafka's producer: `produce` never waits, callbacks run in `poll` and `flush`."""

    @raised_as_theirs
    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        made = own_settings(configuration(config, settings), ClientKind.PRODUCER)
        own = split_own(made, ClientKind.PRODUCER)
        self._on_delivery: Report | None = own.get("on_delivery")
        self._only_errors = flag("delivery.report.only.error", own.get("delivery.report.only.error", False))
        self._max_messages = int(own.get("queue.buffering.max.messages", MAX_MESSAGES))
        self._max_bytes = int(made["buffer.memory"])
        self._producer = OwnProducer(made)
        self._clock = self._producer._clock
        self._events = Events(self._clock)
        self._lock = threading.Lock()
        self._open = 0  # records whose callback has not run yet
        self._lost: KafkaError | None = (
            None  # why a record of this transaction did not reach klamm's producer
        )
        self._unsent = Unsent(
            self._producer,
            int(made["message.timeout.ms"]),
            int(own.get("topic.metadata.propagation.max.ms", PROPAGATION_MS)),
        )
        thread = self._producer._thread
        components: list[Any] = [self._unsent]
        on_error = own.get("error_cb")
        if on_error is not None:
            components.append(
                Outages(
                    thread.core,
                    lambda error: self._events.add(partial(on_error, error)),
                    lambda: self._producer._sender.fatal,
                )
            )
        if own.get("stats_cb") is not None and int(own.get("statistics.interval.ms", 0)):
            components.append(
                Emitter(
                    partial(statistics_of_producer, self._producer, self._events, lambda: self._open),
                    lambda text: self._events.add(partial(own["stats_cb"], text)),
                    int(own["statistics.interval.ms"]),
                    self._clock,
                )
            )
        thread.ask(lambda: thread.core.components.extend(components)).result()

    # --- records ----------------------------------------------------------------------------------------

    @raised_as_theirs
    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Report | None = None,
        on_delivery: Report | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Queue one record; `callback(error, message)` is called by `poll` or `flush` with what became of it.

        Raises BufferError when the queue is full (`queue.buffering.max.messages`, `.kbytes`).
        """
        producer = self._producer
        if producer._is_closed or producer._sender.refuses:
            producer._refuse()
        topic, pairs = text(topic, "topic"), header_pairs(headers)
        raw_value, raw_key = raw(value, "value"), raw(key, "key")
        where = None if partition in (None, -1) else whole(partition, "partition", INT_BITS)
        timestamp_ms = None if timestamp is None else whole(timestamp, "timestamp") or None
        report = checked(callback, "callback") or checked(on_delivery, "on_delivery") or self._on_delivery
        now_ms = self._clock.now_ms()
        info = producer._metadata.cluster.topics.get(topic)
        if info is not None and where is not None and where not in info.partitions:
            raise KafkaException(
                KafkaError(
                    CODES["_UNKNOWN_PARTITION"], f"{topic} has {len(info.partitions)} partitions, no {where}"
                )
            )
        sent = partial(self._follow, report, raw_key, raw_value, pairs, now_ms)
        has_to_wait = self._unsent.has(topic) or producer.would_wait(topic, where)
        self._take_place(len(raw_value or b"") + len(raw_key or b"") if has_to_wait else 0)
        try:
            if not has_to_wait:
                sent(producer.send(topic, raw_value, raw_key, pairs, where, timestamp_ms))
                return
            failed = partial(self._failed_before, report, topic, partition, raw_key, raw_value, pairs)
            self._unsent.add(
                UnsentRecord(topic, raw_value, raw_key, pairs, where, timestamp_ms, now_ms, sent, failed)
            )
        except BaseException:
            self._settled()
            raise

    def _take_place(self, size_bytes: int) -> None:
        """Count a record; BufferError if there is no room for it."""
        is_full = size_bytes and self._unsent.size_bytes + size_bytes > self._max_bytes
        with self._lock:
            if is_full or (self._max_messages and self._open >= self._max_messages):
                raise BufferError("Local: Queue full")
            self._open += 1

    def _settled(self) -> None:
        with self._lock:
            self._open -= 1
        self._events.stir()

    def _follow(
        self, report: Report | None, key: Any, value: Any, headers: Any, since_ms: int, delivery: Delivery
    ) -> None:
        if report is None:
            delivery.add_done_callback(lambda _delivery: self._settled())
            return

        def settled(delivery: Delivery) -> None:
            latency_s = (self._clock.now_ms() - since_ms) / 1000
            metadata, failure = delivery.outcome()
            if metadata is None:
                assert failure is not None
                topic, number = delivery.partition
                error = KafkaError.of_delivery(failure)
                self._tell(report, error, Message(topic, number, None, key, value, headers, error))
            elif self._only_errors:
                self._settled()
            else:
                topic, number, offset, timestamp_ms = metadata
                stamp = (TIMESTAMP_CREATE_TIME, timestamp_ms)
                message = Message(
                    topic, number, offset, key, value, headers, timestamp=stamp, latency=latency_s
                )
                self._tell(report, None, message)

        delivery.add_done_callback(settled)

    def _failed_before(
        self,
        report: Report | None,
        topic: str,
        partition: int,
        key: Any,
        value: Any,
        headers: Any,
        error: KafkaError,
    ) -> None:
        self._lost = self._lost or error
        if report is None:
            self._settled()
            return
        self._tell(report, error, Message(topic, partition, None, key, value, headers, error))

    def _tell(self, report: Report, error: KafkaError | None, message: Message) -> None:
        def tell() -> None:
            self._settled()
            report(error, message)

        self._events.add(tell)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Report | None = None,
        on_delivery: Report | None = None,
    ) -> int:
        """Queue several records; how many were. Those that were not have their error as `_error`."""
        if not isinstance(messages, list) or not all(isinstance(item, dict) for item in messages):
            raise TypeError("messages must be a list of dicts")
        count = 0
        for item in messages:
            try:
                self.produce(
                    topic,
                    item.get("value"),
                    item.get("key"),
                    item.get("partition", partition),
                    item.get("callback") or callback or on_delivery,
                    timestamp=item.get("timestamp", 0),
                    headers=item.get("headers"),
                )
                count += 1
            except BufferError as error:
                item["_error"] = KafkaError(CODES["_QUEUE_FULL"], str(error))
            except KafkaException as error:
                item["_error"] = error.args[0]
        return count

    def poll(self, timeout: float | None = None) -> int:
        """Run callbacks, waiting for a first one for at most `timeout` seconds (None, -1: for ever)."""
        self._producer._thread.reactor.check_fork()
        return self._events.serve(seconds(timeout))

    def flush(self, timeout: float | None = None) -> int:
        """Wait until all records are reported, and run their callbacks; how many are left."""
        self._producer._thread.reactor.check_fork()
        accumulator = self._producer._accumulator
        batches = accumulator.begin_flush()  # until the end of it nothing lingers
        try:
            self._events.serve(seconds(timeout), until=lambda: not self._open)
        finally:
            accumulator.end_flush(batches)
        return len(self)

    @raised_as_theirs
    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up records that are not sent yet. What is in flight goes on: klamm cannot call it back."""
        if in_queue:
            self._unsent.purge()
            self._producer.purge()

    @raised_as_theirs
    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        topics = self._producer.list_topics(topic, seconds(timeout))
        return ClusterMetadata(self._producer._metadata.cluster, topics, topic)

    @raised_as_theirs
    def cluster_id(self, timeout: float | None = -1) -> str | None:
        self._producer.list_topics(timeout=seconds(timeout))
        return self._producer._metadata.cluster.cluster_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        raise KafkaException(
            KafkaError(CODES["_NOT_IMPLEMENTED"], "klamm's client takes credentials when it is made")
        )

    # --- transactions -----------------------------------------------------------------------------------

    @raised_as_theirs
    def init_transactions(self, timeout: float | None = None) -> None:
        self._producer.init_transactions(timeout=seconds(timeout))

    @raised_as_theirs
    def begin_transaction(self) -> None:
        self._producer.begin_transaction()
        self._lost = None

    @raised_as_theirs
    def send_offsets_to_transaction(
        self, positions: Iterable[TopicPartition], group_metadata: Any, timeout: float | None = None
    ) -> None:
        listed = many_partitions(positions)
        offsets = {item.own: item.to_commit() for item in listed if item.offset >= 0}
        self._producer.send_offsets_to_transaction(offsets, group_metadata, seconds(timeout))

    @raised_as_theirs
    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what was produced, and commit it. Callbacks run here, too."""
        left_s = seconds(timeout)
        self._events.serve(left_s, until=lambda: not self._unsent.count)
        if self._unsent.count:
            raise errors.KlammTimeoutError(f"not all records were sent within {timeout} s")
        if self._lost is not None:
            text = f"a record was not delivered: {self._lost.str()}"
            raise KafkaException(KafkaError(self._lost.code(), text, txn_requires_abort=True))
        self._producer.commit_transaction(left_s)
        self.poll(0)

    @raised_as_theirs
    def abort_transaction(self, timeout: float | None = None) -> None:
        self._unsent.purge()
        self._producer.abort_transaction(seconds(timeout))
        self.poll(0)

    # --- the end ----------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Abort an open transaction, deliver what is left, run the callbacks, and stop."""
        if not self._producer._is_closed and not self._producer.is_inherited:
            if self._producer._transactions is None:
                self.flush()
            self._unsent.purge()
            self._producer.finish()
            self.poll(0)
        return True

    def __len__(self) -> int:
        """How many records and events wait."""
        return self._open

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        producer = getattr(self, "_producer", None)
        if producer is not None:
            producer.finish(0)  # their programs do not close a producer: they flush it
