"""A broker's part in its cluster: it renews its lease, follows changes, finds deaths, and moves partitions.

The store decides, brokers obey: there is no controller. Every broker finds deaths and takes over; the running
broker with the lowest id keeps the balance. A move is announced in the store (`start_moves`); the leader sees
it there, closes the partition, and makes the next broker its leader (`finish_moves`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.joining import join_cluster
from klamm.broker.cluster.lease import Lease
from klamm.broker.cluster.membership_plans import (
    BalanceSchedule,
    Renewals,
    balance,
    leaderless,
    moves_of,
    next_to_drain,
    running_ids,
    to_be_judged,
)
from klamm.broker.cluster.placement import plan_take_over
from klamm.broker.cluster.serve_window import ServeWindow
from klamm.broker.net.server import StartError
from klamm.broker.partitions.closing import close_for_move
from klamm.broker.upkeep.periodic import Every
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConflictError,
    FencedError,
    LeaderChange,
)

if TYPE_CHECKING:
    from klamm.broker.services import RunBlocking, Services

POLL_S: Final = 0.02  # how often changes of other brokers are looked for
DEATHS_MS: Final = 100
BALANCE_MS: Final = 1000
DRAINED_AT_ONCE: Final = 50
_RETRY_STORE_S: Final = 1.0

_log = logging.getLogger(__name__)


class BrokerMembership:
    """One broker in its cluster. Everything happens on the event loop; the store and the lease off it."""

    def __init__(
        self, services: Services, lease: Lease, me: BrokerRegistration, renew_blocking: RunBlocking
    ) -> None:
        """`me` is the registration that `join_cluster` made.

        `renew_blocking` runs renewals only: they must not wait until a slow store has done something else.
        """
        config = services.config
        self._services = services
        self._cluster = services.cluster
        self._image = services.image
        self._follower = services.follower
        self._run_blocking = services.run_blocking
        self._renew_blocking = renew_blocking
        self._lease = lease
        self._me = me
        self.renewals = Renewals(config.broker_heartbeat_interval_ms)
        if lease.ends_by_silence:
            services.serve_window = ServeWindow(
                services.loop, lease.now_ms, config.klamm_broker_serve_window_ms
            )
        self._schedule = BalanceSchedule(lease.now_ms())
        self._chores: list[Every] = []
        self._renewing: Every | None = None
        self._poll_timer: asyncio.TimerHandle | None = None
        self._following: asyncio.Task[None] | None = None
        self._is_behind = True  # the store has changes that the image may not have
        self._seen_version = -1  # of the image, when moves and brokers were last looked at
        self._handed_over: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._leaderless_version = -1
        self._store_failure = ""
        self._is_fenced = False
        self._is_leaving = False
        self._is_registered = False  # when it left
        self._has_given_up = False
        self._rejoining: asyncio.Task[None] | None = None

    @property
    def broker_id(self) -> int:
        return self._me.broker_id

    @property
    def is_alone(self) -> bool:
        """Whether no other broker runs."""
        return not running_ids(self._image.brokers, without=(self.broker_id,))

    @property
    def has_handed_over(self) -> bool:
        """Whether other brokers lead all that this one led."""
        return not self._is_fenced and not self.is_alone and not self._image.led_here()

    async def start(self) -> None:
        """Renew the lease from now on, and let clients and other brokers know that this one runs."""
        loop, config = self._services.loop, self._services.config
        await self._renew()
        self._renewing = Every(
            loop, "lease renewal", lambda: config.broker_heartbeat_interval_ms, self._renew
        )
        try:
            await self._set_state(BrokerState.RUNNING)
        except FencedError as error:
            self._fenced(error)
        if self._rejoining is not None:
            await self._rejoining  # it took so long to open the partitions that others have them by now
        await self._follow()
        self._chores = [
            Every(loop, "finding dead brokers", lambda: DEATHS_MS, self._find_deaths, first_after_ms=1),
            Every(loop, "balancing leaders", lambda: BALANCE_MS, self._balance),
        ]
        self._poll()

    # --- stopping --------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Hand all partitions over before this broker stops. The last running broker keeps its own."""
        self._is_leaving = True
        deadline_ms = self._lease.now_ms() + self._services.config.klamm_shutdown_timeout_ms
        if self._is_fenced or not await self._attempt(self._set_state, BrokerState.DRAINING):
            return
        await self._attempt(self._follow)
        led = len(self._image.led_here())
        while self._image.led_here() and not self.is_alone:
            if self._lease.now_ms() >= deadline_ms:
                _log.warning(
                    "klamm.shutdown.timeout.ms is over: %d partitions are left for others to take over",
                    len(self._image.led_here()),
                )
                break
            moves = next_to_drain(self._image.topics, self._image.brokers, self.broker_id, DRAINED_AT_ONCE)
            if moves and not await self._attempt(self._start_moves, moves):
                break
            await asyncio.sleep(POLL_S)
        if led and not self._image.led_here():
            _log.info("handed %d partitions over to other brokers", led)

    async def leave(self) -> None:
        """Take no further part. The lease is renewed until `release`: clients are still answered."""
        self._is_leaving = True
        self._is_registered = not self._is_fenced
        if self._rejoining is not None:
            self._rejoining.cancel()
            self._is_registered = True  # or will be: the store is at it, perhaps
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        for chore in self._chores:
            await chore.stop()
        under_way = [*self._handed_over.values(), *([self._following] if self._following else [])]
        if under_way:
            await asyncio.wait(under_way)

    def give_up(self) -> None:
        """Leave partitions to others that are closed, and whose next leaders the store does not know."""
        self._has_given_up = True

    async def abandon(self) -> None:
        """Take no further part, as if the process had died: nothing is handed over, the lease ends."""
        self._is_fenced = True  # makes everything here stand still
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        for task in (self._rejoining, self._following, *self._handed_over.values()):
            if task is not None:
                task.cancel()
        for chore in self._chores:
            await chore.stop()
        await self._end_lease()

    async def release(self) -> None:
        """Let others lead what was not handed over, and give up the lease.

        Only when no client is answered any more and all logs are closed: others acknowledge from here on.
        """
        if self._is_registered:
            try:
                await self._set_state(BrokerState.GONE)
            except FencedError as error:
                _log.info("%s", error)  # others have found out
            except (ClusterStoreError, ConflictError) as error:
                _log.error("the partitions of this broker are taken over when its lease ends: %s", error)
        await self._end_lease()

    async def _end_lease(self) -> None:
        if self._renewing is not None:
            await self._renewing.stop()
        await self._run_blocking(self._lease.release)

    # --- following -------------------------------------------------------------------------------------

    def _poll(self) -> None:
        loop = self._services.loop
        self._poll_timer = loop.call_later(POLL_S, self._poll)
        if self._is_fenced or self._following is not None:
            return
        try:
            self._is_behind |= self._cluster.changed()
        except ClusterStoreError as error:
            self._store_failed(error)
            return
        if self._is_behind or self._image.version != self._seen_version:
            self._following = loop.create_task(self._follow_once())

    async def _follow_once(self) -> None:
        try:
            if not await self._attempt(self._follow):
                await asyncio.sleep(_RETRY_STORE_S)
        finally:
            self._following = None

    async def _follow(self) -> None:
        """Apply all changes, then carry out the moves that they announce."""
        self._is_behind = False
        try:
            await self._follower.catch_up()
        except BaseException:
            self._is_behind = True
            raise
        self._store_failure = ""
        self._seen_version = self._image.version
        self._schedule.brokers_are(self._image.brokers, self._lease.now_ms())
        announced = [
            each
            for each in moves_of(self._image.topics, self.broker_id)
            if (each.topic, each.partition) not in self._handed_over
        ]
        if announced:
            task = self._services.loop.create_task(self._hand_over(announced))
            self._handed_over |= {(each.topic, each.partition): task for each in announced}

    # --- moves -----------------------------------------------------------------------------------------

    async def _start_moves(self, moves: Sequence[LeaderChange]) -> None:
        await self._run_blocking(self._cluster.start_moves, moves)
        await self._follow()

    async def _hand_over(self, moves: Sequence[LeaderChange]) -> None:
        """Close partitions led here, and make their next brokers their leaders."""
        try:
            running = running_ids(self._image.brokers)
            stranded = [each for each in moves if each.next_leader_id not in running]
            if stranded:
                await self._attempt(self._run_blocking, self._cluster.cancel_moves, stranded)
            ready = [each for each in moves if each.next_leader_id in running]
            for move in ready:
                served = self._services.partitions.get(move.topic, move.partition)
                if served is not None and served.leader_epoch == move.leader_epoch:
                    await close_for_move(self._services, served)
            # From here on the partitions are closed: the move must be finished. A repetition does no harm.
            while ready and not await self._attempt(self._finish, ready):
                if self._is_fenced or self._has_given_up:
                    return
                await asyncio.sleep(_RETRY_STORE_S)
        finally:
            for move in moves:
                del self._handed_over[move.topic, move.partition]
            self._is_behind = True

    async def _finish(self, moves: Sequence[LeaderChange]) -> None:
        finished = await self._run_blocking(self._cluster.finish_moves, moves)
        for move in finished:
            _log.info(
                "%s-%d: broker %d is the leader at epoch %d",
                move.topic,
                move.partition,
                move.next_leader_id,
                move.leader_epoch + 1,
            )
        await self._follower.catch_up()

    # --- deaths ----------------------------------------------------------------------------------------

    async def _find_deaths(self) -> None:
        if not self._is_fenced:
            others = to_be_judged(self._image.brokers, self.broker_id)
            if others:
                await self._attempt(self._judge, others)
            if self._leaderless_version != self._image.version:
                await self._attempt(self._claim_leaderless)

    async def _judge(self, others: Sequence[BrokerRegistration]) -> None:
        judges = self.renewals.judge_silence(self._lease.now_ms())
        dead = await self._run_blocking(self._dead_among, others, judges)
        if judges and self._lease.ends_by_silence and not self.renewals.judge_silence(self._lease.now_ms()):
            return  # the store stood still meanwhile: it finds all leases expired, this broker's too
        for broker in dead:
            await self._attempt(self._take_over, broker)

    def _dead_among(
        self, others: Sequence[BrokerRegistration], judges_silence: bool
    ) -> list[BrokerRegistration]:
        return [each for each in others if self._lease.is_dead(each, judges_silence=judges_silence)]

    async def _take_over(self, dead: BrokerRegistration) -> None:
        await self._follower.catch_up()
        running = running_ids(self._image.brokers, without=(dead.broker_id,))
        if not running:
            return
        leaders = plan_take_over(self._image.topics, dead.broker_id, running)

        def take_over() -> bool:
            with self._lease.hold(dead) as is_held:
                if is_held:
                    self._cluster.take_over(dead, leaders)
                return is_held

        if await self._run_blocking(take_over):
            _log.warning("broker %d is dead: %d partitions taken over", dead.broker_id, len(leaders))
            await self._follow()

    async def _claim_leaderless(self) -> None:
        """Partitions whose leader has stopped, while no other broker ran."""
        version = self._image.version
        is_complete = True
        for leader_id, leaders in leaderless(self._image.topics, self._image.brokers).items():
            stopped = self._image.brokers.get(leader_id)

            def claim(
                stopped: BrokerRegistration | None = stopped, leaders: Sequence[LeaderChange] = leaders
            ) -> bool:
                if stopped is None:
                    self._cluster.finish_moves(leaders)
                    return True
                with self._lease.hold(stopped) as is_held:
                    if is_held:
                        self._cluster.finish_moves(leaders)
                    return is_held

            if await self._run_blocking(claim):
                _log.info(
                    "%d partitions of broker %d, which has stopped, taken over", len(leaders), leader_id
                )
                await self._follow()
            else:
                is_complete = False  # it still closes its logs, or is coming back
        if is_complete:
            self._leaderless_version = version

    # --- balance ---------------------------------------------------------------------------------------

    async def _balance(self) -> None:
        config, now_ms = self._services.config, self._lease.now_ms()
        if (
            self._is_fenced
            or not config.auto_leader_rebalance_enable
            or not self._schedule.is_due(self._image.brokers, self.broker_id, now_ms)
        ):
            return
        moves, preferences = balance(self._image.topics, self._image.brokers)
        self._schedule.checked(
            now_ms, config.leader_imbalance_check_interval_seconds * 1000, moves=bool(moves)
        )
        if moves:
            _log.info("moving %d partitions to balance leaders", len(moves))

            def announce() -> None:
                for topic, partition, replicas in preferences:
                    self._cluster.replace_replicas(topic, partition, replicas)
                self._cluster.start_moves(moves)

            await self._attempt(self._run_blocking, announce)
            self._is_behind = True

    # --- the lease, and failures -----------------------------------------------------------------------

    async def _renew(self) -> None:
        if self._is_fenced:
            return
        sent_at_ms = self._lease.now_ms()
        if await self._attempt(self._renew_blocking, self._lease.renew):
            self.renewals.succeeded(sent_at_ms, self._lease.now_ms())
            if self._services.serve_window is not None and not self._is_fenced:
                self._services.serve_window.renewed(sent_at_ms)
        else:
            self.renewals.failed()

    async def _set_state(self, state: BrokerState) -> None:
        await self._run_blocking(self._cluster.set_state, state)

    async def _attempt(self, operation: Callable[..., Awaitable[object]], *arguments: object) -> bool:
        """Run an operation on the store; whether it succeeded. A fenced broker registers anew."""
        try:
            await operation(*arguments)
        except ConflictError as error:
            _log.debug("%s", error)
            self._is_behind = True
            return False
        except ClusterStoreError as error:
            self._store_failed(error)
            return False
        except FencedError as error:
            self._fenced(error)
            return False
        return True

    def _store_failed(self, error: ClusterStoreError) -> None:
        """The same message only once in a row."""
        if str(error) != self._store_failure:
            self._store_failure = str(error)
            _log.error("the cluster store is not available, retrying: %s", error)

    def _fenced(self, error: FencedError) -> None:
        """Others have taken the partitions over: drop them without writing, and register anew."""
        if not self._is_fenced:
            self._is_fenced = True
            self._follower.drop_all()
            if self._services.serve_window is not None:
                self._services.serve_window.fenced()
            if self._is_leaving:
                _log.error("%s: closing all partitions", error)
                return
            _log.error("%s: closing all partitions and registering anew", error)
            self._rejoining = self._services.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        while True:
            try:
                self._me = await join_cluster(self._cluster, self._lease, self._me, self._run_blocking)
                await self._set_state(BrokerState.RUNNING)
                break
            except (ClusterStoreError, FencedError, ConflictError, StartError) as error:
                _log.error("registering broker %d failed, retrying: %s", self.broker_id, error)
                await asyncio.sleep(_RETRY_STORE_S)
        await self._follower.start_anew()
        self._is_fenced = False
        self._is_behind = True
        _log.info("broker %d is registered again, at epoch %d", self.broker_id, self._me.epoch)
        await self._renew()
