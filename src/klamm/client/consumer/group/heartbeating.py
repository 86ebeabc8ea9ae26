"""Being a member of the consumer protocol: heartbeats, which also join, acknowledge and leave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from random import Random
from typing import Final

from klamm.client.consumer.group.coordinator import MOVED, CoordinatorLookup
from klamm.client.consumer.group.generation import Generation
from klamm.client.consumer.group.heartbeat_requests import (
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Granted,
    Told,
    check_version,
    granted,
    heartbeat,
    leaving,
    subscription_of,
)
from klamm.client.consumer.group.rebalance_log import FIRST_JOIN
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.client.runtime import Core
from klamm.errors import KlammError, broker_error
from klamm.net.network import Node, backoff_ms
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from klamm.protocol.types import id_to_text

log = logging.getLogger(__name__)


class HeartbeatState(Enum):
    """How far a member of the consumer protocol is."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"  # the assignment differs from what is owned
    ACKNOWLEDGING = "acknowledging"  # reconciled, and not told yet
    STABLE = "stable"
    FENCED = "fenced"  # removed by the coordinator; the listener has not been called yet
    PREPARE_LEAVING = "prepare leaving"  # the listener is called before it leaves
    LEAVING = "leaving"
    STALE = "stale"  # left, because poll was not called for too long
    FATAL = "fatal"  # refused for good


_S = HeartbeatState
MEMBER: Final = frozenset((_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE))
BEATING: Final = MEMBER | {_S.PREPARE_LEAVING}
_LOST: Final = BEATING | {_S.LEAVING}
PREVIOUS: Final[Mapping[HeartbeatState, frozenset[HeartbeatState]]] = {
    _S.UNSUBSCRIBED: frozenset((_S.PREPARE_LEAVING, _S.LEAVING, _S.FENCED, _S.STALE, _S.FATAL)),
    _S.JOINING: frozenset((_S.UNSUBSCRIBED, _S.FENCED, _S.STALE)),
    _S.RECONCILING: frozenset((_S.JOINING, _S.STABLE, _S.ACKNOWLEDGING)),
    _S.ACKNOWLEDGING: frozenset((_S.RECONCILING,)),
    _S.STABLE: frozenset((_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING)),
    _S.FENCED: _LOST,
    _S.PREPARE_LEAVING: MEMBER | {_S.UNSUBSCRIBED},
    _S.LEAVING: BEATING,
    _S.STALE: frozenset((_S.LEAVING,)),
    _S.FATAL: _LOST | {_S.UNSUBSCRIBED},
}

FENCED: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch)
FIRST_INTERVAL_MS: Final = 3_000  # until the coordinator has said another


