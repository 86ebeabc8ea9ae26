"""Being a member: heartbeats in the background, the limits of silence, and leaving."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.client.consumer.group.coordinator import MOVED, CoordinatorLookup
from klamm.client.consumer.group.generation import NO_GENERATION, Generation, MemberState
from klamm.client.consumer.group.rebalance_log import FIRST_JOIN
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import Core
from klamm.errors import KlammError, broker_error
from klamm.net.network import Node, backoff_ms
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

log = logging.getLogger(__name__)

BEATING: Final = (MemberState.COMPLETING, MemberState.STABLE)


class ConsumerMembership:
    """The state of one member. Runs on the client's thread; `tick` sends heartbeats."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        coordinator: CoordinatorLookup,
        inbox: Inbox,
        last_poll_ms: Callable[[], int],
    ) -> None:
        self._core = core
        self._settings = settings
        self._coordinator = coordinator
        self._inbox = inbox
        self.last_poll_ms = last_poll_ms
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.needs_rejoin = True
        self.rejoin_cause = FIRST_JOIN
        self.needs_prepare = True  # the listener has not been called for the coming rebalance
        self.overdue = ""  # how the poll interval was exceeded, if it was
        self.last_heartbeat_ms: int | None = None  # answered
        self._next_heartbeat_ms = 0
        self._session_ends_ms = 0
        self._in_flight = False
        self._is_looking = False
        self._failures = 0
        coordinator.on_found = self.restart_session

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (MemberState.PREPARING, MemberState.COMPLETING)

    @property
    def fatal(self) -> KlammError | None:
        return None  # the next poll joins again, whatever it was

    @property
    def instance_id(self) -> str | None:
        return self._settings.group_instance_id

    def request_rejoin(self, cause: str) -> None:
        """Join again in the next poll. The first cause is the one that counts."""
        if not self.needs_rejoin:
            log.info("group %s: rejoining: %s", self._settings.group_id, cause)
            self.needs_rejoin = True
            self.rejoin_cause = cause
        self._inbox.wake_up()

    def reset(self, cause: str, *, keeps_id: bool) -> None:
        """The group removed this member: generation -1, join again from the beginning."""
        member_id = self.generation.member_id if keeps_id else ""
        self.state = MemberState.UNJOINED
        self.generation = Generation(member_id=member_id)
        self.needs_prepare = True
        self.request_rejoin(cause)

    def joined(self, generation: Generation) -> None:
        """JoinGroup was answered: beat from now on."""
        self.state = MemberState.COMPLETING
        self.generation = generation
        self.restart_session()
        self._next_heartbeat_ms = self._core.now_ms + self._settings.heartbeat_interval_ms

    def synced(self) -> None:
        """SyncGroup was answered."""
        self.state = MemberState.STABLE
        self.needs_rejoin = False
        self.needs_prepare = True
        self.overdue = ""

    def restart_session(self) -> None:
        self._session_ends_ms = self._core.now_ms + self._settings.session_timeout_ms

    # --- heartbeats -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int | None:
        """Send a heartbeat when it is due; detect an expired session or poll interval."""
        if self.state not in BEATING:
            return None
        poll_ends_ms = self.last_poll_ms() + self._settings.max_poll_interval_ms
        if now_ms >= poll_ends_ms:
            self._poll_is_overdue(now_ms)
            return None
        node = self._coordinator.node
        if node is None:
            self._find_coordinator()
            return poll_ends_ms
        if now_ms >= self._session_ends_ms:
            limit_ms = self._settings.session_timeout_ms
            self._coordinator.mark_unknown(f"no answer for session.timeout.ms={limit_ms}")
            self._find_coordinator()
            return poll_ends_ms
        if self._in_flight:
            return min(poll_ends_ms, self._session_ends_ms)
        if now_ms >= self._next_heartbeat_ms:
            self._beat(node, now_ms)
            return min(poll_ends_ms, self._session_ends_ms)
        return min(poll_ends_ms, self._session_ends_ms, self._next_heartbeat_ms)

    def _find_coordinator(self) -> None:
        def done(lookup: Promise[Node]) -> None:
            if lookup.error is not None and isinstance(lookup.error, KlammError):
                self._inbox.fail(lookup.error)

        if not self._is_looking:
            self._is_looking = True
            lookup = self._core.tasks.spawn(self._coordinator.ensure())
            lookup.when_done(done)
            lookup.when_done(lambda _lookup: self._looked())

    def _looked(self) -> None:
        self._is_looking = False

    def _poll_is_overdue(self, now_ms: int) -> None:
        limit_ms = self._settings.max_poll_interval_ms
        late_ms = now_ms - self.last_poll_ms()
        self.overdue = f"poll() was not called for {late_ms} ms, max.poll.interval.ms is {limit_ms}"
        log.warning("leaving group %s: %s", self._settings.group_id, self.overdue)
        self.leave(f"max.poll.interval.ms of {limit_ms} exceeded")
        self.rejoin_cause = self.overdue
        self._inbox.wake_up()

    def _beat(self, node: Node, now_ms: int) -> None:
        sent = self.generation
        self._in_flight = True
        self._next_heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        promise = self._core.tasks.request(
            node,
            ApiKey.HEARTBEAT,
            HeartbeatRequest(
                group_id=self._settings.group_id or "",
                generation_id=sent.generation_id,
                member_id=sent.member_id,
                group_instance_id=self.instance_id,
            ),
        )
        promise.when_done(lambda done: self._heartbeat_done(done, sent, node))

    def _heartbeat_done(self, done: Promise[HeartbeatResponse], sent: Generation, node: Node) -> None:
        self._in_flight = False
        if done.error is not None:
            if isinstance(done.error, KlammError):
                self._coordinator.judge(done.error, node)
            self._again()
            return
        code = done.result().error_code
        if code in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            self.last_heartbeat_ms = self._core.now_ms
            self._failures = 0
            self.restart_session()
        if code != ErrorCode.none:
            self._refused(code, sent, node)

    def _refused(self, code: int, sent: Generation, node: Node) -> None:
        is_current = sent == self.generation and self.state in BEATING
        if code == ErrorCode.rebalance_in_progress:
            if is_current and self.state is MemberState.STABLE:
                self.request_rejoin("the group is rebalancing")
            return
        error = broker_error(code, f"heartbeat of group {self._settings.group_id}")
        match code:
            case ErrorCode.illegal_generation | ErrorCode.unknown_member_id:
                if is_current:
                    self.reset(str(error), keeps_id=code == ErrorCode.illegal_generation)
            case ErrorCode.fenced_instance_id:
                if is_current:
                    self.reset(str(error), keeps_id=False)
                    self._inbox.fail(error)
            case ErrorCode.group_authorization_failed:
                self._inbox.fail(error)
                self._again()
            case _ if code in MOVED:
                self._coordinator.mark_unknown(str(error), node)
            case _:
                self._again()

    def _again(self) -> None:
        """After a failure: sooner than the interval, later each time."""
        wait_ms = backoff_ms(
            self._settings.retry_backoff_ms,
            self._settings.retry_backoff_max_ms,
            self._failures,
            self._core.random,
        )
        self._failures += 1
        self._next_heartbeat_ms = self._core.now_ms + wait_ms

    # --- leaving ----------------------------------------------------------------------------------------

    def leave(self, reason: str, leaves: bool | None = None) -> Promise[None]:
        """Leave the group; LeaveGroup is sent once and not repeated.

        A static member sends nothing unless told: it stays in the group until its session times out.
        """
        done: Promise[None] = Promise()
        node, generation = self._coordinator.node, self.generation
        if leaves is None:
            leaves = self.instance_id is None
        says_so = (
            leaves
            and node is not None
            and self.state is not MemberState.UNJOINED
            and generation.member_id != ""
        )
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.needs_rejoin = self.needs_prepare = True
        self.rejoin_cause = FIRST_JOIN
        if not says_so or node is None:
            done.resolve(None)
            return done
        request = LeaveGroupRequest(
            group_id=self._settings.group_id or "",
            member_id=generation.member_id,
            members=[MemberIdentity(generation.member_id, self.instance_id, reason[:255])],
        )
        promise = self._core.tasks.request(node, ApiKey.LEAVE_GROUP, request)

        def left(answer: Promise[object]) -> None:
            if answer.error is not None:
                log.info("leaving group %s: %s", self._settings.group_id, answer.error)
            done.resolve(None)

        promise.when_done(left)
        return done
