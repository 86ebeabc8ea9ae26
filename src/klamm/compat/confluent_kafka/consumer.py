"""confluent-kafka's Consumer on klamm's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from klamm import errors
from klamm.client.committed import Committed
from klamm.client.consumer.consumer import Consumer as OwnConsumer
from klamm.client.consumer.group.listener import CallbackListener
from klamm.client.consumer.offsets.to_commit import consumed
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.consumer.state import SubscriptionType
from klamm.client.interceptors import ConsumerInterceptor
from klamm.client.message import Message as OwnMessage
from klamm.compat.confluent_kafka.arguments import callback, seconds, whole
from klamm.compat.confluent_kafka.end_of_partition import Ends
from klamm.compat.confluent_kafka.error import KafkaError, KafkaException, raised_as_theirs
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.events import Events
from klamm.compat.confluent_kafka.message import Message, message_of_record
from klamm.compat.confluent_kafka.metadata import ClusterMetadata
from klamm.compat.confluent_kafka.outages import Outages
from klamm.compat.confluent_kafka.partitions import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TopicPartition,
    many_partitions,
    one_partition,
)
from klamm.compat.confluent_kafka.settings import configuration, flag, own_settings, split_own
from klamm.compat.confluent_kafka.statistics import Emitter, statistics_of_consumer
from klamm.compat.settings import ClientKind
from klamm.protocol.types import TopicPartition as OwnPartition

MOST_MESSAGES: Final = 1_000_000  # of one call
SLICE_S: Final = 0.1  # a waiting poll looks this often for callbacks to run and ends of partitions


class Consumer:
    """confluent-kafka's consumer: `poll` returns one message or None; errors come as messages."""

    @raised_as_theirs
    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        made = own_settings(configuration(config, settings), ClientKind.CONSUMER)
        own = split_own(made, ClientKind.CONSUMER)
        if not made.get("group.id"):
            text = 'Failed to create consumer: No group.id: "group.id" must be set'
            raise KafkaException(KafkaError(CODES["_INVALID_ARG"], text))
        self._on_commit: Callable[..., Any] | None = own.get("on_commit")
        self._reports_all_commits = self._on_commit is not None and flag(
            "enable.auto.commit", made.get("enable.auto.commit", True)
        )
        if self._reports_all_commits:
            made["interceptors"] = _OnCommit(self._committed)
        # Only offsets of messages that were returned are committed, by whichever commit names none.
        self._stores = flag("enable.auto.offset.store", made.get("enable.auto.offset.store", True))
        made["enable.auto.offset.store"] = False
        self._consumer: OwnConsumer[Any, Any] = OwnConsumer(made)
        operations = self._consumer._operations
        self._patience = operations.host.patience
        self._events = Events(operations.host.clock)
        tells_ends = flag("enable.partition.eof", own.get("enable.partition.eof", False))
        self._ends = Ends(operations) if tells_ends else None
        # Partitions of which something was read since they were assigned, with the last leader epoch.
        self._read: dict[OwnPartition, int | None] = {}
        self._watch(own)

    def _watch(self, own: Mapping[str, Any]) -> None:
        operations = self._consumer._operations
        core = operations.engine.core
        components: list[Any] = []
        on_error, on_statistics = own.get("error_cb"), own.get("stats_cb")
        if on_error is not None:
            report = lambda error: self._events.add(partial(on_error, error))  # noqa: E731
            components.append(Outages(core, report, lambda: None))
        interval_ms = int(own.get("statistics.interval.ms", 0))
        if on_statistics is not None and interval_ms:
            components.append(
                Emitter(
                    partial(statistics_of_consumer, operations, self._events),
                    lambda text: self._events.add(partial(on_statistics, text)),
                    interval_ms,
                    operations.host.clock,
                )
            )
        operations.host.submit(lambda: core.components.extend(components))

    # --- subscription -----------------------------------------------------------------------------------

    @raised_as_theirs
    def subscribe(
        self,
        topics: Iterable[str],
        on_assign: Callable[..., Any] | None = None,
        on_revoke: Callable[..., Any] | None = None,
        on_lost: Callable[..., Any] | None = None,
    ) -> None:
        def told(given: Any, name: str) -> Callable[[list[OwnPartition]], Any] | None:
            call = callback(given, name)
            if call is None:
                return None
            return lambda partitions: call(self, [TopicPartition(*item) for item in partitions])

        listener = CallbackListener(
            told(on_assign, "on_assign"), told(on_revoke, "on_revoke"), told(on_lost, "on_lost")
        )
        if isinstance(topics, str | Mapping) or not isinstance(topics, Iterable):
            raise TypeError("expected list of topic unicode strings")
        names = list(topics)
        if not names:
            text = "Failed to set subscription: Local: Invalid argument or configuration"
            raise KafkaException(KafkaError(CODES["_INVALID_ARG"], text))
        self._consumer.subscribe(names, listener)

    @raised_as_theirs
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; in `on_assign`, begin at the offsets given."""
        wanted = many_partitions(partitions)
        if not self._consumer._operations.state.is_auto:
            self._consumer.assign([item.own for item in wanted])
        self._begin_at(wanted)

    @raised_as_theirs
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = many_partitions(partitions)
        if not self._consumer._operations.state.is_auto:
            self._consumer.incremental_assign([item.own for item in wanted])
        self._begin_at(wanted)

    @raised_as_theirs
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = many_partitions(partitions)
        if not self._consumer._operations.state.is_auto:
            self._consumer.incremental_unassign([item.own for item in wanted])

    def _begin_at(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            self._read.pop(item.own, None)
            if self._ends is not None:
                self._ends.forget(item.own)
            if item.offset == OFFSET_BEGINNING:
                self._consumer.seek_to_beginning(item.own)
            elif item.offset == OFFSET_END:
                self._consumer.seek_to_end(item.own)
            elif item.offset == OFFSET_STORED:
                self._consumer.seek_to_committed(item.own)
            elif item.offset >= 0:
                self._consumer.seek(item.own, item.offset)

    @raised_as_theirs
    def unassign(self) -> None:
        if not self._consumer._operations.state.is_auto:
            self._consumer.unsubscribe()

    @raised_as_theirs
    def unsubscribe(self) -> None:
        self._consumer.unsubscribe()

    @raised_as_theirs
    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*item) for item in sorted(self._consumer.assignment())]

    # --- records ----------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came in `timeout` seconds (None, -1: wait).

        Callbacks run here: of rebalances, commits, errors and statistics.
        """
        return self._next(self._due_at_ms(timeout))

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """A list of `num_messages` messages, fewer only after `timeout` seconds."""
        if not 0 <= whole(num_messages, "num_messages") <= MOST_MESSAGES:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        due_at_ms = self._due_at_ms(timeout)
        messages: list[Message] = []
        while len(messages) < num_messages and (message := self._next(due_at_ms)) is not None:
            messages.append(message)
        return messages

    def _due_at_ms(self, timeout: float | None) -> float | None:
        limit_s = seconds(timeout)
        return None if limit_s is None else self._patience.now_ms() + limit_s * 1000

    def _next(self, due_at_ms: float | None) -> Message | None:
        while True:
            self._events.serve(0)
            if self._ends is not None and (end := self._ends.take()) is not None:
                return end
            left_s = SLICE_S
            if due_at_ms is not None:
                left_s = min(left_s, max(0.0, (due_at_ms - self._patience.now_ms()) / 1000))
            message = self._of_slice(left_s)
            if message is not None:
                return message
            if due_at_ms is not None and self._patience.now_ms() >= due_at_ms:
                self._events.serve(0)
                return None if self._ends is None else self._ends.take()

    def _of_slice(self, timeout_s: float) -> Message | None:
        if self._consumer._operations.state.type is SubscriptionType.NONE and not self._is_closed:
            self._events.serve(timeout_s)  # nothing to read: as there, that is no error
            return None
        try:
            record = self._consumer.getone(timeout_s)
        except errors.RebalanceListenerError as error:
            raise error.__cause__ or error from None
        except errors.IllegalStateError as error:
            raise RuntimeError(str(error)) from error
        except errors.KlammError as error:
            return Message(error=KafkaError.of(error))
        if record is None:
            return None
        self._note(record)
        return message_of_record(record)

    def _note(self, record: ConsumerRecord[Any, Any]) -> None:
        partition = OwnPartition(record.topic, record.partition)
        self._read[partition] = record.leader_epoch
        if self._stores:
            state = self._consumer._operations.state
            with state.lock:
                if (item := state.partitions.get(partition)) is not None:
                    epoch = -1 if record.leader_epoch is None else record.leader_epoch
                    item.stored = (record.offset + 1, epoch)

    # --- offsets ----------------------------------------------------------------------------------------

    @raised_as_theirs
    def commit(
        self,
        message: OwnMessage | None = None,
        offsets: Iterable[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit the offset after a message, offsets, or all positions; what was, if it waits."""
        to_commit = _after(message, offsets)
        if asynchronous:
            self._consumer.commit_async(to_commit, self._report_commit)
            return None
        if to_commit is None:
            self._consumer._enter()
            state = self._consumer._operations.state
            with state.lock:
                to_commit = dict(consumed(state).offsets)
            if not to_commit:
                raise KafkaException(KafkaError(CODES["_NO_OFFSET"], "Local: No offset stored"))
        self._consumer.commit(to_commit)
        return [
            TopicPartition(*key, item.offset, item.metadata or None, _known(item.leader_epoch))
            for key, item in to_commit.items()
        ]

    def _committed(self, offsets: Mapping[OwnPartition, Committed]) -> None:
        self._report_commit(offsets, None, is_any=True)

    def _report_commit(
        self, offsets: Mapping[OwnPartition, Any], error: errors.KlammError | None, *, is_any: bool = False
    ) -> None:
        if self._on_commit is None or (error is None and self._reports_all_commits and not is_any):
            return
        listed = [TopicPartition(*key, value.offset) for key, value in offsets.items()]
        self._on_commit(None if error is None else KafkaError.of(error), listed)

    @raised_as_theirs
    def store_offsets(
        self, message: OwnMessage | None = None, offsets: Iterable[TopicPartition] | None = None
    ) -> None:
        if self._stores:
            raise errors.IllegalStateError("store_offsets() needs enable.auto.offset.store=false: set it")
        self._consumer.store_offsets(offsets=_after(message, offsets))

    @raised_as_theirs
    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        wanted = many_partitions(partitions)
        found = self._consumer.committed([item.own for item in wanted], seconds(timeout))
        listed = []
        for item in wanted:
            entry = found[item.own]
            if entry is None:
                listed.append(TopicPartition(item.topic, item.partition))
            else:
                epoch = _known(entry.leader_epoch)
                listed.append(TopicPartition(*item.own, entry.offset, entry.metadata or None, epoch))
        return listed

    @raised_as_theirs
    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The offsets after the last messages read; OFFSET_INVALID where none was."""
        return [
            TopicPartition(*item.own, self._consumer.position(item.own), None, self._read[item.own])
            if item.own in self._read
            else TopicPartition(*item.own)
            for item in many_partitions(partitions)
        ]

    @raised_as_theirs
    def seek(self, partition: TopicPartition) -> None:
        self._consumer._operations.state[one_partition(partition).own]  # raises if it is not assigned
        self._begin_at([partition])

    @raised_as_theirs
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*[item.own for item in many_partitions(partitions)])

    @raised_as_theirs
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(*[item.own for item in many_partitions(partitions)])

    @raised_as_theirs
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """The first offset and the one behind the last record; `cached`: as the last fetch saw them."""
        own, limit_s = one_partition(partition).own, seconds(timeout)
        if cached:
            item = self._consumer._operations.state.partitions.get(own)
            known = (-1, -1) if item is None else (item.log_start_offset, item.high_watermark)
            low, high = (value if value >= 0 else OFFSET_INVALID for value in known)
            return low, high
        topic = self._consumer._operations.engine.core.metadata.cluster.topics.get(own.topic)
        is_known = topic is not None and own.partition in topic.partitions
        if not is_known and own not in self._consumer.partitions_for(own.topic, limit_s):
            raise KafkaException(KafkaError(CODES["_UNKNOWN_PARTITION"], f"there is no {own}"))
        (low,) = self._consumer.beginning_offsets([own], limit_s).values()
        (high,) = self._consumer.end_offsets([own], limit_s).values()
        return low, high

    @raised_as_theirs
    def offsets_for_times(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Offsets by time; the time to look for is in the field `offset`."""
        wanted = {item.own: item.offset for item in many_partitions(partitions)}
        found = self._consumer.offsets_for_times(wanted, seconds(timeout))
        return [
            TopicPartition(*key, OFFSET_END)
            if item is None
            else TopicPartition(*key, item.offset, None, _known(item.leader_epoch))
            for key, item in found.items()
        ]

    # --- the cluster and the group ----------------------------------------------------------------------

    @raised_as_theirs
    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        topics = self._consumer.list_topics(topic, seconds(timeout))
        return ClusterMetadata(self._consumer._operations.engine.core.metadata.cluster, topics, topic)

    @raised_as_theirs
    def cluster_id(self, timeout: float | None = -1) -> str | None:
        self._consumer.list_topics(timeout=seconds(timeout))
        return self._consumer._operations.engine.core.metadata.cluster.cluster_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        raise KafkaException(
            KafkaError(CODES["_NOT_IMPLEMENTED"], "klamm's client takes credentials when it is made")
        )

    @raised_as_theirs
    def consumer_group_metadata(self) -> Any:
        return self._consumer.group_metadata()

    @raised_as_theirs
    def memberid(self) -> str | None:
        return self._consumer.group_metadata().member_id or None

    @property
    def _is_closed(self) -> bool:
        return self._consumer._operations.is_closed

    def close(self) -> None:
        """Commit if that is automatic, leave the group, run the callbacks of both, and stop."""
        self._consumer.close()
        self._events.serve(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _OnCommit(ConsumerInterceptor):
    """Reports commits, those that are automatic too."""

    def __init__(self, report: Callable[[Mapping[OwnPartition, Committed]], None]) -> None:
        self._report = report

    def on_commit(self, offsets: Mapping[Any, Any]) -> None:
        self._report(offsets)


def _known(leader_epoch: int) -> int | None:
    return leader_epoch if leader_epoch >= 0 else None


def _after(
    message: OwnMessage | None, offsets: Iterable[TopicPartition] | None
) -> dict[OwnPartition, Committed] | None:
    if message is not None:
        if offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        if not isinstance(message, OwnMessage):
            raise TypeError(f"expected Message, not {type(message).__name__}")
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("this message has no offset to commit")
        epoch = message.leader_epoch()
        return {OwnPartition(topic, partition): Committed(offset + 1, -1 if epoch is None else epoch)}
    return None if offsets is None else {item.own: item.to_commit() for item in many_partitions(offsets)}
