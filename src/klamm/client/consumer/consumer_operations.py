"""What a consumer can do, written once for its faces. Arguments are checked before anything changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.client.consumer import arguments
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.group.rebalancing import OnLeave, group_metadata
from klamm.client.consumer.offsets.commits import Callback
from klamm.client.consumer.offsets.lookup import FoundOffset, all_topics, find_offsets, partition_numbers
from klamm.client.consumer.offsets.to_commit import ToCommit, consumed, named
from klamm.client.consumer.polling.engine import Engine
from klamm.client.consumer.polling.hosts import ConsumerHost
from klamm.client.consumer.polling.poll import Poller
from klamm.client.consumer.records import Records
from klamm.client.consumer.report import metrics
from klamm.client.consumer.settings import CONSUMER_PROTOCOL, ConsumerSettings
from klamm.client.consumer.state import PositionStatus, SubscriptionPattern, SubscriptionType
from klamm.client.statistics import Statistics
from klamm.client.topic_names import check_topic_names
from klamm.errors import IllegalStateError, InvalidGroupIdError, KlammError, KlammTimeoutError
from klamm.net.cluster import TopicInfo
from klamm.net.reactor import InheritedError
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)


class ConsumerOperations:
    """The operations of a consumer, without the check that one thread at a time calls them."""

    def __init__(self, host: ConsumerHost, settings: ConsumerSettings) -> None:
        self.host = host
        self.settings = settings
        self.engine = Engine(host, settings)
        self.state = self.engine.state
        self.state.commits_stored = settings.commits_stored
        self.poller = Poller(self.engine, host)
        if settings.statistics_callback is not None:
            host.core.components.append(
                Statistics(
                    settings.statistics_callback,
                    settings.statistics_interval_ms,
                    lambda: metrics(self),
                    host.clock.now_ms(),
                )
            )
        self.leaves_without_commit = False  # for programs of kafka-python, which may ask for that
        self.is_closing = False  # the listener may still commit, seek and ask for positions
        self.is_closed = False
        self._closes_by_ms = 0

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and the consumer is its parent's."""
        return isinstance(self.host.failure, InheritedError)

    def _check_group(self) -> None:
        if self.settings.group_id is None:
            raise InvalidGroupIdError("this needs a group: give the consumer a group.id")

    def _check_not_closing(self) -> None:
        if self.is_closing:
            raise IllegalStateError("this consumer is closing: a listener may commit now, not read")

    def _limit_ms(self, timeout_s: float | None) -> int:
        return self._left_ms(arguments.timeout_ms(timeout_s, self.settings.default_api_timeout_ms))

    def _left_ms(self, limit_ms: int) -> int:
        """A limit, cut to the time-out of close(): what a listener does counts toward it."""
        if not self.is_closing:
            return limit_ms
        return max(0, min(limit_ms, self._closes_by_ms - self.host.clock.now_ms()))

    # --- subscription -----------------------------------------------------------------------------------

    async def subscribe(self, topics: Any, pattern: Any, listener: RebalanceListener | None) -> None:
        """Read topics as a member of the group."""
        self._check_not_closing()
        self._check_group()
        if isinstance(pattern, SubscriptionPattern) and topics is None:
            await self._subscribe_broker_pattern(pattern, listener)
            return
        topics, pattern = arguments.split_pattern(topics, pattern)
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe expects topics or a pattern: give exactly one")
        _check_listener(listener)
        names = None if topics is None else arguments.topic_names(topics)
        compiled = None if pattern is None else arguments.compiled_pattern(pattern)
        wanted = SubscriptionType.AUTO_TOPICS if compiled is None else SubscriptionType.AUTO_PATTERN
        self.state.check_type(wanted)
        if not self.settings.assignors and self.settings.group_protocol != CONSUMER_PROTOCOL:
            raise IllegalStateError("partition.assignment.strategy is empty: name an assignor to subscribe")
        if compiled is None and not names:
            await self.unsubscribe()
            return
        with self.state.lock:
            if compiled is not None:
                self.state.set_pattern(compiled)
            else:
                self.state.set_topics(names or ())
        self.engine.rebalancing.listener = listener or RebalanceListener()
        self._changed()

    async def _subscribe_broker_pattern(
        self, pattern: SubscriptionPattern, listener: RebalanceListener | None
    ) -> None:
        """Read the topics that the coordinator finds with a regular expression."""
        _check_listener(listener)
        if not pattern.pattern:
            raise ValueError("pattern must not be empty: it would match no topic")
        if self.settings.group_protocol != CONSUMER_PROTOCOL:
            raise IllegalStateError(
                "SubscriptionPattern is matched by the coordinator, which needs group.protocol=consumer; "
                "with the classic protocol give a pattern of Python's re"
            )
        with self.state.lock:
            self.state.set_broker_pattern(pattern.pattern)
        self.engine.rebalancing.listener = listener or RebalanceListener()
        self._changed()

    async def assign(self, partitions: Any) -> None:
        """Read exactly these partitions, without group management."""
        self._check_not_closing()
        wanted = arguments.partitions_of(partitions)
        check_topic_names({partition.topic for partition in wanted})
        self.state.check_type(SubscriptionType.USER_ASSIGNED)
        if not wanted:
            await self.unsubscribe()
            return
        self.engine.auto_commit.run_if_due(self.host.clock.now_ms())
        with self.state.lock:
            self.state.assign_manually(wanted)
        self._changed()

    async def assign_more(self, partitions: Any) -> None:
        """Add partitions to those assigned by the caller."""
        self.state.check_type(SubscriptionType.USER_ASSIGNED)
        wanted = [*self.state.partitions, *arguments.partitions_of(partitions)]
        await self.assign(list(dict.fromkeys(wanted)))

    async def assign_less(self, partitions: Any) -> None:
        """Take partitions away from those assigned by the caller."""
        self.state.check_type(SubscriptionType.USER_ASSIGNED)
        going = arguments.partitions_of(partitions)
        for partition in going:
            self.state[partition]  # raises for one that is not assigned
        await self.assign([partition for partition in self.state.partitions if partition not in going])

    def _changed(self) -> None:
        self.host.submit(self.engine.subscription_changed)
        self.engine.inbox.needs_attention = True

    async def unsubscribe(self) -> None:
        """Unsubscribe: commit, call the listener, leave the group."""
        if self.state.type is SubscriptionType.NONE or self.is_closing:
            return
        await self._commit_before_leaving(self.settings.request_timeout_ms)
        try:
            await self._leave("unsubscribe", self.settings.request_timeout_ms)
        finally:
            with self.state.lock:
                self.state.unsubscribe()
            self.engine.buffer.clear()
            self._changed()

    async def _commit_before_leaving(self, limit_ms: int) -> None:
        """Kafka commits on close only; but a caller that unsubscribes has processed its records too."""
        if not self.settings.is_auto_commit or self.leaves_without_commit:
            return
        with self.state.lock:
            to_commit = consumed(self.state)
        try:
            await self._commit(to_commit, limit_ms)
        except KlammError as error:
            log.warning("group %s: commit failed: %s", self.settings.group_id, error)

    async def _leave(self, reason: str, limit_ms: int, leaves: bool | None = None) -> None:
        if not self.state.is_auto:
            return
        engine = self.engine

        async def step_back() -> bool:
            engine.joining.abandon()
            engine.inbox.jobs.clear()
            return engine.membership.generation.is_valid and not engine.membership.is_rebalancing

        is_member = await self.poller.ask(step_back)
        try:
            await OnLeave(engine.rebalancing, is_member=is_member)()
            await self._finish_commits(self._left_ms(limit_ms))  # those of the listener
        finally:
            await self._leave_group(reason, self._left_ms(limit_ms), leaves)

    async def _leave_group(self, reason: str, limit_ms: int, leaves: bool | None) -> None:
        engine = self.engine

        async def leave() -> None:
            await engine.core.tasks.within(
                engine.membership.leave(reason, leaves), limit_ms, "leaving the group"
            )

        try:
            await self.poller.ask(leave)
        except KlammTimeoutError as error:
            log.info("group %s: %s", self.settings.group_id, error)

    def enforce_rebalance(self, reason: str | None) -> None:
        """Join again in the next poll."""
        self._check_group()
        if self.settings.group_protocol == CONSUMER_PROTOCOL:
            raise IllegalStateError(
                "enforce_rebalance() needs group.protocol=classic: with the consumer protocol the "
                "coordinator decides when partitions move"
            )
        cause = reason or "enforce_rebalance() was called"
        self.host.submit(lambda: self.engine.membership.request_rejoin(cause))

    def group_metadata(self) -> GroupMetadata:
        self._check_group()
        return group_metadata(self.settings, self.engine.membership.generation)

    # --- records ----------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float | None, limit: int) -> Records:
        self._check_not_closing()
        if self.state.type is SubscriptionType.NONE:
            raise IllegalStateError("nothing to poll: subscribe to topics, or assign partitions, first")
        if limit < 1:
            raise ValueError(f"max_records={limit}: expected 1 or more")
        return await self.poller.poll(arguments.due_at(self.host.patience.now_ms(), timeout_s), limit)

    # --- commits ----------------------------------------------------------------------------------------

    def _to_commit(self, offsets: Any) -> ToCommit:
        self._check_group()
        if self.engine.commits.fenced is not None:
            raise self.engine.commits.fenced
        if offsets is not None:
            cluster = self.engine.core.metadata.cluster
            return named(arguments.committable(offsets), self.state, cluster)
        with self.state.lock:
            return consumed(self.state)

    async def commit_sync(self, offsets: Any, timeout_s: float | None) -> None:
        """Commit and wait. Callbacks of earlier asynchronous commits run first."""
        limit_ms = self._limit_ms(timeout_s)
        to_commit = self._to_commit(offsets)
        await self._finish_commits(limit_ms)
        await self._commit(to_commit, limit_ms)

    async def _commit(self, to_commit: ToCommit, limit_ms: int) -> None:
        if not to_commit:
            return
        engine = self.engine
        await self.poller.ask(
            lambda: engine.commits.commit(to_commit, engine.calls.deadline("committing", limit_ms))
        )

    async def _finish_commits(self, limit_ms: int) -> None:
        await self.poller.ask(lambda: self.engine.commits.drain(limit_ms))
        await self.poller.run_callbacks()

    def store_offsets(self, offsets: Any) -> None:
        """Mark offsets for the next commit."""
        self._check_group()
        if not self.state.commits_stored:
            raise IllegalStateError("store_offsets() needs enable.auto.offset.store=false: set it")
        if offsets is None:
            raise ValueError("store_offsets() needs a message or offsets")
        stored = arguments.committable(offsets)
        with self.state.lock:
            for partition, item in stored.items():
                self.state[partition].stored = (item.offset, item.leader_epoch)

    async def commit_async(self, offsets: Any, callback: Callback | None) -> None:
        """Commit without waiting; the callback is run by a later call."""
        to_commit, checked = self._to_commit(offsets), arguments.a_commit_callback(callback)
        await self.poller.run_callbacks()
        self.host.submit(lambda: self.engine.commits.commit_async(to_commit, checked))

    async def committed(
        self, partitions: Any, timeout_s: float | None
    ) -> dict[TopicPartition, Committed | None]:
        """What was committed; None where nothing was."""
        self._check_group()
        wanted = arguments.partitions_of(partitions)
        if not wanted:
            return {}
        engine, limit_ms = self.engine, self._limit_ms(timeout_s)
        found = await self.poller.ask(
            lambda: engine.committed.get(wanted, engine.calls.deadline("reading committed offsets", limit_ms))
        )
        return {partition: found.get(partition) for partition in wanted}

    # --- positions --------------------------------------------------------------------------------------

    async def position(self, partition: Any, timeout_s: float | None) -> int:
        """The offset of the next record, looked up if need be."""
        wanted, limit_ms = arguments.a_partition(partition), self._limit_ms(timeout_s)
        due_at_ms = self.host.patience.now_ms() + limit_ms
        self.engine.poll_depth += 1
        try:
            while True:
                self.host.signal.clear()
                with self.state.lock:
                    found = self.state[wanted]
                    if found.status is PositionStatus.FETCHING:
                        return found.offset
                self.poller.raise_if_woken()
                if self.engine.inbox.failures:
                    raise self.engine.inbox.failures.popleft()
                self.host.check()
                if self.host.patience.now_ms() >= due_at_ms:
                    raise KlammTimeoutError(f"no position of {wanted} within {limit_ms} ms")
                self.host.submit(self.engine.look_up_positions)
                await self.host.signal.wait(self.poller.on_clock(due_at_ms))
        finally:
            self.engine.poll_depth -= 1

    def seek(self, partition: Any, offset: Any, leader_epoch: int = -1) -> None:
        """Go to an offset; the next poll reads from there."""
        wanted = arguments.a_partition(partition)
        if isinstance(offset, Committed):
            offset, leader_epoch = offset.offset, offset.leader_epoch
        target = arguments.an_offset(offset)
        with self.state.lock:
            state = self.state[wanted]
            state.seek(target, leader_epoch)
            state.read_topic_id = state.topic_id  # the caller chose it for the topic as it is now
        self.engine.inbox.needs_attention = True

    def seek_to(self, partitions: Any, timestamp: int | None) -> None:
        """Seek to the beginning (-2), the end (-1) or the committed offset (None); no partitions: all.

        The next poll finds out where that is.
        """
        if timestamp is None:
            self._check_group()
        wanted = arguments.partitions_of(partitions) or list(self.state.partitions)
        with self.state.lock:
            for state in [self.state[partition] for partition in wanted]:
                if timestamp is None:
                    state.initialize()
                else:
                    state.request_reset(timestamp)
        self.engine.inbox.needs_attention = True

    def set_paused(self, partitions: Any, *, is_paused: bool) -> None:
        """Stop or go on handing out records of partitions; what is buffered stays."""
        wanted = arguments.partitions_of(partitions)
        with self.state.lock:
            for state in [self.state[partition] for partition in wanted]:
                state.is_paused = is_paused
        self.engine.inbox.needs_attention = True

    def paused(self) -> set[TopicPartition]:
        with self.state.lock:
            return {partition for partition, state in self.state.partitions.items() if state.is_paused}

    def lag(self, partition: Any) -> int | None:
        """The number of records between the position and the end; None while either is unknown."""
        wanted = arguments.a_partition(partition)
        with self.state.lock:
            state = self.state[wanted]
            end = state.last_stable_offset if self.settings.is_read_committed else state.high_watermark
            if not state.has_position or end < 0:
                return None
            return max(0, end - state.offset)

    # --- lookups ----------------------------------------------------------------------------------------

    async def offsets_for_times(
        self, timestamps: Any, timeout_s: float | None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after a time, for each partition; None where there is none."""
        found = await self._find(arguments.timestamps_of(timestamps), timeout_s)
        return {key: item if item.offset >= 0 else None for key, item in found.items()}

    async def edge_offsets(
        self, partitions: Any, timestamp: int, timeout_s: float | None
    ) -> dict[TopicPartition, int]:
        """First (-2) or next (-1) offsets of partitions, assigned or not."""
        wanted = dict.fromkeys(arguments.partitions_of(partitions), timestamp)
        return {key: item.offset for key, item in (await self._find(wanted, timeout_s)).items()}

    async def _find(
        self, wanted: Mapping[TopicPartition, int], timeout_s: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        calls, limit_ms = self.engine.calls, self._limit_ms(timeout_s)
        return await self.poller.ask(
            lambda: find_offsets(
                calls,
                wanted,
                calls.deadline("looking up offsets", limit_ms),
                is_read_committed=self.settings.is_read_committed,
            )
        )

    async def partitions_for(self, topic: str, timeout_s: float | None) -> list[TopicPartition]:
        """The partitions of a topic; none when it does not exist."""
        (name,) = arguments.topic_names([topic])
        calls, limit_ms = self.engine.calls, self._limit_ms(timeout_s)
        numbers = await self.poller.ask(
            lambda: partition_numbers(calls, name, calls.deadline(f"metadata of {name}", limit_ms))
        )
        return [TopicPartition(name, number) for number in numbers]

    async def list_topics(self, topic: str | None, timeout_s: float | None) -> dict[str, TopicInfo]:
        """All topics, or one."""
        names = None if topic is None else arguments.topic_names([topic])
        calls, limit_ms = self.engine.calls, self._limit_ms(timeout_s)
        return await self.poller.ask(
            lambda: all_topics(calls, names, calls.deadline("listing topics", limit_ms))
        )

    # --- the end ----------------------------------------------------------------------------------------

    async def close(self, timeout_s: float | None, leaves: bool | None = None) -> None:
        """Commit, call the listener, leave the group; the face stops the thread then.

        The consumer is closed when that is done: until then a listener may commit.
        """
        if self.is_closing:
            return
        limit_ms = arguments.timeout_ms(timeout_s, 2**31 - 1)
        self.is_closing = True
        self.poller.ignores_wakeups = True
        self._closes_by_ms = self.host.clock.now_ms() + limit_ms
        try:
            await self._finish(limit_ms, leaves)
        finally:
            self.is_closed = True
            with self.state.lock:
                self.state.unsubscribe()
            self.host.submit(self.engine.fetching.end_sessions)

    async def _finish(self, limit_ms: int, leaves: bool | None) -> None:
        try:
            self.host.check()
            await self._commit_before_leaving(limit_ms)
            await self._finish_commits(self._left_ms(limit_ms))
        except KlammError as error:
            log.warning("group %s: closing failed: %s", self.settings.group_id, error)
        await self._leave("close", limit_ms, leaves)


def _check_listener(listener: object) -> None:
    if listener is not None and not isinstance(listener, RebalanceListener):
        raise TypeError(f"a listener is a RebalanceListener, not {type(listener).__name__}")
