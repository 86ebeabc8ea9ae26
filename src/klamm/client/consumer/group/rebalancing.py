"""What a rebalance means for the assignment and its listener. Runs as jobs, in the poller's thread.

A job that a wakeup interrupts runs again in the next poll; each continues at its last step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from klamm.assignors.base import Assignor, GroupMetadata, RebalanceProtocol
from klamm.client.consumer.group.generation import Generation
from klamm.client.consumer.group.listener import RebalanceListener, tell
from klamm.client.consumer.group.rebalance_log import RebalanceLog
from klamm.client.consumer.offsets.to_commit import ToCommit, consumed
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState, SubscriptionType
from klamm.errors import RebalanceListenerError
from klamm.protocol.consumer_protocol import Assignment
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)


class Rebalancing:
    """The assignment, as rebalances change it."""

    def __init__(self, state: SubscriptionState, settings: ConsumerSettings, history: RebalanceLog) -> None:
        self.state = state
        self.settings = settings
        self.history = history
        self.listener = RebalanceListener()
        self.on_applied: Callable[[], None] = lambda: None  # restarts the auto-commit timer

    @property
    def is_cooperative(self) -> bool:
        return self.settings.protocol is RebalanceProtocol.COOPERATIVE

    def owned(self) -> set[TopicPartition]:
        with self.state.lock:
            return set(self.state.partitions)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        with self.state.lock:
            self.state.assign(sorted(partitions))

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Own these from here on."""
        with self.state.lock:
            if self.state.type is SubscriptionType.AUTO_PATTERN:
                self.state.topics |= {partition.topic for partition in partitions}
            self.state.assign(sorted(partitions))
            for partition_state in self.state.partitions.values():
                partition_state.is_pending_revocation = False
        self.on_applied()

    async def freeze(self, partitions: Iterable[TopicPartition] | None) -> ToCommit:
        """Stop handing out what is about to go (None: all of an eager member); what to commit for it.

        A cooperative member goes on reading while the group rebalances: `None` freezes nothing there.
        """
        with self.state.lock:
            if partitions is None:
                going = set() if self.is_cooperative else set(self.state.partitions)
                committed = set(self.state.partitions)
            else:
                going = committed = set(partitions)
            for partition, state in self.state.partitions.items():
                if partition in going:
                    state.is_pending_revocation = True
            return consumed(self.state, committed)


class BeforeJoin:
    """Before JoinGroup: revoke partitions. The listener is called once, also after a wakeup."""

    def __init__(self, rebalancing: Rebalancing, *, is_member: bool) -> None:
        self._rebalancing = rebalancing
        self._is_member = is_member
        self._is_told = False

    async def __call__(self) -> None:
        if self._is_told:
            return
        self._is_told = True
        rebalancing = self._rebalancing
        owned = rebalancing.owned()
        listener = rebalancing.listener
        if not self._is_member:
            try:
                if owned:
                    rebalancing.history.lost(owned)
                    await tell(listener.on_lost, sorted(owned), "on_lost")
            finally:
                rebalancing.keep(())
            return
        going = owned
        if rebalancing.is_cooperative:
            topics = {topic for topic, _ in owned}
            with rebalancing.state.lock:
                gone = {topic for topic in topics if not rebalancing.state.accepts(topic)}
            going = {item for item in owned if item.topic in gone} if gone else set()
            if not going:
                return
        try:
            rebalancing.history.lost(going)
            await tell(listener.on_revoked, sorted(going), "on_revoked")
        finally:
            rebalancing.keep(owned - going)


class ApplyAssignment:
    """After SyncGroup: apply the new assignment. The first error is raised at the end."""

    def __init__(
        self,
        rebalancing: Rebalancing,
        assignment: Assignment,
        assignor: Assignor,
        metadata: GroupMetadata,
        is_current: Callable[[], bool],
    ) -> None:
        self._rebalancing = rebalancing
        self._assignment = assignment
        self._assignor = assignor
        self._metadata = metadata
        self._is_current = is_current
        self._added: list[TopicPartition] | None = None
        self._error: Exception | None = None
        self._revoked_told = False
        self.revoked: list[TopicPartition] = []
        self.is_applied = False

    async def __call__(self) -> None:
        rebalancing = self._rebalancing
        if self._added is None:
            if not self._is_current():
                return  # a heartbeat failed meanwhile: the partitions are reassigned by now
            owned = rebalancing.owned()
            assigned = set(self._assignment.partitions)
            if rebalancing.is_cooperative:
                self.revoked = sorted(owned - assigned)
                if self.revoked and not self._revoked_told:
                    await self._tell(rebalancing.listener.on_revoked, self.revoked, "on_revoked")
                    self._revoked_told = True
                self._added = sorted(assigned - owned)
            else:
                self._added = sorted(assigned)
            self._take(assigned)
        await self._tell(rebalancing.listener.on_assigned, self._added, "on_assigned")
        self.is_applied = True
        if self._error is not None:
            raise self._error

    def _take(self, assigned: set[TopicPartition]) -> None:
        rebalancing = self._rebalancing
        rebalancing.history.lost(self.revoked)
        rebalancing.history.gained(self._added or ())
        rebalancing.take(assigned)
        try:
            self._assignor.on_assignment(self._assignment, self._metadata)
        except Exception as error:  # user code: raised like a listener's error
            name = self._assignor.name
            self._keep(RebalanceListenerError(f"assignor {name} refused its assignment: {error!r}"), error)

    async def _tell(
        self, callback: Callable[[list[TopicPartition]], object], partitions: list[TopicPartition], name: str
    ) -> None:
        try:
            await tell(callback, partitions, name)
        except RebalanceListenerError as error:
            self._keep(error, error.__cause__)

    def _keep(self, error: RebalanceListenerError, cause: BaseException | None) -> None:
        error.__cause__ = cause
        log.error("%s", error)
        if self._error is None:
            self._error = error


class OnLeave:
    """On close and unsubscribe: call the listener for all partitions."""

    def __init__(self, rebalancing: Rebalancing, *, is_member: bool) -> None:
        self._rebalancing = rebalancing
        self._is_member = is_member

    async def __call__(self) -> None:
        owned = sorted(self._rebalancing.owned())
        if not owned:
            return
        listener = self._rebalancing.listener
        try:
            if self._is_member:
                await tell(listener.on_revoked, owned, "on_revoked")
            else:
                await tell(listener.on_lost, owned, "on_lost")
        finally:
            self._rebalancing.keep(())


def group_metadata(settings: ConsumerSettings, generation: Generation) -> GroupMetadata:
    """The consumer's identity, for transactions and assignors."""
    return GroupMetadata(
        settings.group_id or "",
        generation.generation_id,
        generation.member_id,
        settings.group_instance_id,
    )
