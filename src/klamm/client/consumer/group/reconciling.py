"""Reconciling: from what is owned to what the coordinator has granted, one step at a time.

A coroutine on the client's thread. The callbacks of the listener, and changes of the assignment, are jobs for
the next poll. Nothing else of the consumer waits: partitions that stay are read all the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from klamm.client.consumer.group.heartbeat_requests import Granted
from klamm.client.consumer.group.heartbeating import HeartbeatingMember, HeartbeatState
from klamm.client.consumer.group.listener import tell
from klamm.client.consumer.group.rebalance_log import DONE, FIRST_JOIN, RebalanceLog
from klamm.client.consumer.group.rebalancing import Rebalancing
from klamm.client.consumer.offsets.commits import Commits
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import Core
from klamm.errors import KlammError, RebalanceListenerError
from klamm.net.cluster import Cluster
from klamm.net.tasks import Promise
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Owned: TypeAlias = dict[TopicPartition, bytes]  # partition -> topic id


class Reconciling:
    """Makes the assignment what the coordinator has granted, and gives up what it has taken away."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        inbox: Inbox,
        membership: HeartbeatingMember,
        rebalancing: Rebalancing,
        commits: Commits,
        history: RebalanceLog,
    ) -> None:
        self._core = core
        self._settings = settings
        self._inbox = inbox
        self._membership = membership
        self._rebalancing = rebalancing
        self._commits = commits
        self._history = history
        self._owned: Owned = {}
        self._is_first = True  # since the last join
        self._failed: Granted | None = None  # the target of which a callback has failed
        self._run_number = 0
        self.is_running = False
        self.on_joined: Callable[[], None] = _nothing
        membership.on_target = self._start
        membership.on_lost = self._lost
        membership.on_stale = self._stop

    def on_poll(self) -> None:
        """Join, if that is needed and nothing is under way."""
        membership = self._membership
        if self.is_running:
            return
        if membership.state is HeartbeatState.UNSUBSCRIBED:
            self._is_first = True
            self._history.begin(membership.rejoin_cause)
            self._history.phase("join")
            membership.join(membership.rejoin_cause)
        elif membership.state is HeartbeatState.STALE:
            self._lost(None)

    def on_subscription(self) -> None:
        self._membership.subscription_changed()

    def on_metadata(self, _cluster: Cluster) -> None:
        """Topics that were unknown may be known now."""
        if self._membership.state is HeartbeatState.RECONCILING:
            self._start()

    def abandon(self) -> None:
        """Stop reconciling, because the consumer leaves: heartbeats go on while the listener is called."""
        self._stop()
        self._owned = {}
        self._failed = None
        self._membership.prepare_leaving()
        self._membership.rejoin_cause = FIRST_JOIN
        self._history.end("abandoned")

    def _stop(self) -> None:
        """End a reconciliation that is under way; its jobs do nothing any more."""
        self._run_number += 1
        self.is_running = False

    # --- being lost -------------------------------------------------------------------------------------

    def _lost(self, fatal: KlammError | None) -> None:
        """The coordinator has removed or refused this member: its partitions are those of others."""
        self._run_number += 1
        self.is_running = True
        self._owned = {}
        self._failed = None
        self._is_first = True
        self._history.end(self._membership.rejoin_cause)
        run = self._run_number
        lost = self._inbox.ask(_Lose(self._rebalancing, self._history, self._membership, fatal))
        lost.when_done(lambda done: self._after_loss(done, run, fatal))

    def _after_loss(self, _lost: Promise[None], run: int, fatal: KlammError | None) -> None:
        if run != self._run_number:
            return
        self.is_running = False
        membership = self._membership
        if fatal is not None:
            return
        self._history.begin(membership.rejoin_cause)
        self._history.phase("join")
        membership.join(membership.rejoin_cause)

    # --- reconciling ------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self.is_running and self._membership.target is not self._failed:
            self.is_running = True
            self._run_number += 1
            run = self._core.tasks.spawn(self._reconcile(self._run_number))
            run.when_done(self._ended)

    def _ended(self, run: Promise[None]) -> None:
        if run.error is not None and not isinstance(run.error, _SupersededError):
            self.is_running = False
            self._history.end(str(run.error))
            self._inbox.fail(run.error)

    def _check(self, run: int) -> None:
        if run != self._run_number:
            raise _SupersededError

    async def _reconcile(self, run: int) -> None:
        membership, rebalancing = self._membership, self._rebalancing
        target = membership.target or {}
        wanted = self._resolved(target)
        going = {each for each, topic_id in self._owned.items() if wanted.get(each) != topic_id}
        coming = {each for each, topic_id in wanted.items() if self._owned.get(each) != topic_id}
        if not (going or coming or self._is_first):
            self._nothing_to_do(target)
            return
        membership.owned = None  # a list without a partition would give it away before the listener knows
        self._history.begin("the coordinator has assigned other partitions")
        self._history.joined(membership.epoch, is_leader=False)
        if going and self._settings.is_auto_commit:
            self._history.phase("commit")
            offsets = await self._inbox.ask(lambda: rebalancing.freeze(going))
            self._check(run)
            await self._commits.commit_before_rebalance(offsets, self._settings.max_poll_interval_ms)
            self._check(run)
        self._history.phase("assign")
        try:
            await self._inbox.ask(
                _Reconcile(rebalancing, self._history, going, coming, wanted, lambda: run == self._run_number)
            )
        except RebalanceListenerError as error:  # raised by poll too
            self._check(run)
            log.warning(
                "group %s: the assignment is not acknowledged: %s. If it stays like this, the coordinator "
                "removes this member after max.poll.interval.ms=%d",
                self._settings.group_id,
                error,
                self._settings.max_poll_interval_ms,
            )
            self._failed = membership.target
            self.is_running = False
            self._history.end(str(error))
            return
        self._check(run)
        self._owned, self._is_first, self._failed = wanted, False, None
        self.is_running = False
        self._history.end(DONE)
        membership.acknowledge(_by_id(wanted))
        self.on_joined()

    def _nothing_to_do(self, target: Granted) -> None:
        self.is_running = False
        owned = _by_id(self._owned)
        if owned == target:
            self._membership.settled(owned)

    def _resolved(self, target: Granted) -> Owned:
        """The partitions by name; asks for metadata if a topic is not known yet."""
        names = {topic.topic_id: topic.name for topic in self._core.metadata.cluster.topics.values()}
        if any(topic_id not in names for topic_id in target):
            self._core.metadata.request_update()
        return {
            TopicPartition(names[topic_id], partition): topic_id
            for topic_id, partitions in target.items()
            if topic_id in names
            for partition in partitions
        }


