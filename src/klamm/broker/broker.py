"""The assembly of a broker, for the command line and for tests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.features import finalize_defaults
from klamm.broker.cluster.image import ClusterImage, LeadershipTaken
from klamm.broker.cluster.producer_ids import ProducerIds
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.broker.cluster.topics import TopicManager, topic_config, with_dynamic_configs
from klamm.broker.net.server import BoundListener, Server, bind
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.fetch_sessions import FetchSessions
from klamm.broker.partitions.flusher import LANES, Flusher
from klamm.broker.partitions.markers import MarkerWriter
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.broker.partitions.validation import Validation
from klamm.broker.routes import RouteTable, routes_for
from klamm.broker.security.permissions import AllowAll
from klamm.broker.services import Arguments, Result, RunBlocking, Services
from klamm.broker.upkeep.periodic import Chores
from klamm.clock import Clock
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import BrokerRegistration
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.metrics.metrics import Metrics
    from klamm.broker.storage import Storage
    from klamm.storage.engines.segments.kernel_sync import KernelSync

_THREADS: Final = LANES + 4  # for flushes, and some for the cluster store and the cleaner

_log = logging.getLogger(__name__)


class Threads:
    """Runs blocking functions on worker threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor: Executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="klamm")

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        return self._loop.run_in_executor(self._executor, function, *arguments)

    def close(self) -> None:
        self._executor.shutdown()


class Broker:
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
    ) -> None:
        self._config = config
        self._clock = clock
        self._random = random
        self._storage = storage
        self._logs = storage.logs
        self._cluster = storage.cluster
        self._run_blocking = run_blocking
        self._sleep = sleep
        self._threads: Threads | None = None
        self._chores: Chores | None = None
        self._services: Services | None = None
        self._server: Server | None = None
        self._metrics: Metrics | None = None
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
        except BaseException:
            self._close_sockets()
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._run_blocking is None:
            self._threads = Threads(loop)
        run_blocking: RunBlocking = self._run_blocking or self._threads  # type: ignore[assignment]  # one is
        image, config = self._join_cluster()
        partitions = PartitionRegistry(self._logs, loop)
        topics = TopicManager(
            config=config,
            image=image,
            cluster=self._cluster,
            partitions=partitions,
            random=self._random,
            run_blocking=run_blocking,
        )
        flusher = Flusher(loop, self._clock, run_blocking, self._open_kernel_sync, wake=partitions.wake)
        services = self._services = Services(
            config=config,
            clock=self._clock,
            random=self._random,
            loop=loop,
            run_blocking=run_blocking,
            sleep=self._sleep,
            routes=RouteTable(routes_for(config)),
            cluster=self._cluster,
            logs=self._logs,
            image=image,
            topics=topics,
            partitions=partitions,
            flusher=flusher,
            markers=MarkerWriter(image, partitions, flusher, self._clock),
            producer_ids=ProducerIds(self._cluster, run_blocking),
            fetch_sessions=FetchSessions(
                self._clock, self._random, config.max_incremental_fetch_session_cache_slots
            ),
            deadlines=Deadlines(loop),
            meter=None,
            validation=Validation.of(config),
            authorizer=AllowAll(),
        )
        topics.config_watchers.append(self._take_config)
        self._set_strays_aside(image)
        self._open_partitions(image, partitions)
        if image.topic(OFFSETS_TOPIC) is not None:
            services.start_groups()  # sessions of members expire even without requests
        if image.topic(TRANSACTIONS_TOPIC) is not None:
            services.start_transactions()  # completes decided transactions, aborts expired ones
        self._server = Server(services)
        self._chores = Chores(services)
        if self._storage.files is not None and config.log_cleaner_enable:
            self._chores.add_cleaning(self._storage.files)
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
        self._metrics = Metrics(self.services, self.server, self._chores, self.services.meter)
        return self._metrics

    async def stop(self) -> None:
        """Complete requests where possible, flush, and shut down cleanly."""
        if self._chores is not None:
            self._chores.call_back()
        if self._metrics is not None:
            self._metrics.stop()
        if self._services is not None:
            self._services.stop_coordinators()
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
            self._threads.close()
        self._logs.close()
        self._cluster.close()

    def _open_kernel_sync(self) -> KernelSync | None:
        if self._run_blocking is not None or not self._storage.is_on_disk:
            return None
        # Imported here, to keep the start fast: not needed before the first flush.
        from klamm.storage.engines.segments.kernel_sync import KernelSync  # noqa: PLC0415

        return KernelSync.open()

    def _join_cluster(self) -> tuple[ClusterImage, BrokerConfig]:
        """Register, lead partitions at the next epoch, and load the dynamic configuration."""
        broker_id = self._config.node_id
        self._cluster.register_broker(
            BrokerRegistration(broker_id, self._config.broker_rack, self._advertised())
        )
        finalize_defaults(self._cluster, self._config.transaction_version)
        epochs = self._cluster.lead(broker_id)
        image = ClusterImage.load(self._cluster, broker_id)
        image.apply(LeadershipTaken(broker_id, epochs))
        return image, with_dynamic_configs(self._config, image)

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

    def _open_partitions(self, image: ClusterImage, partitions: PartitionRegistry) -> None:
        """Load the log of every partition led here. One that cannot be read is offline."""
        for topic, state in image.led_here():
            partitions.open(
                topic.name,
                topic.topic_id,
                state.partition,
                leader_epoch=state.leader_epoch,
                config=topic_config(self.services.config, image, topic.name),
            )

    def _take_config(self, config: BrokerConfig) -> None:
        self.services.config = config
        self.services.validation = Validation.of(config)

    def _close_sockets(self) -> None:
        for bound in self.listeners:
            bound.close()
        if self.metrics_listener is not None:
            self.metrics_listener.close()
