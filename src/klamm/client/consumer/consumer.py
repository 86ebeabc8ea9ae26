"""The consumer for programs that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, Generic, Self

from klamm.client.assignors.base import GroupMetadata
from klamm.client.config import MAX_FETCH_BYTES, MAX_RESPONSE_BYTES, ClientConfig
from klamm.client.consumer import report
from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.fetch.fetching import EARLIEST, LATEST
from klamm.client.consumer.group.listener import Callback as ListenerCallback
from klamm.client.consumer.group.listener import CallbackListener, RebalanceListener
from klamm.client.consumer.group.rebalance_log import Rebalance
from klamm.client.consumer.offsets.commits import Callback
from klamm.client.consumer.offsets.lookup import FoundOffset
from klamm.client.consumer.offsets.positions import Committed
from klamm.client.consumer.polling.claims import ThreadClaim
from klamm.client.consumer.polling.hosts import ThreadHost, ThreadSignal, run_blocking
from klamm.client.consumer.records import ConsumerRecord, K, Records, V
from klamm.client.consumer.settings import ConsumerSettings, parse
from klamm.client.runtime import ClientThread
from klamm.clock import Clock, SystemClock
from klamm.errors import IllegalStateError
from klamm.protocol.types import TopicPartition

numbers = count(1)


class Consumer(Generic[K, V]):
    """Reads records; settings by Kafka's names, as a dictionary or keywords.

    Given topics, it subscribes to them. One thread at a time may use it; others may call `wakeup()`.
    Times are in seconds unless a name says otherwise.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        key_deserializer: Callable[[bytes | None], K] | None = None,
        value_deserializer: Callable[[bytes | None], V] | None = None,
        **settings: Any,
    ) -> None:
        names, config = split_arguments(topics, config)
        for name, given in (
            ("key_deserializer", key_deserializer),
            ("value_deserializer", value_deserializer),
        ):
            if given is not None:
                settings[name] = given
        parsed, checked = parse(config, settings, next(numbers))
        clock = clock or SystemClock()
        thread = client_thread(parsed, checked, clock, random or Random())
        host = ThreadHost(thread, ThreadSignal(clock))
        self._begin(ConsumerOperations(host, checked))
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _enter(self) -> None:
        """Every call but reading: what was taken and not handed out yet is not consumed."""
        if self._operations.is_closed:
            raise IllegalStateError("this consumer is closed")
        if self._handout.give_back():
            self._inbox.needs_attention = True

    # --- subscription -----------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: Any = None,
        on_assign: ListenerCallback | None = None,
        on_revoke: ListenerCallback | None = None,
        on_lost: ListenerCallback | None = None,
    ) -> None:
        """Read topics, by name or by a pattern of whole names, as a member of the group."""
        with self._claim:
            self._enter()
            heard = chosen_listener(listener, on_assign, on_revoke, on_lost)
            run_blocking(self._operations.subscribe(topics, pattern, heard))

    def subscription(self) -> set[str]:
        """The topics subscribed to, or matched by the pattern so far."""
        with self._claim:
            self._enter()
            return set(self._operations.state.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them in a group."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer has now."""
        with self._claim:
            self._enter()
            return set(self._operations.state.partitions)

    def unsubscribe(self) -> None:
        """Give up topics and partitions, and leave the group."""
        with self._claim:
            self._enter()
            run_blocking(self._operations.unsubscribe())

    unassign = unsubscribe

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group share its partitions anew, in the next poll."""
        with self._claim:
            self._enter()
            self._operations.enforce_rebalance(reason)

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group; for `send_offsets_to_transaction`."""
        with self._claim:
            self._enter()
            return self._operations.group_metadata()

    # --- records ----------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> Records[K, V]:
        """Records, as soon as there are any; none after `timeout` seconds (None: wait for ever)."""
        with self._claim:
            self._enter()
            limit = self._limit if max_records is None else max_records
            records = self._poller.poll_nowait(limit)
            if records is None:
                records = run_blocking(self._operations.poll(timeout, limit))
            return records

    consume = poll

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
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

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Records, one after the other, for ever. Positions move with each."""
        handout, inbox = self._handout, self._inbox
        while True:
            for record in handout.records:
                handout.count += 1
                yield record
                if inbox.needs_attention:
                    break
            handout.start(self.poll())

    def getone(self, timeout: float | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came in time."""
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

    def __next__(self) -> ConsumerRecord[K, V]:
        while (record := self.getone()) is None:
            continue
        return record

    def wakeup(self) -> None:
        """Make the call that another thread waits in, or its next one, raise WakeupError."""
        self._poller.wake_up()

    def keepalive(self) -> bool:
        """Say that a long piece of work goes on, as a poll would; whether this is still a member.

        May be called from any thread.
        """
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
        asynchronous: bool = False,
    ) -> None:
        """As `commit_sync`."""
        if asynchronous:
            self.commit_async(offsets)
        else:
            self.commit_sync(offsets, timeout)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, Committed | None]:
        """What the group has committed; None where nothing was."""
        with self._claim:
            self._enter()
            return run_blocking(self._operations.committed(partitions, timeout))

    # --- positions --------------------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be handed out."""
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
        """Hand out nothing of these partitions until `resume`; membership goes on."""
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
        """Records between the position and the end, as the last fetch saw it; None if there was none."""
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

    # --- how it is, and the end -------------------------------------------------------------------------

    def health(self) -> report.Health:
        """Whether all is well, and what is not; from any thread."""
        return report.health(self._operations)

    def metrics(self) -> dict[str, int]:
        """Counters and lag; from any thread."""
        return report.metrics(self._operations)

    def rebalances(self) -> list[Rebalance]:
        """The last hundred rebalances: cause, phases, what came and went; from any thread."""
        return self._operations.engine.history.entries()

    def start(self) -> None:
        """Nothing is left to do; other clients have such a call."""

    def close(self, timeout: float | None = 30.0) -> None:
        """Commit if that is automatic, leave the group and stop; safe to call twice."""
        with self._claim:
            if not self._operations.is_closed:
                self._handout.give_back()
                try:
                    run_blocking(self._operations.close(timeout))
                finally:
                    self._operations.host.stop()

    stop = close


