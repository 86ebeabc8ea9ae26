"""Sending batches to their leaders, in order, until each is delivered or given up."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from klamm.client.producer.accumulator import Accumulator, Choose
from klamm.client.producer.batch import Batch
from klamm.client.producer.counts import Counts
from klamm.client.producer.delivery import Delivery, call, describe
from klamm.client.producer.parked import UNPLACED
from klamm.client.producer.produce_errors import FATAL, NEEDS_METADATA, RETRIABLE, TOPIC_REFUSED, VERIFYING
from klamm.client.producer.sequences import Sequences
from klamm.client.producer.settings import ProducerSettings
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.runtime import Core
from klamm.errors import (
    BrokerError,
    KlammError,
    KlammTimeoutError,
    PurgedError,
    UnsupportedVersionError,
    broker_error,
)
from klamm.net.network import Node, backoff_ms
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from klamm.protocol.types import ZERO_ID, TopicPartition

log = logging.getLogger(__name__)

NAMES_VERSION: Final = 12  # the last version with topic names; later ones use topic ids
NO_METADATA_WAIT_MS: Final = 100
VERIFYING_BACKOFF_MS: Final = 2


class Sender:
    """A component of the client's core: each tick sends what is due."""

    def __init__(
        self,
        core: Core,
        settings: ProducerSettings,
        accumulator: Accumulator,
        transactions: TransactionManager | None = None,
        *,
        choose: Choose,
    ) -> None:
        self._core = core
        self._settings = settings
        self._accumulator = accumulator
        self._transactions = transactions
        self._choose = choose
        self._own_sequences = Sequences()
        self._sequences = self._own_sequences if transactions is None else transactions.sequences
        self._in_flight: dict[TopicPartition, list[Batch]] = defaultdict(list)
        self._sent_to: dict[TopicPartition, int] = {}  # the broker that has what is in flight
        self._known_as: dict[TopicPartition, int] = {}  # the producer id, if the last answer was no error
        self._asks_for_id = False
        self._id_attempt = 0
        self._id_retry_at_ms = 0
        self.counts = Counts()
        self.fatal: KlammError | None = None
        self.last_error: KlammError | None = None  # of the last batch that had to be repeated or failed
        self.refuses = transactions is not None  # whether records are refused: failed, or no transaction

    def tick(self, now_ms: int) -> int | None:
        """Send what may be sent; when to be called again."""
        if self._accumulator.parked:
            self._place_parked()
        self._expire(now_ms)
        dues = (self._send_due(now_ms), self._expires_at_ms(now_ms))
        return min((due for due in dues if due is not None), default=None)

    def _send_due(self, now_ms: int) -> int | None:
        if self._transactions is not None:
            if self._transactions.is_giving_up:
                self._drop_queued(self._transactions)
            if not self._transactions.may_send:
                return None
        elif self._settings.is_idempotent and self._sequences.needs_id:
            if not self._accumulator.partitions():
                return None
            self._ask_for_id(now_ms)
            return self._id_retry_at_ms if self._id_retry_at_ms > now_ms else None
        due_ms, ready = self._ready(now_ms)
        for node_id, partitions in ready.items():
            self._send(node_id, partitions, now_ms)
        return due_ms

    def _ready(self, now_ms: int) -> tuple[int | None, dict[int, list[TopicPartition]]]:
        """Partitions that may send now, by leader; when the next one may."""
        dues: list[int] = []
        ready: dict[int, list[TopicPartition]] = defaultdict(list)
        cluster = self._core.metadata.cluster
        for partition in self._accumulator.partitions():
            at_ms = self._accumulator.ready_at_ms(partition)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                dues.append(at_ms)
                continue
            info = cluster.partition(partition)
            if info is None or info.leader_id < 0:
                self._core.metadata.want([partition.topic])
                self._core.metadata.request_update()
                dues.append(now_ms + NO_METADATA_WAIT_MS)
            elif self._may_send(partition, info.leader_id) and self._takes_part(partition):
                ready[info.leader_id].append(partition)
        return min(dues, default=None), ready

    def _expires_at_ms(self, now_ms: int) -> int | None:
        """When the oldest batch is late; one that is late already is in flight, and its request times out."""
        oldest_ms = self._accumulator.oldest_ms()
        late_at_ms = None if oldest_ms is None else oldest_ms + self._settings.delivery_timeout_ms
        return late_at_ms if late_at_ms is not None and late_at_ms > now_ms else None

    def _may_send(self, partition: TopicPartition, node_id: int) -> bool:
        """Order: what was sent once goes alone, and nothing overtakes it, also by way of a new leader.

        A leader that does not know the producer accepts any sequence as its first, so the first goes alone.
        """
        in_flight = self._in_flight.get(partition)
        if not in_flight:
            return True
        if self._sent_to[partition] != node_id:
            return False
        if self._settings.is_idempotent and self._known_as.get(partition) != in_flight[0].producer_id:
            return False
        head = self._accumulator.head(partition)
        if head is None or head.was_sent:
            return False
        return not any(batch.attempts > 1 for batch in in_flight)

    def _takes_part(self, partition: TopicPartition) -> bool:
        return self._transactions is None or self._transactions.may_send_to(partition)

    def _send(self, node_id: int, partitions: list[TopicPartition], now_ms: int) -> None:
        """One request per turn, with at most one batch of each partition, within `max.request.size`."""
        node = Node("broker", node_id)
        pending = list(partitions)
        while pending and self._core.network.in_flight(node) < self._settings.max_in_flight:
            batches: list[Batch] = []
            size_bytes = 0
            rest: list[TopicPartition] = []
            for partition in pending:
                head = self._accumulator.head(partition)
                if head is None:
                    continue
                if batches and size_bytes + head.size_bytes > self._settings.max_request_size:
                    rest.append(partition)
                    continue
                self._accumulator.close_head(partition)  # what is numbered must not grow
                if not self._number(head):
                    continue
                batches.append(self._accumulator.take(partition))
                size_bytes += head.size_bytes
            if not batches:
                return
            self._dispatch(node, batches, now_ms)
            # More of the same partitions may follow at once, up to the limit in flight.
            again = [
                partition
                for partition in partitions
                if self._may_send(partition, node_id)
                and (at_ms := self._accumulator.ready_at_ms(partition)) is not None
                and at_ms <= now_ms
            ]
            pending = rest + [partition for partition in again if partition not in rest]
        # max.in.flight is reached: the next response calls this again.

    def _number(self, batch: Batch) -> bool:
        if not self._settings.is_idempotent:
            return True
        in_flight = self._in_flight.get(batch.partition)
        return self._sequences.number(batch, has_in_flight=bool(in_flight))

    def _dispatch(self, node: Node, batches: list[Batch], now_ms: int) -> None:
        topics = self._core.metadata.cluster.topics
        data: dict[str, TopicProduceData] = {}
        has_ids = True
        for batch in batches:
            batch.was_sent = True
            batch.attempts += 1
            self._in_flight[batch.partition].append(batch)
            self._sent_to[batch.partition] = node.number
            topic = topics[batch.partition.topic]
            has_ids = has_ids and topic.topic_id != ZERO_ID
            entry = data.setdefault(
                topic.name, TopicProduceData(topic_id=topic.topic_id, name=topic.name, partition_data=[])
            )
            records = batch.encoded(self._settings.codec, self._settings.level)
            self.counts.bytes_sent += len(records)
            self.counts.batches_sent += 1
            assert isinstance(entry.partition_data, list)
            entry.partition_data.append(PartitionProduceData(batch.partition.partition, records))
        # A request must not outlive what it carries, where delivery may take less than a request.
        late_at_ms = min(batch.created_at_ms for batch in batches) + self._settings.delivery_timeout_ms
        timeout_ms = min(self._settings.request_timeout_ms, max(1, late_at_ms - now_ms))
        transactions = self._transactions
        max_version = 32767 if transactions is None else transactions.max_produce_version
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.transactional_id,
            acks=self._settings.acks,
            timeout_ms=timeout_ms,
            topic_data=list(data.values()),
        )
        self.counts.requests += 1
        ids = {entry.topic_id: name for name, entry in data.items()}
        sent = {batch.partition: batch for batch in batches}

        def done(response: ProduceResponse | None, error: KlammError | None) -> None:
            if response is not None:
                self.counts.answered(self._core.now_ms - now_ms, response.throttle_time_ms)
            self._answered(sent, ids, response, error)

        self._core.network.call(
            node,
            Call(
                ApiKey.PRODUCE,
                request,
                done,
                timeout_ms,
                max_version=max_version if has_ids else min(max_version, NAMES_VERSION),
                has_answer=self._settings.acks != 0,
            ),
        )

    def _answered(
        self,
        sent: dict[TopicPartition, Batch],
        ids: dict[bytes, str],
        response: ProduceResponse | None,
        error: KlammError | None,
    ) -> None:
        for batch in sent.values():
            self._in_flight[batch.partition].remove(batch)
            if not self._in_flight[batch.partition]:
                del self._in_flight[batch.partition], self._sent_to[batch.partition]
        if error is not None:
            self._core.metadata.request_update()
            for batch in sent.values():
                self._retry_or_fail(batch, error, may_retry=error.retriable)
            return
        if response is None:  # acks=0: written is done
            for batch in sent.values():
                self._succeed(batch, -1, -1)
            return
        left = dict(sent)
        for topic in response.responses:
            name = topic.name or ids.get(topic.topic_id, "")
            for item in topic.partition_responses:
                answered = left.pop(TopicPartition(name, item.index), None)
                if answered is not None:
                    self._settle(answered, item)
        for batch in left.values():
            self._retry_or_fail(
                batch, KlammTimeoutError("the broker's answer leaves this partition out"), may_retry=True
            )

    def _settle(self, batch: Batch, item: PartitionProduceResponse) -> None:
        code = item.error_code
        if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            self._known_as[batch.partition] = batch.producer_id
            is_new = code == ErrorCode.none
            offset, timestamp_ms = (item.base_offset, item.log_append_time_ms) if is_new else (-1, -1)
            self._succeed(batch, offset, timestamp_ms)
            return
        self._known_as.pop(batch.partition, None)
        if code == ErrorCode.message_too_large and batch.record_count > 1:
            self._split(batch)
            return
        what = describe(batch.partition, batch.record_count)
        error = broker_error(code, what, item.error_message)
        if code in FATAL and self._transactions is None:
            self._give_up(error)
        if code in NEEDS_METADATA:
            self._core.metadata.request_update()
        if code in (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id):
            self._out_of_order(batch, error)
            return
        records = {
            record.batch_index: broker_error(
                code, f"record for {batch.partition}", record.batch_index_error_message
            )
            for record in item.record_errors
        }
        if records:
            others = BrokerError(f"{what}: other records of the batch were refused", code)
            self._fail(batch, others, dict(records))
            return
        self._retry_or_fail(batch, error, may_retry=code in RETRIABLE)

    def _place_parked(self) -> None:
        """Give records that were sent before their topic was known a partition, where it is known now."""
        cluster = self._core.metadata.cluster
        for name in list(self._accumulator.parked):
            topic = cluster.topics.get(name)
            if topic is not None:
                for batch, placed in self._accumulator.place(topic, self._choose):
                    if isinstance(placed, Delivery):
                        placed.follow(partial(self._ends_as, batch, placed))
                    else:
                        self._end(batch, placed)
            elif (code := cluster.errors.get(name)) is not None:
                self._refused_topic(TopicPartition(name, UNPLACED), broker_error(code, f"topic {name}"))

    def _refused_topic(self, parked: TopicPartition, error: BrokerError) -> None:
        """The broker does not know the topic, or does not want it: what waits ends with that, now or late."""
        while (batch := self._accumulator.head(parked)) is not None:
            if error.error_code not in TOPIC_REFUSED:
                batch.last_error = error
                return
            self._fail(self._accumulator.take(parked), error)

    def _ends_as(self, parked: Batch, placed: Delivery) -> None:
        parked.partition = placed.partition
        metadata, error = placed.outcome()
        if metadata is None:
            assert error is not None
            self._report(parked, parked.fail(error))
        else:
            self._report(parked, parked.succeed(metadata.offset, metadata.timestamp_ms))

    def _give_up(self, error: KlammError) -> None:
        self.fatal = error
        self.refuses = True

    def _out_of_order(self, batch: Batch, error: KlammError) -> None:
        """The broker lacks an earlier batch: wait for it if it is in flight, else restart the sequence."""
        still_open = [
            *self._in_flight.get(batch.partition, ()),
            *self._accumulator.waiting_to_retry(batch.partition),
        ]
        is_lost = self._sequences.is_next(batch, still_open)
        if is_lost:
            self._sequences.broke(batch.partition)
        # In a transaction the sequence cannot restart: a lost batch ends it.
        may_retry = self._settings.is_idempotent and not (is_lost and self._transactions is not None)
        self._retry_or_fail(batch, error, may_retry=may_retry)

    def _split(self, batch: Batch) -> None:
        largest = min(self._settings.batch_size, max(batch.size_bytes // 2, 1))
        log.info(
            "splitting a batch of %d records for %s: rejected as too large",
            batch.record_count,
            batch.partition,
        )
        self._accumulator.replace(batch, batch.split(largest))

    def _retry_or_fail(self, batch: Batch, error: KlammError, *, may_retry: bool) -> None:
        self.last_error = error
        now_ms = self._core.now_ms
        is_late = now_ms - batch.created_at_ms >= self._settings.delivery_timeout_ms
        is_over = self.fatal is not None or (
            self._transactions is not None and self._transactions.is_giving_up
        )
        if not may_retry or batch.attempts > self._settings.retries or is_over:
            self._fail(batch, error)
        elif is_late:
            self._fail(batch, self._too_late(batch, self._expired_as(), error))
        else:
            batch.last_error = error
            self.counts.batches_repeated += 1
            batch.retry_at_ms = now_ms + self._wait_ms(batch.attempts - 1, error)
            self._accumulator.put_back(batch)

    def _wait_ms(self, attempt: int, error: KlammError) -> int:
        settings, base_ms = self._settings, self._settings.retry_backoff_ms
        code = error.error_code if isinstance(error, BrokerError) else 0
        if code in VERIFYING and self._transactions is not None:
            base_ms = min(base_ms, VERIFYING_BACKOFF_MS)
        return backoff_ms(base_ms, settings.retry_backoff_max_ms, attempt, self._core.random)

    def _expired_as(self) -> str:
        return f"delivery.timeout.ms={self._settings.delivery_timeout_ms} has passed"

    def _too_late(self, batch: Batch, why: str, cause: Exception | None = None) -> KlammTimeoutError:
        what = describe(batch.partition, batch.record_count)
        unreachable = next(iter(self._core.network.unreachable.values()), None)
        reason = cause or batch.last_error or self._core.metadata.error or unreachable
        tail = f"; last error: {reason}" if reason else ""
        error = KlammTimeoutError(f"{what} not delivered: {why}{tail}")
        error.__cause__ = reason
        return error

    def _fail(
        self, batch: Batch, error: KlammError, record_errors: dict[int, Exception] | None = None
    ) -> None:
        if batch.was_sent:
            self._sequences.broke(batch.partition)
        if self._transactions is not None:
            error = self._transactions.batch_failed(error)
        self._end(batch, error, record_errors)

    def _drop_queued(self, transactions: TransactionManager) -> None:
        """Nothing more of this transaction is sent."""
        for batch in self._take_queued():
            self._fail(batch, transactions.why_dropped())

    def _take_queued(self) -> Iterator[Batch]:
        for partition in self._accumulator.partitions():
            while self._accumulator.head(partition) is not None:
                yield self._accumulator.take(partition)

    def _succeed(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        self.counts.records_delivered += batch.record_count
        self._report(batch, batch.succeed(base_offset, log_append_time_ms))

    def _end(self, batch: Batch, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        self.counts.records_failed += batch.record_count
        self._report(batch, batch.fail(error, record_errors))

    def _report(self, batch: Batch, callbacks: list[Callable[[], object]]) -> None:
        """Run the callbacks of a batch. Only then does a flush stop waiting for it."""
        self._accumulator.release(batch)
        for callback in callbacks:
            call(callback)
        self._accumulator.finished(batch)
        batch.reported()

    def _expire(self, now_ms: int) -> None:
        for batch in self._accumulator.expired(now_ms):
            self._fail(batch, self._too_late(batch, self._expired_as()))

    def die(self, error: KlammError) -> None:
        """Nothing is sent from now on, and everything that waits fails."""
        self._give_up(error)
        self._accumulator.refuse(error)  # first: a batch that is opened later would not be sent
        self._fail_all(lambda _batch: error)

    def abandon_all(self, why: str) -> None:
        """Give up on everything that is not delivered, each batch with the error that it met last."""
        self._fail_all(lambda batch: self._too_late(batch, why))

    def _fail_all(self, error_of: Callable[[Batch], KlammError]) -> None:
        for batch in self._take_queued():
            self._fail(batch, error_of(batch))
        for batches in list(self._in_flight.values()):
            for batch in list(batches):
                self._end(batch, error_of(batch))

    def purge(self) -> int:
        """Give up everything that is queued; how many records that were."""
        count = 0
        for batch in self._take_queued():
            count += batch.record_count
            self._fail(batch, PurgedError(f"{describe(batch.partition, batch.record_count)} purged"))
        return count

    def _ask_for_id(self, now_ms: int) -> None:
        if self._asks_for_id or now_ms < self._id_retry_at_ms:
            return
        node = self._core.network.least_loaded()
        if node is None:
            self._id_retry_at_ms = self._core.network.retry_at_ms() or now_ms + NO_METADATA_WAIT_MS
            return
        self._asks_for_id = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        self._core.network.call(
            node, Call(ApiKey.INIT_PRODUCER_ID, request, self._got_id, self._settings.request_timeout_ms)
        )

    def _got_id(self, response: InitProducerIdResponse | None, error: KlammError | None) -> None:
        self._asks_for_id = False
        if error is None and response is not None:
            if response.error_code == ErrorCode.none:
                self._own_sequences.has_id(response.producer_id)
                self._id_attempt = 0
                return
            error = broker_error(response.error_code, "requesting a producer id")
        assert error is not None
        if isinstance(error, UnsupportedVersionError) or not error.retriable:
            self.die(error)
            return
        self._id_retry_at_ms = self._core.now_ms + self._wait_ms(self._id_attempt, error)
        self._id_attempt += 1
