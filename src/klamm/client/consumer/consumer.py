"""The consumer for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, Unpack

from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.client.config import with_given
from klamm.client.consumer import arguments, report
from klamm.client.consumer.construction import chosen_listener, client_thread, several, split_arguments
from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.fetch.fetching import EARLIEST, LATEST
from klamm.client.consumer.foreign_names import missing_method, poll_in_ms
from klamm.client.consumer.group.listener import AnyCallback, RebalanceListener
from klamm.client.consumer.group.rebalance_log import Rebalance
from klamm.client.consumer.offsets.commits import Callback
from klamm.client.consumer.offsets.lookup import FoundOffset
from klamm.client.consumer.polling.claims import ThreadClaim
from klamm.client.consumer.polling.hosts import ThreadHost, ThreadSignal, run_blocking
from klamm.client.consumer.records import ConsumerRecord, Records
from klamm.client.consumer.settings import parse
from klamm.client.interceptors import passed
from klamm.client.key_value_types import Deserializing, Key, SettingsOf, Value
from klamm.errors import IllegalStateError
from klamm.net.cluster import TopicInfo
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.client.setting_types import ConsumerKeywords

numbers = count(1)


class Consumer(Generic[Key, Value]):
    """Reads records; settings by Kafka's names, as a dictionary or keywords.

    Given topics, it subscribes to them. One thread at a time may use it; others may call `wakeup()`.
    Times are in seconds unless a name says otherwise.
    """

    _shows_markers: ClassVar = False

    def __init__(
        self,
        *topics: str | SettingsOf[Key, Value],
        key_deserializer: Deserializing[Key] | None = None,
        value_deserializer: Deserializing[Value] | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        given = with_given(settings, key_deserializer=key_deserializer, value_deserializer=value_deserializer)
        names, config = split_arguments(topics)
        parsed, checked = parse(config, given, next(numbers))
        if self._shows_markers:
            checked = replace(checked, shows_markers=True)
        clock = parsed.clock()
        thread = client_thread(parsed, checked, clock, Random())
        host = ThreadHost(thread, ThreadSignal(clock))
        self._begin(ConsumerOperations(host, checked))
        thread.reactor.on_fork = self._inbox.interrupt
        host.start()
        try:
            if names:
                self.subscribe(names)
        except BaseException:
            self.close(0)
            raise

    def _begin(self, operations: ConsumerOperations) -> None:
        self._operations = operations
        self._poller = operations.poller
        self._handout = operations.engine.handout
        self._inbox = operations.engine.inbox
        self._claim = ThreadClaim()
        self._limit = operations.settings.max_poll_records
        self._interceptors = operations.settings.interceptors

    def __repr__(self) -> str:
        return f"<klamm.Consumer {report.described(self._operations)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._operations.is_closed:
            raise IllegalStateError("this consumer is closed")
        self._operations.host.check()

    def _enter(self) -> None:
        """Every call except reading. Records that were not returned yet do not count as consumed."""
        self._check()
        if self._handout.give_back():
            self._inbox.needs_attention = True

    # --- subscription -----------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: Any = None,
        on_assign: AnyCallback | None = None,
        on_revoke: AnyCallback | None = None,
        on_lost: AnyCallback | None = None,
    ) -> None:
        """Read topics, by name or by a pattern of whole names, as a member of the group."""
        with self._claim:
            self._enter()
            heard = chosen_listener(listener, on_assign, on_revoke, on_lost, self)
            run_blocking(self._operations.subscribe(topics, pattern, heard))

    def subscription(self) -> set[str]:
        """The topics subscribed to, or matched by the pattern so far."""
        with self._claim:
            self._check()
            return set(self._operations.state.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.assign(partitions))

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions too, beside those assigned before."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.assign_more(partitions))

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions; the others go on."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.assign_less(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer has now."""
        with self._claim:
            self._check()
            return set(self._operations.state.partitions)

    def unsubscribe(self) -> None:
        """Give up topics and partitions, and leave the group."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.unsubscribe())

    unassign = unsubscribe

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Trigger a rebalance of the group in the next poll."""
        with self._claim:
            self._enter()
            self._operations.enforce_rebalance(reason)

    def group_metadata(self) -> GroupMetadata:
        """The consumer's identity in its group, for `send_offsets_to_transaction`."""
        with self._claim:
            self._enter()
            return self._operations.group_metadata()

    # --- records ----------------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise AttributeError(missing_method(name))

    def poll(
        self,
        timeout: float | None = None,
        *,
        max_records: int | None = None,
        timeout_ms: float | None = None,
    ) -> Records[Key, Value]:
        """Records, as soon as there are any; none after `timeout` seconds (None: wait for ever)."""
        if timeout_ms is not None:
            raise poll_in_ms(timeout_ms)
        with self._claim:
            self._enter()
            limit = self._limit if max_records is None else max_records
            records = self._poller.poll_nowait(limit)
            if records is None:
                records = run_blocking(self._operations.poll(timeout, limit))
            return passed(self._interceptors, "on_consume", records) if self._interceptors else records

    def consume(
        self, num_messages: int = 1, timeout: float | None = None
    ) -> list[ConsumerRecord[Key, Value]]:
        """A list of `num_messages` records, fewer only after `timeout` seconds (None or -1: no limit)."""
        records: list[ConsumerRecord[Key, Value]] = []
        if num_messages < 1:
            raise ValueError(f"num_messages={num_messages}: expected 1 or more")
        clock = self._operations.host.patience
        limited = timeout is not None and timeout >= 0
        due_at_ms = clock.now_ms() + round((timeout or 0) * 1000)
        while len(records) < num_messages:
            left_s = max(0, due_at_ms - clock.now_ms()) / 1000 if limited else None
            records += self.poll(left_s, max_records=num_messages - len(records))
            if limited and clock.now_ms() >= due_at_ms:
                break
        return records

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        """Records by partition; of these partitions alone, if any are named."""
        with self._claim:
            self._enter()
            others = set(self._operations.state.partitions).difference(partitions) if partitions else set()
            others -= self._operations.paused()
            self._operations.set_paused(others, is_paused=True)
            try:
                return self.poll(timeout_ms / 1000, max_records=max_records).by_partition()
            finally:
                still = others.intersection(self._operations.state.partitions)
                self._operations.set_paused(still, is_paused=False)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Records, one after the other, until none came for `consumer.timeout.ms` (default: for ever).

        Positions move with each.
        """
        self._operations.host.check()
        handout, inbox = self._handout, self._inbox
        while True:
            for record in handout.records:
                handout.count += 1
                yield record
                if inbox.needs_attention:
                    break
            records = self._next_records()
            if records is None:
                return
            handout.start(records)

    def _next_records(self) -> Records[Key, Value] | None:
        """What to iterate over next; None when `consumer.timeout.ms` have passed without a record."""
        limit_ms = self._operations.settings.iteration_timeout_ms
        if limit_ms < 0:
            return self.poll()
        clock = self._operations.host.patience
        due_at_ms = clock.now_ms() + limit_ms
        while not (records := self.poll(max(0, due_at_ms - clock.now_ms()) / 1000)):
            if clock.now_ms() >= due_at_ms:
                return None
        return records

    def getone(self, timeout: float | None = None) -> ConsumerRecord[Key, Value] | None:
        """The next record; None when the time is up."""
        handout = self._handout
        if not self._inbox.needs_attention and not self._operations.is_closed:
            for record in handout.records:
                handout.count += 1
                return record
        handout.start(self.poll(timeout))
        for record in handout.records:
            handout.count += 1
            return record
        return None

    def __next__(self) -> ConsumerRecord[Key, Value]:
        limit_ms = self._operations.settings.iteration_timeout_ms
        while (record := self.getone(None if limit_ms < 0 else limit_ms / 1000)) is None:
            if limit_ms >= 0:
                raise StopIteration
        return record

    def wakeup(self) -> None:
        """Make the call that another thread waits in, or its next one, raise WakeupError."""
        self._poller.wake_up()

    def keepalive(self) -> bool:
        """Extend `max.poll.interval.ms` during long work, as a poll does; whether this is still a member.

        May be called from any thread.
        """
        self._operations.host.check()
        engine = self._operations.engine
        engine.last_poll_ms = self._operations.host.clock.now_ms()
        return not engine.state.is_auto or engine.membership.generation.is_valid

    # --- commits ----------------------------------------------------------------------------------------

    def commit_sync(
        self, offsets: Mapping[TopicPartition, Any] | None = None, timeout: float | None = None
    ) -> None:
        """Commit these offsets (the next records to read), or all positions, and wait for it."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.commit_sync(offsets, timeout))

    def commit_async(
        self, offsets: Mapping[TopicPartition, Any] | None = None, callback: Callback | None = None
    ) -> None:
        """Commit without waiting. `callback(offsets, error)` is called by a later poll or commit."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.commit_async(offsets, callback))

    def commit(
        self,
        offsets: Mapping[TopicPartition, Any] | None = None,
        timeout: float | None = None,
        *,
        message: ConsumerRecord[Any, Any] | None = None,
        asynchronous: bool = False,
    ) -> None:
        """As `commit_sync`; `message=record` commits the offset after that record."""
        offsets = arguments.after(message, offsets)
        if asynchronous:
            self.commit_async(offsets)
        else:
            self.commit_sync(offsets, timeout)

    def store_offsets(
        self,
        message: ConsumerRecord[Any, Any] | None = None,
        offsets: Mapping[TopicPartition, Any] | None = None,
    ) -> None:
        """Mark records as processed; the next commit without offsets takes what is marked.

        Needs `enable.auto.offset.store=false`: otherwise records count as processed once handed out.
        """
        with self._claim:
            self._enter()
            self._operations.store_offsets(arguments.after(message, offsets))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, Committed | None]:
        """What the group has committed; None where nothing was."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.committed(partitions, timeout))

    # --- positions --------------------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be returned."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.position(partition, timeout))

    def seek(self, partition: TopicPartition, offset: int | Committed) -> None:
        """Go on reading from this offset."""
        with self._claim:
            self._enter()
            self._operations.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record there is; of all partitions, if none is named."""
        with self._claim:
            self._enter()
            self._operations.seek_to(several(partitions), EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record; of all partitions, if none is named."""
        with self._claim:
            self._enter()
            self._operations.seek_to(several(partitions), LATEST)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go back to what was committed; of all partitions, if none is named."""
        with self._claim:
            self._enter()
            self._operations.seek_to(several(partitions), None)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        with self._claim:
            self._enter()
            self._operations.set_paused(several(partitions), is_paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on after `pause`."""
        with self._claim:
            self._enter()
            self._operations.set_paused(several(partitions), is_paused=False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._claim:
            self._enter()
            return self._operations.paused()

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end offset of the last fetch; None before the first."""
        with self._claim:
            self._enter()
            return self._operations.lag(partition)

    # --- lookups ----------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after a time (in milliseconds); None where there is none."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.offsets_for_times(timestamps, timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offsets of partitions, assigned or not."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.edge_offsets(partitions, EARLIEST, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets behind the last records of partitions, assigned or not."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.edge_offsets(partitions, LATEST, timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; none when it does not exist."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.partitions_for(topic, timeout))

    def topics(self, timeout: float | None = None) -> set[str]:
        """The names of all topics that this client may see."""
        return set(self.list_topics(timeout=timeout))

    def list_topics(self, topic: str | None = None, timeout: float | None = None) -> dict[str, TopicInfo]:
        """All topics, or one, with their partitions; a topic that does not exist is left out, not created."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.list_topics(topic, timeout))

    # --- how it is, and the end -------------------------------------------------------------------------

    def health(self) -> report.ConsumerHealth:
        """Whether all is well, and what is not; from any thread."""
        return report.health(self._operations)

    def metrics(self) -> report.ConsumerMetrics:
        """Counters, and the lag, which is None while that of a partition is not known; from any thread."""
        return report.metrics(self._operations)

    def rebalances(self) -> list[Rebalance]:
        """The last hundred rebalances: cause, phases, assigned and revoked partitions; from any thread."""
        return self._operations.engine.history.entries()

    def start(self) -> None:
        """Nothing is left to do; other clients have such a call."""

    def close(self, timeout: float | None = 30.0, leave: bool | None = None) -> None:
        """Commit if that is automatic, leave the group and stop; safe to call twice.

        The listener's `on_revoked` may commit; that counts toward `timeout`. A static member keeps its
        partitions for its next process; `leave` says whether the group is left, in place of that rule.
        """
        if self._operations.is_inherited:
            return  # membership and connections are those of the parent process
        with self._claim:
            if not self._operations.is_closing:
                self._handout.give_back()
                try:
                    run_blocking(self._operations.close(timeout, leave))
                finally:
                    self._operations.host.stop()

    stop = close


class MarkerReader(Consumer[Key, Value]):
    """A consumer that gives markers of transactions, too: `markers.marker_of` tells them from records."""

    _shows_markers = True
