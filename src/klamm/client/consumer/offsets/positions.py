"""Giving every partition a position: committed offset, reset policy, validation after a change of leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from klamm.client.committed import Committed
from klamm.client.consumer.fetch.fetching import POLICIES
from klamm.client.consumer.offsets.lookup import (
    FoundEpochEnd,
    FoundOffset,
    by_leader,
    epoch_ends,
    list_offsets,
)
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import PartitionState, PositionStatus, SubscriptionState
from klamm.client.runtime import Core
from klamm.errors import (
    KlammError,
    LogTruncationError,
    NoOffsetForPartitionError,
    TopicAuthorizationError,
)
from klamm.net.metadata import Metadata
from klamm.net.tasks import Promise
from klamm.protocol.types import ZERO_ID, TopicPartition

log = logging.getLogger(__name__)

LATEST: Final = -1


LoadCommitted = Callable[
    [Sequence[TopicPartition]], Coroutine[Promise[Any], None, dict[TopicPartition, Committed]]
]


class Positions:
    """Looks up missing positions. Runs on the client's thread; `update` is called during polls."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        inbox: Inbox,
        load_committed: LoadCommitted | None,
        drop_fetched: Callable[[TopicPartition], None],
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._inbox = inbox
        self._load_committed = load_committed
        self._drop_fetched = drop_fetched
        self._started: set[TopicPartition] = set()  # where start_at was applied
        self.are_settled = True  # plain, for a fast check: no partition waits for a position

    def update(self) -> int | None:
        """Start missing lookups; returns the instant of the next check, if one has to wait."""
        now_ms = self._core.now_ms
        initializing: list[TopicPartition] = []
        resets: dict[TopicPartition, int] = {}
        validations: dict[TopicPartition, int] = {}
        due_ms: int | None = None
        with self._state.lock:
            # Also here: a position may be newer than the metadata.
            self._check_epochs(self._core.metadata)
            self.are_settled = True
            for partition, state in self._state.partitions.items():
                if state.status is PositionStatus.FETCHING:
                    continue
                self.are_settled = False
                if state.is_asked:
                    continue
                if now_ms < state.retry_at_ms:
                    due_ms = state.retry_at_ms if due_ms is None else min(due_ms, state.retry_at_ms)
                elif state.status is PositionStatus.AWAIT_VALIDATION:
                    validations[partition] = state.leader_epoch
                elif state.status is PositionStatus.INITIALIZING and not self._start_at(partition, state):
                    initializing.append(partition)
                elif state.status is PositionStatus.AWAIT_RESET:
                    resets[partition] = state.reset_to
        if initializing:
            self._initialize(initializing)
        if resets:
            self._reset(resets)
        if validations:
            self._validate(validations)
        return due_ms

    def check_epochs(self) -> None:
        """A new leader may lack records that were read: check the position in its log first (KIP-320)."""
        metadata = self._core.metadata
        with self._state.lock:
            self._check_epochs(metadata)

    def _check_epochs(self, metadata: Metadata) -> None:
        topics = metadata.cluster.topics
        for partition, state in self._state.partitions.items():
            topic = topics.get(partition.topic)
            if topic is None:
                continue
            if topic.topic_id not in (state.topic_id, ZERO_ID):
                self._check_topic(partition, state, topic.topic_id)
            if not state.has_position:
                continue
            info = topic.partitions.get(partition.partition)
            if info is None or info.leader_epoch == state.current_leader_epoch or info.leader_epoch < 0:
                continue
            state.current_leader_epoch = info.leader_epoch
            if state.leader_epoch >= 0:
                state.status = PositionStatus.AWAIT_VALIDATION
                state.is_asked = False
                self.are_settled = False

    def _check_topic(self, partition: TopicPartition, state: PartitionState, topic_id: bytes) -> None:
        """A position belongs to a topic, not to its name: another topic of that name has other records."""
        if state.topic_id == ZERO_ID:
            state.topic_id = topic_id
            return
        policy = POLICIES.get(self._settings.reset_policy)
        if state.has_position:
            log.warning(
                "%s: topic was deleted and created again: position %d dropped, auto.offset.reset=%s applies",
                partition,
                state.offset,
                self._settings.reset_policy,
            )
        if state.status is PositionStatus.AWAIT_RESET:
            policy = state.reset_to  # asked for already; the answer on its way is of the old topic
        state.forget_log(topic_id)
        if policy is None or state.status is PositionStatus.INITIALIZING:
            state.initialize()
        else:
            state.request_reset(policy)
        self.are_settled = False
        self._drop_fetched(partition)

    def _start_at(self, partition: TopicPartition, state: PartitionState) -> bool:
        """Apply `start_at`, the first time that this consumer has the partition."""
        start = self._settings.start_at
        if isinstance(start, Mapping):
            start = start.get(partition)
        if start is None or partition in self._started:
            return False
        self._started.add(partition)
        if isinstance(start, datetime):
            state.request_reset(round(start.timestamp() * 1000))
        elif isinstance(start, str):
            state.request_reset(POLICIES[start])
        else:
            state.seek(int(start))
        return True

    # --- committed offsets ------------------------------------------------------------------------------

    def _initialize(self, partitions: list[TopicPartition]) -> None:
        questions = self._mark(partitions)
        if self._load_committed is None:
            self._fall_back(questions, set(partitions))
            return
        self._core.tasks.spawn(self._load(self._load_committed, questions))

    async def _load(self, load_committed: LoadCommitted, questions: Mapping[TopicPartition, int]) -> None:
        try:
            committed = await load_committed(list(questions))
        except KlammError as error:
            self._put_off(questions)
            if not error.retriable:
                self._inbox.fail(error)
            return
        with self._state.lock:
            missing: set[TopicPartition] = set()
            for partition, state in self._still_asked(questions, PositionStatus.INITIALIZING):
                found = committed.get(partition)
                if found is None:
                    missing.add(partition)
                else:
                    state.seek(found.offset, found.leader_epoch)
            self._check_epochs(self._core.metadata)
        self._fall_back(questions, missing)
        self._inbox.signal.set()

    def _fall_back(self, questions: Mapping[TopicPartition, int], partitions: set[TopicPartition]) -> None:
        """Nothing is committed: the reset policy decides."""
        if not partitions:
            return
        policy = POLICIES.get(self._settings.reset_policy)
        if policy is None:
            self._put_off(questions)
            self._inbox.fail(NoOffsetForPartitionError(sorted(partitions)))
            return
        with self._state.lock:
            for partition, state in self._still_asked(questions, PositionStatus.INITIALIZING):
                if partition in partitions:
                    state.request_reset(policy)
        self.update()

    # --- resets -----------------------------------------------------------------------------------------

    def _reset(self, timestamps: Mapping[TopicPartition, int]) -> None:
        led, lost = by_leader(self._core, timestamps)
        self._put_off(lost)
        for node_id, asked in led.items():
            questions = self._mark(asked)
            promise = list_offsets(
                self._core, node_id, asked, is_read_committed=self._settings.is_read_committed
            )
            promise.when_done(
                lambda done, questions=questions: self._found(questions, done.result())  # type: ignore[misc]  # a default binds it now
            )

    def _found(
        self,
        questions: Mapping[TopicPartition, int],
        results: Mapping[TopicPartition, FoundOffset | KlammError],
    ) -> None:
        with self._state.lock:
            for partition, state in self._still_asked(questions, PositionStatus.AWAIT_RESET):
                result = results[partition]
                if isinstance(result, KlammError):
                    self._failed(state, result)
                elif result.offset < 0:
                    state.request_reset(LATEST)  # no record is that recent: begin with the next one
                else:
                    log.info("%s: starting at offset %d", partition, result.offset)
                    info = self._core.metadata.cluster.partition(partition)
                    state.seek(
                        result.offset,
                        result.leader_epoch,
                        current_leader_epoch=info.leader_epoch if info else -1,
                    )
        self._inbox.signal.set()

    # --- validation -------------------------------------------------------------------------------------

    def _validate(self, epochs: Mapping[TopicPartition, int]) -> None:
        led, lost = by_leader(self._core, epochs)
        self._put_off(lost)
        for node_id, asked in led.items():
            questions = self._mark(asked)
            promise = epoch_ends(self._core, node_id, asked)
            promise.when_done(
                lambda done, questions=questions: self._validated(questions, done.result())  # type: ignore[misc]  # a default binds it now
            )

    def _validated(
        self,
        questions: Mapping[TopicPartition, int],
        results: Mapping[TopicPartition, FoundEpochEnd | KlammError],
    ) -> None:
        truncated: dict[TopicPartition, int] = {}
        with self._state.lock:
            for partition, state in self._still_asked(questions, PositionStatus.AWAIT_VALIDATION):
                result = results[partition]
                if isinstance(result, KlammError):
                    self._failed(state, result)
                    continue
                state.is_asked = False
                is_known = result.end_offset >= 0 and result.leader_epoch >= 0
                if is_known and result.end_offset >= state.offset:
                    state.status = PositionStatus.FETCHING
                    continue
                log.warning("%s was truncated below offset %d: %s", partition, state.offset, result)
                policy = POLICIES.get(self._settings.reset_policy)
                if policy is None:
                    truncated[partition] = result.end_offset
                    state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
                elif is_known:
                    state.seek(
                        result.end_offset,
                        result.leader_epoch,
                        current_leader_epoch=state.current_leader_epoch,
                    )
                else:
                    state.request_reset(policy)
        if truncated:
            self._inbox.fail(LogTruncationError(truncated))
        self._inbox.signal.set()

    # --- shared -----------------------------------------------------------------------------------------

    def _mark(
        self, partitions: Sequence[TopicPartition] | Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Record the lookup, with the seek count that must be unchanged when it completes."""
        with self._state.lock:
            questions = {}
            for partition in partitions:
                state = self._state.partitions.get(partition)
                if state is not None:
                    state.is_asked = True
                    questions[partition] = state.seek_count
            return questions

    def _still_asked(
        self, questions: Mapping[TopicPartition, int], status: PositionStatus
    ) -> list[tuple[TopicPartition, PartitionState]]:
        """The partitions that still need this result. A seek or another reset meanwhile takes precedence."""
        found = []
        for partition, seek_count in questions.items():
            state = self._state.partitions.get(partition)
            if state is not None and state.status is status and state.seek_count == seek_count:
                found.append((partition, state))
        return found

    def _put_off(self, partitions: Iterable[TopicPartition]) -> None:
        with self._state.lock:
            for partition in partitions:
                state = self._state.partitions.get(partition)
                if state is not None:
                    state.is_asked = False
                    state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms

    def _failed(self, state: PartitionState, error: KlammError) -> None:
        """Retry after a backoff, with newer metadata."""
        state.is_asked = False
        state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
        self._core.metadata.request_update()
        if isinstance(error, TopicAuthorizationError):
            self._inbox.fail(error)
