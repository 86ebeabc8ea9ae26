"""Joins the group: JoinGroup and SyncGroup, in as many rounds as necessary.

A coroutine on the client's thread. Each JoinGroup, and every callback of a listener, waits for a poll.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.client.calls import Calls
from klamm.client.consumer.group.coordinator import MOVED, CoordinatorLookup
from klamm.client.consumer.group.generation import Generation, MemberState
from klamm.client.consumer.group.leading import Leading
from klamm.client.consumer.group.membership import ConsumerMembership
from klamm.client.consumer.group.rebalance_log import DONE, FIRST_JOIN, RebalanceLog
from klamm.client.consumer.group.rebalancing import ApplyAssignment, BeforeJoin, Rebalancing, group_metadata
from klamm.client.consumer.offsets.commits import Commits
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState, SubscriptionType
from klamm.client.runtime import Core
from klamm.errors import (
    BrokerError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KlammError,
    RebalanceListenerError,
    UnsupportedVersionError,
    broker_error,
)
from klamm.net.cluster import Cluster
from klamm.net.network import Node
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import Assignment, Subscription, decode_assignment, encode_subscription
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"
JOIN_GRACE_MS: Final = 5_000  # beyond the rebalance timeout, before a join counts as lost
STATIC_VERSION: Final = 5  # the first JoinGroup with group.instance.id
MIN_ASSIGNMENT_BYTES: Final = 2


class Joining:
    """Brings the membership from any state to a stable assignment."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        inbox: Inbox,
        calls: Calls,
        coordinator: CoordinatorLookup,
        membership: ConsumerMembership,
        leading: Leading,
        rebalancing: Rebalancing,
        commits: Commits,
        history: RebalanceLog,
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._inbox = inbox
        self._calls = calls
        self._coordinator = coordinator
        self._membership = membership
        self._leading = leading
        self._rebalancing = rebalancing
        self._commits = commits
        self._history = history
        # Members may take as long as this to join, and the leader to assign.
        self._limit_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + JOIN_GRACE_MS)
        self._run_number = 0
        self.is_running = False  # a join is under way, or waits for a poll
        self._attempt = 0
        self.joined_topics: frozenset[str] | None = None  # the subscription of the last JoinGroup
        self.on_joined: Callable[[], None] = lambda: None

    def on_poll(self) -> None:
        """Start joining if that is needed and not under way."""
        if self._membership.needs_rejoin and not self.is_running:
            self.is_running = True
            self._run_number += 1
            run = self._core.tasks.spawn(self._join(self._run_number))
            run.when_done(self._ended)

    def on_subscription(self) -> None:
        """Rejoin if the subscription is another than that of the last JoinGroup."""
        if self._state.is_auto and self.joined_topics not in (None, self._state.topics):
            self._membership.request_rejoin("the subscription has changed")

    def on_metadata(self, cluster: Cluster) -> None:
        """Rejoin if we lead the group and its topics have other partitions."""
        if self._membership.state is MemberState.STABLE and self._leading.has_changed(cluster):
            self._leading.resign()
            self._membership.request_rejoin("metadata changed: the group's topics have other partitions")

    def abandon(self) -> None:
        """Stop joining after an unsubscribe. Responses still to come are ignored."""
        self._run_number += 1
        self.is_running = False
        self.joined_topics = None
        self._leading.resign()
        self._history.end("abandoned")

    def _ended(self, run: Promise[None]) -> None:
        if isinstance(run.error, _AbandonedError):
            return
        self.is_running = False
        if run.error is not None:
            self._history.end(str(run.error))
            self._inbox.fail(run.error)

    async def _join(self, run: int) -> None:
        while self._membership.needs_rejoin:
            try:
                await self._round(run)
            except _AgainError as again:
                self._check(run)
                if again.after_a_pause:
                    await self._coordinator.back_off(self._attempt)
                    self._attempt += 1
            else:
                self._attempt = 0
            if run != self._run_number:
                raise _AbandonedError

    def _check(self, run: int) -> None:
        if run != self._run_number:
            raise _AbandonedError

    async def _round(self, run: int) -> None:
        membership = self._membership
        self._history.begin(membership.rejoin_cause)
        self._history.phase("coordinator")
        if self._coordinator.node is None:
            await self._coordinator.ensure()
            self._check(run)
        if membership.needs_prepare:
            if self._state.type is SubscriptionType.AUTO_PATTERN:
                await self._refresh_pattern()
            membership.needs_prepare = False
            await self._prepare(run)
        else:
            await self._inbox.ask(_nothing)
        self._check(run)
        node = self._coordinator.node
        if node is None:
            node = await self._coordinator.ensure()
            self._check(run)
        response = await self._join_group(node)
        if run != self._run_number:  # as `_check` does, in the steps of every join
            raise _AbandonedError
        assignment = await self._sync_group(node, response, run)
        if run != self._run_number:
            raise _AbandonedError
        await self._apply(assignment, run)

    async def _refresh_pattern(self) -> None:
        """Wait for the metadata of all topics before joining, so that one new topic causes one rebalance."""
        deadline = self._calls.deadline("metadata for the pattern", self._settings.request_timeout_ms)
        try:
            await self._calls.refresh(deadline)
        except KlammError as error:
            log.info(
                "group %s: metadata refresh failed, joining with cached metadata: %s",
                self._settings.group_id,
                error,
            )

    # --- before -----------------------------------------------------------------------------------------

    async def _prepare(self, run: int) -> None:
        self._history.phase("prepare")
        if self._settings.is_auto_commit:
            offsets = await self._inbox.ask(lambda: self._rebalancing.freeze(None))
            self._check(run)
            await self._commits.commit_before_rebalance(offsets, self._settings.max_poll_interval_ms)
            self._check(run)
        preparation = BeforeJoin(self._rebalancing, is_member=self._membership.generation.is_valid)
        try:
            await self._inbox.ask(preparation)
        except RebalanceListenerError:
            # The poll has raised it; the next one goes on with the join.
            await self._inbox.ask(_nothing)
        self._leading.resign()

    # --- JoinGroup --------------------------------------------------------------------------------------

    async def _join_group(self, node: Node) -> JoinGroupResponse:
        membership, settings = self._membership, self._settings
        self._history.phase("join")
        sent = membership.generation
        membership.state = MemberState.PREPARING
        with self._state.lock:
            self.joined_topics = topics = self._state.topics
            owned = tuple(self._state.partitions)
        cause = membership.rejoin_cause

        def request(version: int) -> JoinGroupRequest:
            if settings.group_instance_id is not None and version < STATIC_VERSION:
                raise UnsupportedVersionError(
                    "the broker does not support static members: remove group.instance.id"
                )
            return JoinGroupRequest(
                group_id=settings.group_id or "",
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.max_poll_interval_ms,
                member_id=sent.member_id,
                group_instance_id=settings.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(
                        assignor.name,
                        encode_subscription(
                            Subscription(
                                tuple(topics),
                                assignor.subscription_user_data(topics),
                                owned,
                                sent.generation_id if sent.generation_id >= 0 else None,
                                settings.client_rack or None,
                            )
                        ),
                    )
                    for assignor in settings.assignors
                ],
                reason=cause[:255],
            )

        # Any other cause is logged already, and the second of the two requests of a first join is no news.
        is_news = not sent.member_id and cause == FIRST_JOIN
        log.log(logging.INFO if is_news else logging.DEBUG, "joining group %s: %s", settings.group_id, cause)
        try:
            response: JoinGroupResponse = await self._core.tasks.request(
                node, ApiKey.JOIN_GROUP, request, timeout_ms=self._limit_ms
            )
        except KlammError as error:
            self._lost(error, node)
            raise _AgainError(after_a_pause=True) from error
        if response.error_code != ErrorCode.none:
            self._join_refused(response, sent, node)
        if membership.state is not MemberState.PREPARING:
            raise _AgainError(after_a_pause=False)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            self._fail(_other_protocol(f"the group's protocol type is {response.protocol_type!r}"))
        membership.joined(Generation(response.generation_id, response.member_id, response.protocol_name))
        return response

    def _join_refused(self, response: JoinGroupResponse, sent: Generation, node: Node) -> None:
        membership, code = self._membership, response.error_code
        is_current = membership.generation == sent and membership.state is MemberState.PREPARING
        if is_current:
            membership.state = MemberState.UNJOINED
        if code == ErrorCode.member_id_required:
            if is_current:
                membership.generation = Generation(member_id=response.member_id)
            raise _AgainError(after_a_pause=False)
        error = broker_error(code, f"joining group {self._settings.group_id}")
        match code:
            case ErrorCode.coordinator_load_in_progress:
                raise _AgainError(after_a_pause=True)
            case _ if code in MOVED:
                self._coordinator.mark_unknown(str(error), node)
                raise _AgainError(after_a_pause=True)
            case ErrorCode.unknown_member_id:
                if is_current:
                    membership.reset(str(error), keeps_id=False)
                raise _AgainError(after_a_pause=False)
            case ErrorCode.rebalance_in_progress:
                raise _AgainError(after_a_pause=False)
            case ErrorCode.unsupported_version:
                raise UnsupportedVersionError(
                    f"{error}: the broker may not support static members, try without group.instance.id"
                )
            case _:
                raise error

    # --- SyncGroup --------------------------------------------------------------------------------------

    async def _sync_group(self, node: Node, joined: JoinGroupResponse, run: int) -> Assignment:
        membership, settings = self._membership, self._settings
        generation = membership.generation
        is_leader = joined.leader == joined.member_id
        self._history.joined(generation.generation_id, is_leader=is_leader)
        self._history.phase("sync")
        self._leading.assignor(joined.protocol_name)
        assignments = []
        if is_leader:
            assignments = await self._leading.assign(joined, node)
            self._check(run)
        request = SyncGroupRequest(
            group_id=settings.group_id or "",
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        try:
            response: SyncGroupResponse = await self._core.tasks.request(
                node, ApiKey.SYNC_GROUP, request, timeout_ms=self._limit_ms
            )
        except KlammError as error:
            self._lost(error, node)
            raise _AgainError(after_a_pause=True) from error
        if response.error_code != ErrorCode.none:
            self._sync_refused(response.error_code, generation, node)
        if membership.state is not MemberState.COMPLETING or membership.generation != generation:
            raise _AgainError(after_a_pause=False)
        if response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in (
            None,
            joined.protocol_name,
        ):
            named = f"{response.protocol_type!r}, {response.protocol_name!r}"
            self._fail(_other_protocol(f"SyncGroup answered for the protocol {named}"))
        membership.synced()
        self.on_joined()
        return self._decoded(bytes(response.assignment))

    def _sync_refused(self, code: int, sent: Generation, node: Node) -> None:
        membership = self._membership
        error = broker_error(code, f"syncing with group {self._settings.group_id}")
        is_current = membership.generation == sent and membership.state is MemberState.COMPLETING
        if is_current:
            membership.state = MemberState.UNJOINED
        match code:
            case ErrorCode.rebalance_in_progress:
                raise _AgainError(after_a_pause=False)
            case ErrorCode.unknown_member_id | ErrorCode.illegal_generation:
                if is_current:
                    membership.reset(str(error), keeps_id=code == ErrorCode.illegal_generation)
                raise _AgainError(after_a_pause=False)
            case ErrorCode.coordinator_load_in_progress:
                raise _AgainError(after_a_pause=True)
            case _ if code in MOVED:
                self._coordinator.mark_unknown(str(error), node)
                raise _AgainError(after_a_pause=True)
            case _:
                raise error

    def _decoded(self, raw: bytes) -> Assignment:
        if len(raw) < MIN_ASSIGNMENT_BYTES:
            self._fail(IllegalStateError("the coordinator sent an assignment without a version"))
        try:
            return decode_assignment(raw)
        except DecodeError as error:
            failure = IllegalStateError(f"the leader sent an assignment that makes no sense: {error}")
            failure.__cause__ = error
            self._fail(failure)
            raise AssertionError from None

    def _fail(self, error: KlammError) -> None:
        """Raise from poll; a further poll joins again."""
        self._membership.request_rejoin(str(error))
        raise error

    def _lost(self, error: KlammError, node: Node) -> None:
        """The connection was lost: find the coordinator again, keep the member id."""
        if isinstance(error, BrokerError | UnsupportedVersionError) or not error.retriable:
            raise error
        if self._membership.is_rebalancing:
            self._membership.state = MemberState.UNJOINED
        self._coordinator.mark_unknown(str(error), node)

    # --- after ------------------------------------------------------------------------------------------

    async def _apply(self, assignment: Assignment, run: int) -> None:
        membership, rebalancing = self._membership, self._rebalancing
        generation = membership.generation
        self._history.phase("assign")
        topics = {topic for topic, _ in assignment.partitions}
        with self._state.lock:
            strangers = sorted([topic for topic in topics if not self._state.accepts(topic)])
        if strangers:
            membership.request_rejoin(f"got {', '.join(strangers)}, which this consumer did not subscribe to")
            self._history.end(membership.rejoin_cause)
            return
        if rebalancing.is_cooperative and self._settings.is_auto_commit:
            going = rebalancing.owned().difference(assignment.partitions)
            if going:
                # Kafka commits before the join only, and loses what was read since.
                offsets = await self._inbox.ask(lambda: rebalancing.freeze(going))
                self._check(run)
                await self._commits.commit_before_rebalance(offsets, self._settings.request_timeout_ms)
                self._check(run)
        application = ApplyAssignment(
            rebalancing,
            assignment,
            self._leading.assignor(generation.protocol_name),
            group_metadata(self._settings, generation),
            lambda: membership.generation == generation and membership.state is MemberState.STABLE,
        )
        try:
            await self._inbox.ask(application)
        except RebalanceListenerError as error:
            log.debug("already raised by poll: %s", error)
        self._check(run)
        if not application.is_applied and membership.generation != generation:
            membership.reset("the generation was lost before its assignment was applied", keeps_id=False)
            return
        self._history.end(DONE)
        if application.revoked:
            listed = ", ".join(map(str, application.revoked))
            membership.request_rejoin(f"revoked {listed} for other members")


class _AgainError(KlammError):
    """Another round, at once or after a pause."""

    def __init__(self, *, after_a_pause: bool) -> None:
        super().__init__("another round")
        self.after_a_pause = after_a_pause


class _AbandonedError(KlammError):
    """The subscription changed during the join."""


async def _nothing() -> None:
    """Being in a poll is all."""


def _other_protocol(what: str) -> InconsistentGroupProtocolError:
    return InconsistentGroupProtocolError(f"{what}; this consumer's protocol type is {PROTOCOL_TYPE!r}")
