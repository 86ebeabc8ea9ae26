"""Several brokers on one event loop, as one cluster in memory: `klamm.Broker(brokers=3)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from klamm.broker import broker as assembly
from klamm.broker.cluster.lease import MemoryLeases
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.racks import own_rack
from klamm.broker.storage import Storage, segment_store
from klamm.clock import Clock
from klamm.config import RawValue
from klamm.storage.engines.memory import MemoryFiles
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.shared_logs import SharedLogs


class Nodes:
    """The brokers 1 to `count`, each with its own listener; they share cluster metadata and logs."""

    def __init__(
        self,
        settings: Mapping[str, RawValue],
        *,
        count: int,
        host: str,
        port: int,
        clock: Clock,
        random: Random,
        sleep: Callable[[float], None],
    ) -> None:
        self._sleep = sleep
        self._settings = settings
        self._host = host
        self._clock = clock
        self._random = random
        self._ports = {node_id: port + node_id - 1 if port else 0 for node_id in range(1, count + 1)}
        self.running: dict[int, assembly.BrokerNode] = {}
        config = self._config(1)
        self._files = MemoryFiles(clock)
        self._cluster = MemoryCluster(random=random)
        self._leases = MemoryLeases(clock.now_ms, config.broker_session_timeout_ms)
        self._logs = SharedLogs(
            segment_store(config, "/memory", self._cluster, self._files, clock, has_disk=False)
        )

    @property
    def addresses(self) -> Sequence[str]:
        """Of all brokers, also of those that do not run at present."""
        return [f"{self._host}:{port}" for port in self._ports.values()]

    async def start(self) -> None:
        """Start all brokers. Raises StartError."""
        for node_id in self._ports:
            await self.start_node(node_id)

    async def start_node(self, node_id: int) -> None:
        """Start a broker, on the address that it had before."""
        if node_id in self.running:
            raise ValueError(f"broker {node_id} is running")
        self._check(node_id)
        broker = assembly.BrokerNode(
            self._config(node_id),
            clock=self._clock,
            random=self._random,
            storage=Storage(
                self._logs.join(), self._cluster.join(), self._files, lease=self._leases.of(node_id)
            ),
            sleep=self._sleep,
        )
        await broker.start()
        self._ports[node_id] = broker.listeners[0].port
        self.running[node_id] = broker
        await self._spread()

    async def stop_node(self, node_id: int) -> None:
        """Hand its partitions over to other brokers, and stop it."""
        await self._leaving(node_id).stop()
        await self._spread()

    async def _spread(self) -> None:
        """All brokers know who runs: a program need not wait for what it has caused itself."""
        for broker in self.running.values():
            await broker.services.follower.catch_up()

    async def kill_node(self, node_id: int) -> None:
        """End a broker as a crash does; the others take its partitions over."""
        await self._leaving(node_id).kill()

    async def stop(self) -> None:
        """Stop all brokers."""
        for node_id in list(self.running):
            await self._leaving(node_id).stop(redirects=False)
            await self._spread()
        self._logs.close()

    def _leaving(self, node_id: int) -> assembly.BrokerNode:
        self._check(node_id)
        broker = self.running.pop(node_id, None)
        if broker is None:
            raise ValueError(f"broker {node_id} is not running")
        return broker

    def _check(self, node_id: int) -> None:
        if node_id not in self._ports:
            raise ValueError(f"no broker {node_id}: expected 1 to {len(self._ports)}")

    def _config(self, node_id: int) -> BrokerConfig:
        return BrokerConfig.from_settings(
            {
                **self._settings,
                **own_rack(self._settings, node_id - 1),
                "node.id": node_id,
                "listeners": f"PLAINTEXT://{self._host}:{self._ports[node_id]}",
            }
        )