def client_thread(
    parsed: ClientConfig, settings: ConsumerSettings, clock: Clock, random: Random
) -> ClientThread:
    """The thread of a consumer, not started yet."""
    # The first batch of an answer comes whole, whatever its size: there must be room beside the limit.
    largest = max(MAX_FETCH_BYTES, settings.fetch_max_bytes + MAX_RESPONSE_BYTES)
    return ClientThread(
        parsed.network(settings.client_id, largest),
        parsed.metadata(allow_auto_topic_creation=parsed.values.boolean("allow.auto.create.topics")),
        clock=clock,
        random=random,
        name=settings.client_id,
    )


def split_arguments(
    topics: tuple[str | Mapping[str, Any], ...], config: Mapping[str, Any] | None
) -> tuple[list[str], Mapping[str, Any] | None]:
    """Topics, and a configuration that may stand first, as in other clients."""
    names: list[str] = []
    for item in topics:
        if isinstance(item, str):
            names.append(item)
        elif isinstance(item, Mapping) and config is None:
            config = item
        else:
            raise TypeError(f"Consumer takes names of topics and one dictionary of settings, not {item!r}")
    return names, config


def chosen_listener(
    listener: RebalanceListener | None,
    on_assign: ListenerCallback | None,
    on_revoke: ListenerCallback | None,
    on_lost: ListenerCallback | None,
) -> RebalanceListener | None:
    """The listener, or plain functions in its place."""
    if on_assign is None and on_revoke is None and on_lost is None:
        return listener
    if listener is not None:
        raise ValueError("give a listener or on_assign, on_revoke and on_lost, not both")
    return CallbackListener(on_assign, on_revoke, on_lost)


def several(partitions: tuple[Any, ...]) -> list[Any]:
    """Partitions given one by one, or as one list."""
    if len(partitions) == 1 and not isinstance(partitions[0], TopicPartition):
        return list(partitions[0])
    return list(partitions)
