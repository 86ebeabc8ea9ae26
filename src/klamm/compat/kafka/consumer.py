"""kafka-python's consumer on klamm's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.polling.hosts import run_blocking
from klamm.compat.bootstrap import wait_for_cluster
from klamm.compat.callers import (
    OffsetAndTimestamp,
    adapted_listener,
    chosen_topics,
    committable,
    found_by_time,
    new_partitions,
)
from klamm.compat.kafka.future import Future
from klamm.compat.kafka.rates import Meter, of_consumer, refuse_raw, window_of
from klamm.compat.kafka.records import ConsumerRecord, measuring, record_of
from klamm.compat.kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata
from klamm.compat.kafka.words import IsolationLevel
from klamm.compat.python_settings import KAFKA_PYTHON, assignor_names, own_settings
from klamm.compat.settings import ClientKind
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any]

BOOTSTRAP_TIMEOUT_MS = 30_000
TOPIC_STEP_MS = 200  # how often a consumer without a group looks for topics that do not exist yet


class KafkaConsumer:
    """kafka-python's consumer. Without `group_id` it reads all partitions of its topics."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        made = own_settings(KAFKA_PYTHON, configs, ClientKind.CONSUMER)
        self._has_group = made.get("group_id") is not None
        limit_ms = made.pop("consumer_timeout_ms", None)
        self._timeout_ms = None if limit_ms is None or limit_ms == math.inf or limit_ms < 0 else limit_ms
        self._on_commit: OnCommit | None = made.pop("default_offset_commit_callback", None)
        for name in ("key_deserializer", "value_deserializer"):
            made[name] = measuring(made.get(name))
        strategies = made.get("partition_assignment_strategy", ("range", "roundrobin"))
        made["partition_assignment_strategy"] = names = assignor_names(strategies)
        self._is_eager = any(name != "cooperative-sticky" for name in names)
        if isinstance(level := made.get("isolation_level"), int):  # theirs is a word or a number
            made["isolation_level"] = IsolationLevel.build_from(level).name.lower()
        bootstrap_ms = made.pop("bootstrap_timeout_ms", BOOTSTRAP_TIMEOUT_MS)
        window_ms = window_of(made)
        self._consumer: Consumer[Any, Any] = Consumer(**made)
        self._meter = Meter(self._consumer._operations.host.clock, window_ms, self._consumer.metrics)
        self._groupless: set[str] = set()
        try:
            self.bootstrap(bootstrap_ms)
        except BaseException:
            self._consumer.close(0)
            raise
        if topics:
            self.subscribe(topics)

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until a broker has answered; KafkaTimeoutError or NoBrokersAvailable if none does."""
        limit_ms = BOOTSTRAP_TIMEOUT_MS if timeout_ms is None else timeout_ms
        wait_for_cluster(self._consumer._operations.host, limit_ms)

    def subscribe(self, topics: Iterable[str] = (), pattern: Any = None, listener: Any = None) -> None:
        """Read topics, as a member of the group if there is one."""
        names = chosen_topics(topics, pattern)
        if self._has_group:
            adapted = adapted_listener(listener, is_eager=self._is_eager)
            self._consumer.subscribe(names, adapted, pattern=pattern)
            return
        if names is None:
            raise ValueError("a pattern needs a group: set group_id")
        self._groupless = set(names)
        self._take_groupless()

    def _take_groupless(self) -> None:
        found = new_partitions(self._groupless, self._consumer.list_topics(), self._consumer.assignment())
        if found:
            self._consumer.incremental_assign(found)

    def _due_at_ms(self, timeout_ms: float | None) -> int | None:
        now_ms = self._consumer._operations.host.patience.now_ms()
        return None if timeout_ms is None else now_ms + int(timeout_ms)

    def _left_s(self, due_at_ms: int | None) -> float | None:
        if due_at_ms is None:
            return None
        return max(0.0, due_at_ms - self._consumer._operations.host.patience.now_ms()) / 1000

    def _wait_for_topics(self, due_at_ms: int | None) -> bool:
        """Without a group: whether one of the topics exists, now or before the time is up."""
        operations = self._consumer._operations
        # Asking the consumer for its assignment would take back what it has handed out.
        while self._groupless and not operations.state.partitions:
            self._take_groupless()
            if operations.state.partitions:
                break
            until_ms = operations.host.patience.now_ms() + TOPIC_STEP_MS
            if due_at_ms is not None and due_at_ms < until_ms:
                run_blocking(operations.poller.poll(due_at_ms, 0))
                return False
            run_blocking(operations.poller.poll(until_ms, 0))
        return True

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition; none after `timeout_ms`."""
        due_at_ms = self._due_at_ms(timeout_ms)
        if not self._wait_for_topics(due_at_ms):
            return {}
        found = self._consumer.poll(self._left_s(due_at_ms), max_records=max_records).by_partition()
        if not update_offsets:
            for partition, records in found.items():
                self._consumer.seek(partition, records[0].offset)
        return {partition: list(map(record_of, records)) for partition, records in found.items()}

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; StopIteration when `consumer_timeout_ms` pass without one."""
        due_at_ms = self._due_at_ms(self._timeout_ms)
        record = self._consumer.getone(self._left_s(due_at_ms)) if self._wait_for_topics(due_at_ms) else None
        if record is None:
            raise StopIteration
        return record_of(record)

    def unsubscribe(self) -> None:
        self._groupless = set()
        self._consumer.unsubscribe()

    def subscription(self) -> set[str] | None:
        return self._groupless or self._consumer.subscription() or None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment()

    def commit(
        self, offsets: Mapping[TopicPartition, Any] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit these offsets (the next records to read), or all positions, and wait for it."""
        self._consumer.commit(committable(offsets), _seconds(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, Any] | None = None, callback: OnCommit | None = None
    ) -> Future:
        """Commit without waiting; `callback(offsets, error)` gets None or the error.

        It is called, and the future settled, by a later poll or commit.
        """
        report = callback or self._on_commit
        if report is not None and not callable(report):
            raise TypeError(f"callback is a function of the offsets and the response, not {report!r}")

        def told(committed: Mapping[TopicPartition, Any], error: KlammError | None) -> None:
            if report is not None:
                listed = {
                    key: OffsetAndMetadata(item.offset, item.metadata, item.leader_epoch)
                    for key, item in committed.items()
                }
                report(listed, error)
            if error is None:
                future.success(None)
            else:
                future.failure(error)

        future = Future()
        self._consumer.commit_async(committable(offsets), told)
        return future

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        """The committed offset of one partition, or None; with `metadata` an OffsetAndMetadata."""
        found = self._consumer.committed([partition], _seconds(timeout_ms))[partition]
        if found is None or not metadata:
            return None if found is None else found.offset
        return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction`."""
        own = self._consumer.group_metadata()
        membership = self._consumer._operations.engine.membership
        states = {
            "stable": MemberState.STABLE,
            "unjoined": MemberState.UNJOINED,
            "unsubscribed": MemberState.UNJOINED,
        }
        state = states.get(membership.state.value, MemberState.REBALANCING)
        return ConsumerGroupMetadata(
            own.group_id, own.generation, own.member_id, own.group_instance_id, state
        )

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._consumer.position(partition, _seconds(timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that can be read, as the last fetch saw it."""
        lag = self._consumer.lag(partition)
        return None if lag is None else self._consumer.position(partition) + lag

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._consumer.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._consumer.seek_to_end(*partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        return self._consumer.paused()

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(partitions, _seconds(timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(partitions, _seconds(timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return found_by_time(self._consumer.offsets_for_times(timestamps, _seconds(timeout_ms)))

    def topics(self) -> set[str]:
        return self._consumer.topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {partition for _, partition in self._consumer.partitions_for(topic)} or None

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has answered and can be reached."""
        return self._consumer.health().last_error is None

    def metrics(self, raw: bool = False) -> dict[str, dict[str, Any]]:
        """klamm's counters, and the rates and averages of kafka-python; NaN where one is not known."""
        refuse_raw(raw)
        return of_consumer(*self._meter.look())

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        self._consumer._operations.leaves_without_commit = not autocommit
        self._consumer.close(30.0 if timeout_ms is None else timeout_ms / 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
