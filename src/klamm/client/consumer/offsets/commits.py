"""Committing and reading offsets, in the group or in a store of the member's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.client.calls import Deadline, by_topic
from klamm.client.consumer.group.coordinator import MOVED, Coordinator
from klamm.client.consumer.group.generation import NO_GENERATION, Generation, MemberState
from klamm.client.consumer.group.membership import Membership
from klamm.client.consumer.offsets.positions import Committed
from klamm.client.consumer.offsets.stores import OffsetStore
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.client.runtime import Core
from klamm.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KlammError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
    broker_error,
)
from klamm.net.network import Node, backoff_ms
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)

NAMES_VERSION: Final = 9  # the last version that speaks of topics by name
FORGETS_COORDINATOR: Final = (*MOVED, ErrorCode.request_timed_out)
FORMER_MEMBER: Final = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation)

Offsets = Mapping[TopicPartition, Committed]
Callback = Callable[[Offsets, KlammError | None], Any]


class Commits:
    """Sends commits. Lives on the client's thread; callbacks are run by the poller, in order."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        inbox: Inbox,
        coordinator: Coordinator,
        membership: Membership,
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._inbox = inbox
        self._coordinator = coordinator
        self._membership = membership
        self._in_flight = 0
        self._idle: Promise[None] | None = None
        self.fenced: FencedInstanceIdError | None = None  # an asynchronous commit was: raised ever after
        self.count = 0
        self.failure_count = 0

    @property
    def store(self) -> OffsetStore | None:
        return self._settings.offset_store  # type: ignore[no-any-return]  # checked when it was set

    @property
    def owner(self) -> tuple[str, str]:
        settings = self._settings
        return settings.group_id or "", settings.group_instance_id or settings.client_id

    # --- the kinds of commit ----------------------------------------------------------------------------

    async def commit(self, offsets: Offsets, deadline: Deadline) -> None:
        """Commit, again and again while that may help; raises what it cannot mend, or the time is up."""
        while True:
            try:
                attempt = self._core.tasks.spawn(self._commit_once_found(offsets))
                await self._core.tasks.within(attempt, deadline.remaining_ms(), "committing")
            except KlammError as error:
                await deadline.pause(error)
            else:
                return

    async def _commit_once_found(self, offsets: Offsets) -> None:
        if self.store is None:
            await self._coordinator.ensure()
        await self.commit_once(offsets)

    def commit_async(self, offsets: Offsets, callback: Callback | None) -> None:
        """Commit once. Repeating it could overtake a later commit, so that is left to the caller."""
        self._in_flight += 1

        def done(promise: Promise[None]) -> None:
            self._finished()
            error = promise.error
            if isinstance(error, KlammError) and error.retriable:
                failure = RetriableCommitFailedError(f"the commit failed and may be repeated: {error}")
                failure.__cause__ = error
                error = failure
            if isinstance(error, FencedInstanceIdError):
                self.fenced = error
                self._inbox.ring()
            if error is not None:
                log.log(logging.DEBUG if callback else logging.WARNING, "commit of %s: %s", offsets, error)
            if callback is not None:
                self._inbox.call_back(_calling(callback, offsets, error))
            else:
                self._inbox.signal.set()

        self._core.tasks.spawn(self.commit_once(offsets)).when_done(done)

    def _finished(self) -> None:
        self._in_flight -= 1
        if not self._in_flight and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.resolve(None)

    async def drain(self, limit_ms: int) -> None:
        """Wait for the asynchronous commits under way."""
        if not self._in_flight:
            return
        if self._idle is None:
            self._idle = Promise()
        await self._core.tasks.within(self._idle, limit_ms, "waiting for asynchronous commits")

    async def commit_before_rebalance(self, offsets: Offsets, limit_ms: int) -> None:
        """Commit what was read before it is given up; what cannot be committed is let go, with a warning."""
        if not offsets:
            return
        due_at_ms = self._core.now_ms + limit_ms
        attempt = 0
        while True:
            left_ms = due_at_ms - self._core.now_ms
            try:
                await self._core.tasks.within(
                    self._core.tasks.spawn(self.commit_once(offsets)), max(0, left_ms), "committing"
                )
            except KlammError as error:
                if not error.retriable or self._core.now_ms >= due_at_ms:
                    log.warning("group %s: commit failed: %s", self._settings.group_id, error)
                    return
                log.info("group %s: retrying commit: %s", self._settings.group_id, error)
            else:
                return
            await self._core.tasks.sleep(
                backoff_ms(
                    self._settings.retry_backoff_ms,
                    self._settings.retry_backoff_max_ms,
                    attempt,
                    self._core.random,
                )
            )
            attempt += 1

    # --- one commit -------------------------------------------------------------------------------------

    async def commit_once(self, offsets: Offsets) -> None:
        """One attempt; raises why it failed."""
        if not offsets:
            return
        if self.store is not None:
            self.store.save(self.owner, offsets)
            self.count += 1
            return
        generation = self._generation()
        node = await self._coordinator.find()
        request = OffsetCommitRequest(
            group_id=self._settings.group_id or "",
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id if generation.is_valid else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(number, *offsets[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )
        try:
            response: OffsetCommitResponse = await self._core.tasks.request(
                node, ApiKey.OFFSET_COMMIT, request, max_version=NAMES_VERSION
            )
            self._judge(response, generation, node)
        except KlammError as error:
            self.failure_count += 1
            self._coordinator.judge(error, node)
            raise
        self.count += 1

    def _generation(self) -> Generation:
        """What a commit carries; raises when it could only be refused."""
        if not self._state.is_auto:
            return NO_GENERATION
        membership = self._membership
        if membership.state is MemberState.STABLE:
            return membership.generation
        if membership.is_rebalancing:
            raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
        raise self._not_a_member("this consumer is not a member of its group now")

    def _not_a_member(self, what: str) -> CommitFailedError:
        why = f" ({self._membership.overdue})" if self._membership.overdue else ""
        return CommitFailedError(
            f"{what}{why}; its partitions belong to somebody else. If processing takes long, raise "
            f"max.poll.interval.ms (now {self._settings.max_poll_interval_ms}) or lower max.poll.records "
            f"(now {self._settings.max_poll_records})"
        )

    def _judge(self, response: OffsetCommitResponse, sent: Generation, node: Node) -> None:
        forbidden: list[str] = []
        for topic in response.topics:
            for item in topic.partitions:
                if item.error_code == ErrorCode.topic_authorization_failed:
                    forbidden.append(topic.name)
                elif item.error_code:
                    partition = TopicPartition(topic.name, item.partition_index)
                    self._refused(item.error_code, partition, sent, node)
        if forbidden:
            listed = ", ".join(sorted(set(forbidden)))
            raise TopicAuthorizationError(f"no right to commit offsets of {listed}")

    def _refused(self, code: int, partition: TopicPartition, sent: Generation, node: Node) -> None:
        membership = self._membership
        error = broker_error(code, f"committing {partition} of group {self._settings.group_id}")
        is_current = membership.generation == sent
        if code in FORGETS_COORDINATOR:
            self._coordinator.mark_unknown(str(error), node)
        elif code == ErrorCode.rebalance_in_progress:
            if is_current:
                membership.request_rejoin("a commit was refused: the group is rebalancing")
            raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
        elif code in FORMER_MEMBER or code == ErrorCode.fenced_instance_id:
            if not is_current:
                if membership.state is MemberState.PREPARING:
                    raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
                # Kafka would reset the new, healthy generation here.
                raise self._not_a_member(f"committing {partition}: the generation has changed")
            if code in FORMER_MEMBER:
                if self._state.is_auto:
                    membership.reset(str(error), keeps_id=code == ErrorCode.illegal_generation)
                raise self._not_a_member(str(error))
        raise error


def _calling(callback: Callback, offsets: Offsets, error: BaseException | None) -> Callable[[], Any]:
    async def call() -> None:
        result = callback(offsets, error)  # type: ignore[arg-type]  # what a commit raises is a KlammError
        if hasattr(result, "__await__"):
            await result

    return call


def consumed(
    offsets: Mapping[TopicPartition, tuple[int, int]], only: Sequence[TopicPartition] | None
) -> Offsets:
    """Positions as something to commit."""
    return {
        partition: Committed(offset, leader_epoch)
        for partition, (offset, leader_epoch) in offsets.items()
        if only is None or partition in only
    }
