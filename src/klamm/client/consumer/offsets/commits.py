"""Committing and reading offsets, in the group or in a store of the member's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.client.calls import Deadline
from klamm.client.committed import Committed
from klamm.client.consumer.group.coordinator import MOVED, CoordinatorLookup
from klamm.client.consumer.group.generation import Generation
from klamm.client.consumer.group.roles import Fencing
from klamm.client.consumer.offsets.stores import OffsetStore
from klamm.client.consumer.offsets.to_commit import ToCommit
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.client.interceptors import call_all
from klamm.client.runtime import Core
from klamm.errors import (
    FencedInstanceIdError,
    KlammError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
    UnknownTopicError,
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
from klamm.protocol.types import ZERO_ID, TopicPartition

log = logging.getLogger(__name__)

NAMES_VERSION: Final = 9  # the last version with topic names; later ones use topic ids
FORGETS_COORDINATOR: Final = (*MOVED, ErrorCode.request_timed_out)
UNKNOWN: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)

Offsets = Mapping[TopicPartition, Committed]
Callback = Callable[[Offsets, KlammError | None], Any]


class Commits:
    """Sends commits. Runs on the client's thread; callbacks are run by the poller, in order."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        inbox: Inbox,
        coordinator: CoordinatorLookup,
        fencing: Fencing,
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._inbox = inbox
        self._coordinator = coordinator
        self._fencing = fencing
        self._in_flight = 0
        self._idle: Promise[None] | None = None
        self.fenced: FencedInstanceIdError | None = None  # an asynchronous commit was: raised ever after
        self._refused_partitions: set[tuple[TopicPartition, bytes]] = set()  # unknown to the coordinator
        self._reported: set[tuple[TopicPartition, bytes]] = set()  # of which a warning was logged
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

    async def commit(self, offsets: ToCommit, deadline: Deadline) -> None:
        """Commit, again and again while that may help; raises what it cannot mend, or the time is up."""
        while True:
            try:
                attempt = self._core.tasks.spawn(self._commit_once_found(offsets, deadline.due_at_ms))
                await self._core.tasks.within(attempt, deadline.remaining_ms(), "committing")
            except KlammError as error:
                await deadline.pause(error)
            else:
                return

    async def _commit_once_found(self, offsets: ToCommit, due_at_ms: int) -> None:
        if self.store is None:
            await self._coordinator.ensure(due_at_ms)
        await self.commit_once(offsets, due_at_ms)

    def commit_async(self, to_commit: ToCommit, callback: Callback | None) -> None:
        """Commit once. Repeating it could overtake a later commit, so that is left to the caller."""
        self._in_flight += 1
        offsets = to_commit.offsets

        def done(promise: Promise[None]) -> None:
            self._finished()
            error = promise.error
            if isinstance(error, KlammError) and error.retriable:
                failure = RetriableCommitFailedError(f"the commit failed and may be repeated: {error}")
                failure.__cause__ = error
                error = failure
            if isinstance(error, FencedInstanceIdError):
                self.fenced = error
                self._inbox.wake_up()
            if error is not None:
                log.log(logging.DEBUG if callback else logging.WARNING, "commit of %s: %s", offsets, error)
            if callback is not None:
                self._inbox.call_back(_calling(callback, offsets, error))
            else:
                self._inbox.signal.set()

        self._core.tasks.spawn(self.commit_once(to_commit)).when_done(done)

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

    async def commit_before_rebalance(self, offsets: ToCommit, limit_ms: int) -> None:
        """Commit before partitions are revoked; a failure is logged as a warning."""
        if not offsets:
            return
        due_at_ms = self._core.now_ms + limit_ms
        attempt = 0
        while True:
            left_ms = due_at_ms - self._core.now_ms
            try:
                await self._core.tasks.within(
                    self._core.tasks.spawn(self.commit_once(offsets, due_at_ms)),
                    max(0, left_ms),
                    "committing",
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

    async def commit_once(self, wanted: ToCommit, due_at_ms: int | None = None) -> None:
        """One attempt; raises why it failed.

        When the coordinator is found too late, nothing is sent: the caller may have committed something else
        since.
        """
        to_commit = self._less_deleted(wanted)
        if not to_commit:
            return
        if self.store is not None:
            self.store.save(self.owner, to_commit.offsets)
            self._committed(to_commit)
            return
        generation = self._fencing.generation()
        node = await self._coordinator.find(due_at_ms)
        request = self._request(to_commit, generation)
        max_version = 32767 if to_commit.has_all_ids else NAMES_VERSION
        try:
            response: OffsetCommitResponse = await self._core.tasks.request(
                node, ApiKey.OFFSET_COMMIT, request, max_version=max_version
            )
            self._judge(response, to_commit, generation, node)
        except KlammError as error:
            self.failure_count += 1
            self._coordinator.judge(error, node)
            raise
        self._committed(to_commit)

    def _committed(self, to_commit: ToCommit) -> None:
        self.count += 1
        interceptors = self._settings.interceptors
        if interceptors:

            async def report() -> None:
                call_all(interceptors, "on_commit", to_commit.offsets)

            self._inbox.call_back(report)

    def _request(self, to_commit: ToCommit, generation: Generation) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self._settings.group_id or "",
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id if generation.is_valid else None,
            topics=[
                OffsetCommitRequestTopic(
                    topic_id=topic_id,
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            number, *to_commit.offsets[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for (topic, topic_id), numbers in to_commit.by_topic().items()
            ],
        )

    def _less_deleted(self, wanted: ToCommit) -> ToCommit:
        """Leave out offsets of topics that are gone: repeating their commit cannot help.

        A topic is gone if the metadata has its name with another id, or if the coordinator has refused the
        partition and the metadata does not have it.
        """
        metadata = self._core.metadata
        gone: list[TopicPartition] = []
        for partition, topic_id in wanted.topic_ids.items():
            topic = metadata.cluster.topics.get(partition.topic)
            if topic is not None and ZERO_ID not in (topic_id, topic.topic_id):
                if topic.topic_id == topic_id:
                    continue
                self._dropped(partition, topic_id, "the topic was deleted and created again")
            elif (partition, topic_id) in self._refused_partitions and metadata.lacks(partition.topic):
                if wanted.is_explicit:
                    raise UnknownTopicError(f"committing {partition}: the topic does not exist")
                self._dropped(partition, topic_id, "the topic was deleted")
            else:
                continue
            gone.append(partition)
        return wanted.without(gone) if gone else wanted

    def _dropped(self, partition: TopicPartition, topic_id: bytes, why: str) -> None:
        if (partition, topic_id) not in self._reported:
            self._reported.add((partition, topic_id))
            log.warning("group %s: offset of %s not committed: %s", self._settings.group_id, partition, why)

    def _judge(
        self, response: OffsetCommitResponse, to_commit: ToCommit, sent: Generation, node: Node
    ) -> None:
        forbidden: list[str] = []
        unknown: list[TopicPartition] = []
        names = {topic_id: topic for topic, topic_id in to_commit.by_topic()}
        for topic in response.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for item in topic.partitions:
                partition = TopicPartition(name, item.partition_index)
                if item.error_code == ErrorCode.topic_authorization_failed:
                    forbidden.append(name)
                elif item.error_code in UNKNOWN:
                    unknown.append(partition)
                elif item.error_code:
                    self._refused(item.error_code, partition, sent, node)
        if forbidden:
            listed = ", ".join(sorted(set(forbidden)))
            raise TopicAuthorizationError(f"no right to commit offsets of {listed}")
        if unknown:
            self._refused_partitions.update(
                (item, to_commit.topic_ids[item]) for item in unknown if item in to_commit.topic_ids
            )
            self._core.metadata.request_update()
            listed = ", ".join(map(str, sorted(unknown)))
            what = f"committing {listed} of group {self._settings.group_id}"
            raise broker_error(ErrorCode.unknown_topic_or_partition, what)

    def _refused(self, code: int, partition: TopicPartition, sent: Generation, node: Node) -> None:
        error = broker_error(code, f"committing {partition} of group {self._settings.group_id}")
        if code in FORGETS_COORDINATOR:
            self._coordinator.mark_unknown(str(error), node)
        else:
            self._fencing.refused(code, error, partition, sent)
        raise error


def _calling(callback: Callback, offsets: Offsets, error: BaseException | None) -> Callable[[], Any]:
    async def call() -> None:
        result = callback(offsets, error)  # type: ignore[arg-type]  # what a commit raises is a KlammError
        if hasattr(result, "__await__"):
            await result

    return call
