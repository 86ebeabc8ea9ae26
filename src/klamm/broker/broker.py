"""The assembly of a broker, for the command line and for tests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.features import finalize_defaults
from klamm.broker.cluster.following import ClusterFollower, topic_config
from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.internal_topics import BY_TOPIC
from klamm.broker.cluster.leader_events import LeaderEvents
from klamm.broker.cluster.peers import Peers
from klamm.broker.cluster.producer_ids import ProducerIds
from klamm.broker.cluster.spreading import spread
from klamm.broker.cluster.topics import TopicManager
from klamm.broker.net.connection import Connection
from klamm.broker.net.outgoing import LoopTransport
from klamm.broker.net.server import BoundListener, MakeConnection, Server, StartError, bind
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.fetch_sessions import FetchSessions
from klamm.broker.partitions.flusher import Flusher
from klamm.broker.partitions.loading import when_loaded
from klamm.broker.partitions.markers import MarkerWriter
from klamm.broker.partitions.registry import Partition, PartitionRegistry
from klamm.broker.partitions.validation import Validation
from klamm.broker.quotas.connection_rates import ConnectionRates
from klamm.broker.quotas.manager import QuotaManager
from klamm.broker.routes import RouteTable, routes_for
from klamm.broker.security.peer_security import peer_security, renew_peer_security
from klamm.broker.security.permissions import AllowAll, Authorizer
from klamm.broker.services import Arguments, Result, RunBlocking, Services, load_coordinators
from klamm.broker.storage import Storage, hint_at_full_disk
from klamm.broker.upkeep.periodic import SWEEP_MS, Chores, Every
from klamm.clock import Clock
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import BrokerRegistration, ClusterStoreError
from klamm.storage.durability import LANES, Background
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.broker.cluster.lease import Lease
    from klamm.broker.cluster.membership import BrokerMembership
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.metrics.metrics import Metrics
    from klamm.net.network import Transport

REDIRECT_S: Final = 2.0  # how long a broker that stops answers clients after others lead its partitions
_LOOK_S: Final = 0.02
_THREADS: Final = LANES + 4  # for flushes, and some for the cluster store and the cleaner

_log = logging.getLogger(__name__)


class Threads:
    """Runs blocking functions on worker threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int = _THREADS) -> None:
        self._loop = loop
        self._executor: Executor = ThreadPoolExecutor(count, thread_name_prefix="klamm")

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        return self._loop.run_in_executor(self._executor, function, *arguments)

    def close(self) -> None:
        self._executor.shutdown()