class HeartbeatingMember:
    """The state of one member. Runs on the client's thread; `tick` sends heartbeats."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        coordinator: CoordinatorLookup,
        inbox: Inbox,
        last_poll_ms: Callable[[], int],
    ) -> None:
        self._core = core
        self._settings = settings
        self._subscription = subscription
        self._coordinator = coordinator
        self._inbox = inbox
        self.last_poll_ms = last_poll_ms
        self.state = HeartbeatState.UNSUBSCRIBED
        self.member_id = new_member_id(core.random)
        self.epoch = JOIN
        self.target: Granted | None = None  # what the coordinator has granted, all of it
        self.owned: Granted | None = (
            None  # what is owned; None before the first assignment, and while it changes
        )
        self.rejoin_cause = FIRST_JOIN
        self.overdue = ""
        self.fatal: KlammError | None = None
        self.last_heartbeat_ms: int | None = None
        self.on_target: Callable[[], None] = _nothing  # there is something to reconcile
        self.on_stale: Callable[[], None] = _nothing  # left, because nobody polls
        self.on_lost: Callable[[KlammError | None], None] = _nothing_of  # removed, or refused for good
        self._told: Told | None = None  # None: the next heartbeat tells everything
        self._interval_ms = FIRST_INTERVAL_MS
        self._next_heartbeat_ms = 0
        self._in_flight = False
        self._life = 0  # counts joins: an answer to an earlier one is ignored
        self._is_looking = False
        self._failures = 0
        self._unreleased_since_ms: int | None = None

    @property
    def generation(self) -> Generation:
        """Epoch and id, as commits and transactions carry them; the id alone while it is not a member."""
        return Generation(self.epoch if self.epoch > 0 else -1, self.member_id)

    @property
    def instance_id(self) -> str | None:
        return self._settings.group_instance_id

    @property
    def needs_rejoin(self) -> bool:
        return self.state in (HeartbeatState.UNSUBSCRIBED, HeartbeatState.STALE, HeartbeatState.FATAL)

    @property
    def is_rebalancing(self) -> bool:
        return False  # what is owned stays owned until this member has acknowledged that it is gone

    def request_rejoin(self, cause: str) -> None:
        """The coordinator decides when partitions move: a member cannot ask for it."""
        log.info("group %s: %s: nothing to do with group.protocol=consumer", self._settings.group_id, cause)

    def become(self, state: HeartbeatState) -> None:
        assert self.state in PREVIOUS[state], f"{self.state} -> {state}"
        self.state = state

    # --- joining, acknowledging, leaving ----------------------------------------------------------------

    def join(self, cause: str) -> None:
        """Be a member from the next heartbeat on, which is sent at once."""
        log.info("joining group %s: %s", self._settings.group_id, cause)
        self.become(HeartbeatState.JOINING)
        self.rejoin_cause = cause
        self._begin_life()
        self.fatal = None

    def _begin_life(self) -> None:
        self._life += 1
        self._in_flight = False
        self.epoch = JOIN
        self.target = self.owned = self._told = None
        self._beat_soon()

    def _beat_soon(self) -> None:
        self._next_heartbeat_ms = 0

    def acknowledge(self, owned: Granted) -> None:
        """Reconciled: tell the coordinator at once."""
        self.owned = owned
        self.become(HeartbeatState.ACKNOWLEDGING)
        self._beat_soon()

    def settled(self, owned: Granted) -> None:
        """Nothing to reconcile, and nothing to tell that the coordinator does not know."""
        self.owned = owned
        self.become(HeartbeatState.STABLE)

    def subscription_changed(self) -> None:
        """Tell it at once, if it differs from what the coordinator knows."""
        told = self._told
        if self.state in MEMBER and told is not None:
            now = subscription_of(self._subscription, None)
            if (now.names, now.regex) != (told.names, told.regex):
                self._beat_soon()

    def prepare_leaving(self) -> None:
        if self.state in MEMBER:
            self.become(HeartbeatState.PREPARE_LEAVING)
            self.owned = None

    def leave(self, reason: str, leaves: bool | None = None) -> Promise[None]:
        """Leave the group: a static member for a while, unless told otherwise. Sent once and not repeated."""
        left = self._leave(reason, leaves)
        if self.state is not HeartbeatState.UNSUBSCRIBED:
            self.become(HeartbeatState.UNSUBSCRIBED)
        self.fatal = None
        return left

    def _leave(self, reason: str, leaves: bool | None = None) -> Promise[None]:
        done: Promise[None] = Promise()
        node, is_static = self._coordinator.node, self.instance_id is not None
        # The coordinator may know of us already when the first heartbeat has not been answered yet.
        may_be_member = self.state in BEATING and (self.epoch > 0 or self._in_flight)
        if self.state in BEATING:
            self.become(HeartbeatState.LEAVING)
        self._begin_life()
        if node is None or not may_be_member or (leaves is False and not is_static):
            done.resolve(None)
            return done
        log.info("leaving group %s: %s", self._settings.group_id, reason)
        stays = is_static if leaves is None else not leaves
        request = leaving(self._settings, self.member_id, LEAVE_FOR_A_WHILE if stays else LEAVE)
        promise = self._core.tasks.request(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, request)

        def left(answer: Promise[object]) -> None:
            if answer.error is not None:
                log.info("leaving group %s: %s", self._settings.group_id, answer.error)
            done.resolve(None)

        promise.when_done(left)
        return done

    # --- heartbeats -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int | None:
        """Send a heartbeat when it is due; detect an exceeded poll interval."""
        if self.state not in BEATING:
            return None
        poll_ends_ms = self.last_poll_ms() + self._settings.max_poll_interval_ms
        if now_ms >= poll_ends_ms and self.state in MEMBER:
            self._poll_is_overdue(now_ms)
            return None
        if self._in_flight:
            return poll_ends_ms
        node = self._coordinator.node
        if now_ms < self._next_heartbeat_ms:
            return min(poll_ends_ms, self._next_heartbeat_ms)
        if node is None:
            self._find_coordinator()
        else:
            self._beat(node, now_ms)
        return poll_ends_ms

    def _find_coordinator(self) -> None:
        def done(lookup: Promise[Node]) -> None:
            self._is_looking = False
            if lookup.error is not None:
                self._again()
                if isinstance(lookup.error, KlammError):
                    self._inbox.fail(lookup.error)

        if not self._is_looking:
            self._is_looking = True
            self._core.tasks.spawn(self._coordinator.ensure()).when_done(done)

    def _poll_is_overdue(self, now_ms: int) -> None:
        limit_ms, late_ms = self._settings.max_poll_interval_ms, now_ms - self.last_poll_ms()
        self.overdue = f"poll() was not called for {late_ms} ms, max.poll.interval.ms is {limit_ms}"
        log.warning("leaving group %s: %s", self._settings.group_id, self.overdue)
        self._leave(self.overdue)
        self.become(HeartbeatState.STALE)
        self.rejoin_cause = self.overdue
        self.on_stale()
        self._inbox.wake_up()

    def _beat(self, node: Node, now_ms: int) -> None:
        told = subscription_of(self._subscription, self.owned)
        request = heartbeat(self._settings, self.member_id, self.epoch, told, self._told)
        if request.topic_partitions is None and self._told is not None:
            told = told._replace(owned=self._told.owned)
        if not self._core.network.is_ready(node):  # lost since the last answer: perhaps it restarts
            self._unreleased_since_ms = None
        self._in_flight = True
        self._next_heartbeat_ms = now_ms + self._interval_ms
        life = self._life
        if self.state is HeartbeatState.ACKNOWLEDGING:
            self._is_told()

        def of_version(version: int) -> ConsumerGroupHeartbeatRequest:
            check_version(version)
            return request

        promise = self._core.tasks.request(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, of_version)
        promise.when_done(partial(self._answered, life, told, node))

    def _is_told(self) -> None:
        """The acknowledgement is on its way; go on if the assignment has changed since."""
        if self.owned == self.target:
            self.become(HeartbeatState.STABLE)
        else:
            self.become(HeartbeatState.RECONCILING)
            self.on_target()

    def _answered(
        self, life: int, told: Told, node: Node, done: Promise[ConsumerGroupHeartbeatResponse]
    ) -> None:
        if life != self._life:
            return
        self._in_flight = False
        error = done.error
        if error is None:
            response = done.result()
            if response.error_code == ErrorCode.none:
                self._accepted(response, told)
                return
            what = f"heartbeat of group {self._settings.group_id}"
            error = broker_error(response.error_code, what, response.error_message)
            self._told = None
            self._refused(response.error_code, error, node)
            return
        self._told = None
        if not isinstance(error, KlammError) or not error.retriable:
            self._fail_for_good(error if isinstance(error, KlammError) else KlammError(str(error)))
            return
        self._moved(str(error), node)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, told: Told) -> None:
        self._told = told
        self._failures = 0
        self._unreleased_since_ms = None
        self.last_heartbeat_ms = self._core.now_ms
        if response.heartbeat_interval_ms > 0:
            self._interval_ms = response.heartbeat_interval_ms
            if self._next_heartbeat_ms:  # else the next one does not wait
                self._next_heartbeat_ms = self._core.now_ms + self._interval_ms
        if response.member_epoch > 0:
            self.epoch = response.member_epoch
            self.overdue = ""
        target = granted(response)
        if self.state not in MEMBER:
            return
        if target is not None:
            self.target = target
        if self.state is HeartbeatState.JOINING or (
            self.state is HeartbeatState.STABLE and target is not None and target != self.owned
        ):
            self.become(HeartbeatState.RECONCILING)
            self.on_target()
        elif self.state is HeartbeatState.RECONCILING and target is not None:
            self.on_target()

    def _refused(self, code: int, error: KlammError, node: Node) -> None:
        match code:
            case _ if code in FENCED or (code == ErrorCode.group_id_not_found and self.epoch > JOIN):
                # Or the whole group is gone: it was empty, and nothing was committed.
                if self.state in MEMBER:
                    self._fenced(error)
            case ErrorCode.coordinator_load_in_progress:
                self._again()
            case _ if code in MOVED:
                self._moved(str(error), node)
            case ErrorCode.topic_authorization_failed:
                self._inbox.fail(error)
                self._again()
            case ErrorCode.unreleased_instance_id if self._may_be_released():
                log.info("%s: waiting for the other member's session to end", error)
                self._again()
            case _ if self.state in MEMBER:
                self._fail_for_good(error)

    def _moved(self, reason: str, node: Node) -> None:
        """Look the coordinator up at once; if that did not help, after a pause."""
        self._coordinator.mark_unknown(reason, node)
        self._unreleased_since_ms = None  # where a group is loaded, sessions begin anew
        if self._failures:
            self._again()
        else:
            self._failures = 1
            self._beat_soon()

    def _may_be_released(self) -> bool:
        """Whether the member before us, which has died, may still be within its session."""
        if self._unreleased_since_ms is None:
            self._unreleased_since_ms = self._core.now_ms
        return self._core.now_ms - self._unreleased_since_ms < self._settings.session_timeout_ms

    def _fenced(self, error: KlammError) -> None:
        log.warning("group %s: %s: joining again", self._settings.group_id, error)
        self.become(HeartbeatState.FENCED)
        self.rejoin_cause = str(error)
        self._begin_life()
        self.on_lost(None)

    def _fail_for_good(self, error: KlammError) -> None:
        self.become(HeartbeatState.FATAL)
        self.rejoin_cause = str(error)
        self._begin_life()
        self.on_lost(error)

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


def new_member_id(random: Random) -> str:
    """22 characters, as Java makes them; not beginning with a dash, which command lines take for a flag."""
    while True:
        text = id_to_text(random.getrandbits(128).to_bytes(16, "big"))
        if not text.startswith("-"):
            return text


def _nothing() -> None:
    """Nobody listens yet."""


def _nothing_of(_error: KlammError | None) -> None:
    """Nobody listens yet."""
