"""Several brokers in one jar: one virtual clock and loop, one cluster store, one set of logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from internals.jar import JarClient
from internals.virtual_disk import VirtualDisk
from klamm.broker.broker import BrokerNode
from klamm.broker.cluster.lease import MemoryLeases
from klamm.broker.cluster.placement import plan_take_over
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.connection import Connection
from klamm.broker.services import Services
from klamm.broker.storage import Storage, segment_store
from klamm.clock import ManualClock
from klamm.net.network import Address, LinkEvents
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from klamm.protocol.types import Buffer
from klamm.storage.cluster import ClusterStore, LeaderChange, PartitionRegistration
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.shared_logs import SharedLogs
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.virtual_loop import VirtualLoop


class JarNode:
    """One broker of a cluster."""

    def __init__(self, jar: SharedJar, node_id: int, settings: Mapping[str, str]) -> None:
        self.jar = jar
        self.clock, self.loop = jar.clock, jar.loop
        self.node_id = node_id
        self.disk = jar.disk_of(node_id)
        self.config = BrokerConfig.from_settings(
            {
                "node.id": str(node_id),
                "advertised.listeners": f"PLAINTEXT://node{node_id}:{9090 + node_id}",
                **settings,
            }
        )
        storage = jar.storage_of(self.config)
        self.cluster = storage.cluster
        self.broker = BrokerNode(
            self.config,
            clock=jar.clock,
            random=Random(node_id),
            storage=storage,
            sleep=lambda seconds: None,
            run_blocking=self.disk,
            transport=jar.network,
        )
        self.loop.run(self.broker.start(listen=False))

    @property
    def services(self) -> Services:
        return self.broker.services

    def connect(self, *, client_id: str | None = "test", ip: str = "10.0.0.1") -> JarClient:
        return JarClient(self, "PLAINTEXT", ip, client_id)

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """One request on a connection of its own."""
        return self.connect().ask(api_key, version, request)

    def catch_up(self) -> None:
        self.loop.run(self.services.follower.catch_up())


class PeerLink(asyncio.Transport):
    """A connection from one broker to another: what either sends arrives in the next turn of the loop."""

    def __init__(self, jar: SharedJar, node_id: int, events: LinkEvents) -> None:
        super().__init__({"peername": ("10.0.0.9", 40_000)})
        self._jar = jar
        self.node_id = node_id
        self._events = events
        self._server_end: Connection | None = None
        self._is_over = False
        jar.loop.call_soon(self._open)

    def _open(self) -> None:
        node = self._jar.nodes.get(self.node_id)
        if self._is_over:
            return
        if node is None:
            self._is_over = True
            self._events.lost(ConnectionRefusedError("connection refused"))
            return
        self._jar.network.links.add(self)
        self._server_end = node.broker.server.plain_connection("PLAINTEXT")
        self._server_end.connection_made(self)
        self._events.connected()

    # --- the client's end ---------------------------------------------------------------------------------

    def send(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        self._jar.loop.call_soon(self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if not self._is_over and self._server_end is not None:
            self._server_end.data_received(data)

    # --- the server's end ---------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._jar.loop.call_soon(self._answer, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _answer(self, data: bytes) -> None:
        if not self._is_over:
            self._events.received(data)

    def is_closing(self) -> bool:
        return self._is_over

    def pause_reading(self) -> None:
        """Nothing here is so large."""

    def resume_reading(self) -> None:
        """As above."""

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def cut(self) -> None:
        """The broker at the other end died."""
        self._end(ConnectionResetError("connection reset"))

    def _end(self, error: OSError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._jar.network.links.discard(self)
            self._jar.loop.call_soon(self._events.lost, error)
            if self._server_end is not None:
                self._jar.loop.call_soon(self._server_end.connection_lost, None)


class JarNetwork:
    """Connections between the brokers of a jar, by the ports that they advertise."""

    def __init__(self, jar: SharedJar) -> None:
        self._jar = jar
        self.links: set[PeerLink] = set()

    def connect(self, address: Address, events: LinkEvents) -> PeerLink:
        return PeerLink(self._jar, address[1] - 9090, events)


class SharedJar:
    """Brokers 1 to `count`.

    A test moves partitions and spreads changes itself. With `members` the brokers do so: they have leases,
    follow the store, find deaths, and carry out moves.
    """

    def __init__(
        self,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] = (),
        members: bool = False,
        disk_delay_ms: int = 0,
        seed: int = 1,
    ) -> None:
        self.clock = ManualClock()
        self.loop = VirtualLoop(self.clock)
        self.disk_delay_ms = disk_delay_ms
        self._settings = {"offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "6"}
        self._settings |= settings or {}
        self._racks = racks
        self.leases = MemoryLeases(self.clock.now_ms, 9000) if members else None
        self.cluster = self._make_store(seed)
        self.nodes: dict[int, JarNode] = {}
        self.network = JarNetwork(self)
        for node_id in range(1, count + 1):
            self.start(node_id)

    def __enter__(self) -> SharedJar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getitem__(self, node_id: int) -> JarNode:
        return self.nodes[node_id]

    def _make_store(self, seed: int) -> ClusterStore:
        """Make what all brokers share; the cluster store as a bystander sees it."""
        self._memory = MemoryCluster(random=Random(seed))
        self.files = SimulatedFiles(Random(seed), self.clock)
        config = BrokerConfig.from_settings(self._settings)
        self.logs = SharedLogs(segment_store(config, "/logs", self._memory, self.files, self.clock))
        return self._memory

    def storage_of(self, config: BrokerConfig) -> Storage:
        """What one broker has of it."""
        lease = None if self.leases is None else self.leases.of(config.node_id)
        return Storage(self.logs.join(), self._memory.join(), self.files, lease=lease)

    def disk_of(self, node_id: int) -> VirtualDisk:
        return VirtualDisk(self.loop, self.disk_delay_ms)

    def _close_store(self) -> None:
        self.logs.close()

    def start(self, node_id: int) -> JarNode:
        """Start a broker, for the first time or again."""
        rack = {"broker.rack": self._racks[node_id - 1]} if self._racks else {}
        self.nodes[node_id] = JarNode(self, node_id, self._settings | rack)
        self.spread()
        return self.nodes[node_id]

    def spread(self) -> None:
        """Let every broker learn of all changes."""
        for node in self.nodes.values():
            node.catch_up()
        self.loop.settle()

    def create_topic(self, name: str = "t", leaders: Sequence[int] = (1, 2, 3), *, at: int = 1) -> bytes:
        """A topic whose partitions have these leaders; its id."""
        ids = sorted(self.nodes)
        rows = [
            CreatableReplicaAssignment(index, [leader, *(each for each in ids if each != leader)])
            for index, leader in enumerate(leaders)
        ]
        wanted = CreatableTopic(name, -1, -1, assignments=rows)
        answer = self[at].ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([wanted]))
        assert answer.topics[0].error_code == 0, answer
        self.spread()
        topic_id: bytes = answer.topics[0].topic_id
        return topic_id

    def state(self, topic: str, partition: int) -> PartitionRegistration:
        return self.cluster.topics()[topic].partitions[partition]

    def move(self, topic: str, partition: int, to: int, *, told: bool = True) -> None:
        """Hand a partition over to another broker; with `told` all learn of it."""
        state = self.state(topic, partition)
        change = LeaderChange(topic, partition, state.leader_id, state.leader_epoch, to)
        former = self[state.leader_id].cluster
        assert former.start_moves([change])
        assert former.finish_moves([change])
        if told:
            self.spread()

    def stop(self, node_id: int) -> None:
        """A broker stops in good order; as a member it hands its partitions over first."""
        self.loop.run(self.nodes.pop(node_id).broker.stop())

    def kill(self, node_id: int) -> None:
        """A broker dies, and the others take its partitions over."""
        self.vanish(node_id)
        self.take_over(node_id)

    def vanish(self, node_id: int) -> None:
        """A broker dies; the others do not know yet."""
        dead = self.nodes.pop(node_id)
        for link in list(self.network.links):
            if link.node_id == node_id:
                link.cut()
        self.loop.run(dead.broker.kill())

    def take_over(self, node_id: int, *, spread: bool = True) -> None:
        """The partitions of a dead broker go to the others."""
        running = sorted(self.nodes)
        taker = self.nodes[running[0]].cluster
        (registration,) = (each for each in taker.brokers() if each.broker_id == node_id)
        taker.take_over(registration, plan_take_over(taker.topics(), node_id, running))
        if spread:
            self.spread()

    def pass_ms(self, duration_ms: int) -> None:
        self.loop.pass_ms(duration_ms)

    def close(self) -> None:
        for node in self.nodes.values():
            self.loop.run(node.broker.stop())
        self._close_store()
        self.loop.close()