class _Reconcile:
    """Revoke, assign, and call the listener. A wakeup interrupts it; it goes on at its last step."""

    def __init__(
        self,
        rebalancing: Rebalancing,
        history: RebalanceLog,
        going: set[TopicPartition],
        coming: set[TopicPartition],
        wanted: Iterable[TopicPartition],
        is_current: Callable[[], bool],
    ) -> None:
        self._rebalancing = rebalancing
        self._history = history
        self._going = going
        self._coming = coming
        self._wanted = sorted(wanted)
        self._is_current = is_current
        self._is_revoked = False
        self._is_assigned = False

    async def __call__(self) -> None:
        if not self._is_current():
            return
        rebalancing = self._rebalancing
        if not self._is_revoked:
            if self._going:
                await tell(rebalancing.listener.on_revoked, sorted(self._going), "on_revoked")
                self._history.lost(self._going)
                # A topic that was created again has the same name: its partition goes, and comes anew.
                rebalancing.keep(rebalancing.owned() - self._going)
            self._is_revoked = True
        if not self._is_assigned:
            self._history.gained(self._coming)
            rebalancing.take(self._wanted)
            self._is_assigned = True
        await tell(rebalancing.listener.on_assigned, sorted(self._coming), "on_assigned")


class _Lose:
    """Call the listener for what is lost, and raise why, if it is for good."""

    def __init__(
        self,
        rebalancing: Rebalancing,
        history: RebalanceLog,
        membership: HeartbeatingMember,
        fatal: KlammError | None,
    ) -> None:
        self._rebalancing = rebalancing
        self._history = history
        self._membership = membership
        self._fatal = fatal

    async def __call__(self) -> None:
        owned = sorted(self._rebalancing.owned())
        try:
            if owned:
                self._history.lost(owned)
                await tell(self._rebalancing.listener.on_lost, owned, "on_lost")
        finally:
            self._rebalancing.keep(())
        if self._fatal is not None:
            self._membership.fatal = self._fatal
            raise self._fatal


class _SupersededError(KlammError):
    """The member was fenced or left during the reconciliation."""


def _by_id(owned: Owned) -> Granted:
    found: dict[bytes, set[int]] = {}
    for partition, topic_id in owned.items():
        found.setdefault(topic_id, set()).add(partition.partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def _nothing() -> None:
    """Nobody listens yet."""