class BrokerNode:
    """One broker. Time, random source, storage and threads are arguments."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        random: Random,
        storage: Storage,
        sleep: Callable[[float], None],
        run_blocking: RunBlocking | None = None,
        transport: Transport | None = None,
        sweep_ms: int = SWEEP_MS,
        aligns_chores: bool = False,
        make_connection: MakeConnection = Connection,
    ) -> None:
        """`transport` opens connections to other brokers, in place of sockets."""
        self._config = config
        self._clock = clock
        self._random = random
        self._storage = storage
        self._logs = storage.logs
        self._cluster = storage.cluster
        self._run_blocking = run_blocking
        self._sleep = sleep
        self._transport = transport
        self._sweep_ms = sweep_ms
        self._aligns_chores = aligns_chores
        self._make_connection = make_connection
        self._threads: Threads | None = None
        self._lease_thread: Threads | None = None
        self._early_renewals: Every | None = None
        self._has_coordinators = False  # their modules are imported, or will be soon
        self._chores: Chores | None = None
        self._services: Services | None = None
        self._server: Server | None = None
        self._metrics: Metrics | None = None
        self._membership: BrokerMembership | None = None
        self.listeners: Sequence[BoundListener] = ()
        self.metrics_listener: BoundListener | None = None

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker has not started"
        return self._services

    @property
    def server(self) -> Server:
        assert self._server is not None, "the broker has not started"
        return self._server

    async def start(self, *, listen: bool = True) -> None:
        """Bind the listeners' ports, load every log, then serve. Raises StartError.

        Without `listen` there are only connections made with `server.connection`: simulations have their own
        network.
        """
        if listen:
            self.listeners = [bind(listener) for listener in self._config.listeners]
        try:
            if listen and self._config.klamm_metrics_listener is not None:
                self.metrics_listener = bind(self._config.klamm_metrics_listener)
            await self._start()
        except BaseException as error:
            self._close_sockets()
            await self._end_early_renewals()
            if isinstance(error, ClusterStoreError):
                problem = f"the cluster store failed: {error}"
                folders = [store.directory for store in self._storage.folders]
                raise StartError(hint_at_full_disk(problem, folders)) from error
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._run_blocking is None:
            self._threads = Threads(loop)
        run_blocking: RunBlocking = self._run_blocking or self._threads  # type: ignore[assignment]  # one is
        me = await self._join_cluster(run_blocking)
        image = await run_blocking(self._load_image)
        partitions = PartitionRegistry(self._logs, loop)
        follower = ClusterFollower(
            config=self._config,
            image=image,
            cluster=self._cluster,
            partitions=partitions,
            run_blocking=run_blocking,
        )
        config = follower.config
        topics = TopicManager(
            follower=follower,
            image=image,
            cluster=self._cluster,
            partitions=partitions,
            random=self._random,
            run_blocking=run_blocking,
            spread=lambda: spread(self.services),
        )
        authorizer = self._authorizer(config, image, follower)
        may_ask_kernel = self._run_blocking is None and self._storage.is_on_disk
        rounds = partial(self._logs.rounds, Background(loop, run_blocking, may_ask_kernel))
        flusher = Flusher(loop, self._clock, rounds, wake=partitions.wake)
        partitions.flush_soon = flusher.mark
        services = self._services = Services(
            config=config,
            clock=self._clock,
            random=self._random,
            loop=loop,
            run_blocking=run_blocking,
            sleep=self._sleep,
            routes=RouteTable(routes_for(config), is_open=authorizer.is_open),
            cluster=self._cluster,
            logs=self._logs,
            image=image,
            follower=follower,
            topics=topics,
            partitions=partitions,
            flusher=flusher,
            markers=MarkerWriter(image, partitions, flusher, self._clock),
            producer_ids=ProducerIds(self._cluster, run_blocking),
            peers=Peers(
                image,
                config.inter_broker_listener_name,
                transport=self._transport or LoopTransport(loop),
                loop=loop,
                clock=self._clock,
                random=self._random,
                security=peer_security(config),
            ),
            fetch_sessions=FetchSessions(
                self._clock, self._random, config.max_incremental_fetch_session_cache_slots
            ),
            deadlines=Deadlines(loop),
            meter=None,
            validation=Validation.of(config),
            authorizer=authorizer,
        )
        if any(each.protocol != "PLAINTEXT" for each in config.listener_values.values()):
            # Imported here: not needed by a broker with plain listeners.
            from klamm.broker.security.listener_security import secure_listeners, session_closer  # noqa: PLC0415

            await secure_listeners(services)
            if config.klamm_scram_close_on_delete:
                follower.change_watchers.append(session_closer(services))
        follower.config_watchers.append(self._take_config)
        follower.change_watchers.append(lambda _: services.peers.brokers_changed())
        quotas = QuotaManager(services)
        follower.change_watchers.append(quotas)
        if all(store.is_alone for store in self._storage.folders):
            self._set_strays_aside(image)
        if self._storage.lease is not None:
            for store in self._storage.folders:
                store.share()
        await self._open_partitions(image, partitions, run_blocking)
        for partition in partitions:
            self._start_coordinator(partition)
        partitions.opening_watchers.append(self._start_coordinator)
        services.leader_events = LeaderEvents(services)
        self._server = Server(services, self._make_connection, ConnectionRates(services, quotas.table))
        self._chores = Chores(services, self._sweep_ms, are_aligned=self._aligns_chores)
        if self._storage.files is not None and config.log_cleaner_enable:
            self._chores.add_cleaning(self._storage.files)
        # Before the first request: Metadata lists running brokers only, and librdkafka's admin client waits
        # for minutes when a response names no controller.
        if self._storage.lease is not None:
            await self._start_membership(self._storage.lease, me)
            follower.change_watchers.append(lambda _: self._prepare_to_coordinate())
            self._prepare_to_coordinate()
        for bound in self.listeners:
            await self._server.listen(bound)
        if self.metrics_listener is not None:
            await self._server.listen_for_metrics(self.metrics_listener, self.measure().page)

    def measure(self) -> Metrics:
        """Start collecting metrics."""
        # Imported here: not needed by a broker without metrics.
        from klamm.broker.metrics.metrics import Metrics  # noqa: PLC0415
        from klamm.broker.metrics.request_meter import RequestMeter  # noqa: PLC0415

        assert self._chores is not None
        assert self._metrics is None
        self.services.meter = RequestMeter()
        self._metrics = Metrics(self.services, self.server, self.services.meter)
        return self._metrics

    async def stop(self, *, redirects: bool = True) -> None:
        """Hand partitions over to other brokers, complete requests where possible, and shut down cleanly.

        With `redirects`, clients have some time to learn where their partitions are. A store that cannot be
        reached is waited for until `klamm.shutdown.timeout.ms` is over.
        """
        limit_s = self._config.klamm_shutdown_timeout_ms / 1000
        limit = asyncio.get_running_loop().call_later(limit_s, self._give_up)
        try:
            await self._stop(redirects=redirects)
        finally:
            limit.cancel()

    def _give_up(self) -> None:
        _log.warning(
            "still shutting down after klamm.shutdown.timeout.ms=%d: requests that wait for storage fail; "
            "a second signal ends the process at once",
            self._config.klamm_shutdown_timeout_ms,
        )
        self._storage.give_up()
        if self._membership is not None:
            self._membership.give_up()

    async def _stop(self, *, redirects: bool) -> None:
        if self._membership is not None:
            await self._membership.drain()
            if redirects:
                await self._redirect_clients(self._membership)
            await self._membership.leave()
        if self._chores is not None:
            self._chores.call_back()
        if self._metrics is not None:
            self._metrics.stop()
        if self._services is not None:
            self._services.stop_coordinators()
            self._services.peers.close()
        if self._server is not None:
            await self._server.stop()
        self._close_sockets()
        if self._services is not None:
            await self._services.topics.close()
            if self._chores is not None:
                await self._chores.stop()
            await self._services.flusher.drain()
            self._services.flusher.close()
        if self._threads is not None:
            await self._threads(self._logs.close)  # the lease is renewed meanwhile
        else:
            self._logs.close()
        if self._membership is not None:
            await self._membership.release()
        elif self._storage.lease is not None:
            self._storage.lease.release()
        for threads in (self._threads, self._lease_thread):
            if threads is not None:
                threads.close()
        self._cluster.close()
        for store in self._storage.folders:
            store.reserve.look()  # a full disk may be full at the next start, too

    async def _redirect_clients(self, membership: BrokerMembership) -> None:
        """Answer for a little longer: clients ask here once more, and are told who leads now.

        Some show it to their users when they are not told, and a connection is refused. Kafka answers for as
        long, while its controller moves the partitions.
        """
        for _ in range(round(REDIRECT_S / _LOOK_S)):
            if not membership.has_handed_over or not self.server.connection_count:
                return
            await asyncio.sleep(_LOOK_S)

    async def kill(self) -> None:
        """Stop as a crash does: nothing is handed over, completed or flushed, and connections are reset.

        For tests, where several brokers run in one process. Logs stay open until the next leaders open them.
        """
        if self._membership is not None:
            await self._membership.abandon()
        if self._chores is not None:
            self._chores.call_back()
        if self._metrics is not None:
            self._metrics.stop()
        if self._server is not None:
            self._server.abort()
        self._close_sockets()
        if self._services is not None:
            for partition in self._services.partitions:
                partition.fail(ErrorCode.not_leader_or_follower)
            self._services.stop_coordinators()
            self._services.peers.close()
            if self._chores is not None:
                await self._chores.stop()
            self._services.flusher.close()
        for threads in (self._threads, self._lease_thread):
            if threads is not None:
                threads.close()

    def reload_certificates(self) -> None:
        """Read all certificates again: new connections get the new ones, also those to other brokers."""
        for name, security in self.services.listener_securities.items():
            security.reload(self.services.config.listener_values[name])
        renew_peer_security(self.services.config, self.services.peers)

    async def _join_cluster(self, run_blocking: RunBlocking) -> BrokerRegistration:
        """Register: partitions that this broker leads get the next epoch."""
        me = BrokerRegistration(self._config.node_id, self._config.broker_rack, self._advertised())
        if self._storage.lease is None:
            return self._cluster.register(me)
        # Imported here: not needed by a broker in memory.
        from klamm.broker.cluster.joining import join_cluster, renew_quietly  # noqa: PLC0415

        lease = self._storage.lease
        registered = await join_cluster(self._cluster, lease, me, run_blocking)
        # Opening many partitions takes longer than a lease is valid.
        self._early_renewals = Every(
            asyncio.get_running_loop(),
            "lease renewal",
            lambda: self._config.broker_heartbeat_interval_ms,
            partial(renew_quietly, lease, run_blocking),
        )
        return registered

    async def _end_early_renewals(self) -> None:
        if self._early_renewals is not None:
            await self._early_renewals.stop()
            self._early_renewals = None

    def _load_image(self) -> ClusterImage:
        finalize_defaults(self._cluster, self._config.transaction_version)
        image = ClusterImage(self._cluster.cluster_id, self._config.node_id)
        image.apply(self._cluster.changes(0))
        return image

    def _authorizer(self, config: BrokerConfig, image: ClusterImage, follower: ClusterFollower) -> Authorizer:
        if not config.has_acls:
            return AllowAll()
        # Imported here: a broker without access control starts without it.
        from klamm.broker.security.starting import acl_authorizer  # noqa: PLC0415

        return acl_authorizer(config, image, follower, self._clock)

    async def _start_membership(self, lease: Lease, me: BrokerRegistration) -> None:
        # Imported here: not needed by a broker in memory.
        from klamm.broker.cluster.membership import BrokerMembership  # noqa: PLC0415

        if self._threads is not None:
            self._lease_thread = Threads(self.services.loop, 1)
        renew_blocking: RunBlocking = self._lease_thread or self.services.run_blocking
        self._membership = self.services.membership = BrokerMembership(
            self.services, lease, me, renew_blocking
        )
        await self._end_early_renewals()
        await self._membership.start()

    def _prepare_to_coordinate(self) -> None:
        """Import the coordinators as soon as there is a broker that this one may have to replace.

        A broker without groups starts without them. When it takes partitions over, clients wait, and on a
        busy machine the import would take longer than everything else.
        """
        assert self._membership is not None
        if self._threads is not None and not self._has_coordinators and not self._membership.is_alone:
            self._has_coordinators = True
            self._threads(load_coordinators)

    def _advertised(self) -> dict[str, tuple[str, int]]:
        """The advertised listeners; port 0 becomes the port that was bound."""
        bound = {each.name: each.port for each in self.listeners}
        return {
            listener.name: (listener.host, listener.port or bound.get(listener.name, 0))
            for listener in self._config.advertised_listeners
        }

    def _set_strays_aside(self, image: ClusterImage) -> None:
        """Move logs without a topic aside, as left by a crash during a deletion."""
        for topic, partition, topic_id in list(self._logs.existing()):
            state = image.topic(topic)
            if (
                state is not None
                and partition < len(state.partitions)
                and topic_id in (state.topic_id, ZERO_ID)  # a log without a stored topic id
            ):
                continue
            try:
                kept = self._logs.set_aside(topic, partition)
            except LogError as error:
                _log.error("%s", error)
            else:
                _log.warning("log %s-%d belongs to no topic: renamed to %s", topic, partition, kept)

    async def _open_partitions(
        self, image: ClusterImage, partitions: PartitionRegistry, run_blocking: RunBlocking
    ) -> None:
        """Load the log of every partition led here. One that cannot be read is offline."""
        for topic, state in image.led_here():
            await when_loaded(
                run_blocking,
                partial(
                    partitions.open,
                    topic.name,
                    topic.topic_id,
                    state.partition,
                    leader_epoch=state.leader_epoch,
                    config=topic_config(self.services.config, image, topic.name),
                ),
            )

    def _start_coordinator(self, partition: Partition) -> None:
        """Start the coordinator of an internal partition that is led here.

        Without any request, sessions of members expire, and decided transactions are completed.
        """
        row = BY_TOPIC.get(partition.topic)
        if row is not None:
            self.services.coordinator(row)

    def _take_config(self, config: BrokerConfig) -> None:
        self.services.config = config
        self.reload_certificates()
        self.services.validation = Validation.of(config)

    def _close_sockets(self) -> None:
        for bound in self.listeners:
            bound.close()
        if self.metrics_listener is not None:
            self.metrics_listener.close()
