"""A whole broker in a jar: virtual time, a disk that obeys, clients without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

from internals.virtual_disk import VirtualDisk
from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.services import Services
from klamm.broker.storage import Storage, segment_store
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from klamm.storage.cluster import ClusterStore
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.virtual_loop import VirtualLoop
from klamm.testing.wire import frames_in, request_bytes, response_from


class JarTransport(asyncio.Transport):
    """The broker's end of a connection: remembers what was written, and can be slow to read it."""

    def __init__(self, loop: VirtualLoop, protocol: Any, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer})
        self._loop = loop
        self.protocol = protocol  # a connection, or what comes before it
        self.unread = bytearray()  # sent, and not accepted by the client
        self.high_water_bytes = 64 * 1024
        self.reads = True  # whether the client takes what is sent
        self._is_paused = False
        self.is_over = False
        self.is_held_up = False
        self.received = bytearray()
        self.writes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self.unread += data
        self._carry()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _carry(self) -> None:
        if self.reads:
            self.received += self.unread
            self.unread.clear()
        if len(self.unread) > self.high_water_bytes and not self.is_held_up:
            self.is_held_up = True
            self.protocol.pause_writing()
        elif not self.unread and self.is_held_up:
            self.is_held_up = False
            self.protocol.resume_writing()

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def read_on(self) -> None:
        """The client takes what waits for it."""
        self.reads = True
        self._carry()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def is_unread(self) -> bool:
        """Whether the broker reads no further for now."""
        return self._is_paused

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._loop.call_soon(self.protocol.connection_lost, None)


class Reachable(Protocol):
    """A broker to connect to."""

    broker: BrokerNode
    loop: VirtualLoop


class JarClient:
    """A client without a socket: sends by calling, finds its answers in a list."""

    def __init__(self, jar: Reachable, listener: str, ip: str, client_id: str | None) -> None:
        self._jar = jar
        self._client_id = client_id
        self._asked: dict[int, tuple[ApiKey, int]] = {}
        self._next_id = 0
        self._read_bytes = 0
        accepted: Any = jar.broker.server.accept(listener)
        self.transport = JarTransport(jar.loop, accepted, (ip, 50_000))
        accepted.connection_made(self.transport)

    @property
    def protocol(self) -> Any:
        """The broker's end."""
        return self.transport.protocol

    @property
    def is_closed(self) -> bool:
        return self.transport.is_over

    def send_bytes(self, data: bytes) -> None:
        async def arrive() -> None:
            self.protocol.data_received(data)

        if self._jar.loop.is_running():
            self.protocol.data_received(data)
        else:
            self._jar.loop.run(arrive())  # inside the loop, as any transport would

    def request(self, api_key: ApiKey, version: int, request: Any) -> bytes:
        """The bytes of a request whose answer this client will understand."""
        self._next_id += 1
        self._asked[self._next_id] = (api_key, version)
        return request_bytes(
            api_key, version, request, correlation_id=self._next_id, client_id=self._client_id
        )

    def send(self, api_key: ApiKey, version: int, request: Any) -> int:
        """Send; the correlation id."""
        self.send_bytes(self.request(api_key, version, request))
        return self._next_id

    def frames(self) -> list[bytes]:
        """Everything that came, undecoded."""
        return frames_in(bytes(self.transport.received))

    def answers(self) -> list[tuple[int, Any]]:
        """(correlation id, response) of everything that came, in order."""
        result = []
        for frame in self.frames():
            api_key, version = self._asked[int.from_bytes(frame[:4], "big", signed=True)]
            result.append(response_from(api_key, version, frame))
        return result

    def new_answers(self) -> list[Any]:
        """What came since this was last asked."""
        answers = [response for _, response in self.answers()]
        new, self._read_bytes = answers[self._read_bytes :], len(answers)
        return new

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """Send, let it happen, and give the answer; it must need no time to come."""
        self.send(api_key, version, request)
        self._jar.loop.settle()
        new = self.new_answers()
        assert len(new) == 1, new
        return new[0]

    def close(self) -> None:
        """The client hangs up."""
        self.protocol.eof_received()
        self.transport.abort()


class Jar:
    """A broker on a simulated disk, which keeps what was synced when the jar is broken and made anew."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        clock: ManualClock | None = None,
        files: SimulatedFiles | None = None,
        cluster: ClusterStore | None = None,
        disk_delay_ms: int = 0,
        seed: int = 1,
    ) -> None:
        self.clock = clock or ManualClock()
        self.loop = VirtualLoop(self.clock)
        self.disk = VirtualDisk(self.loop, disk_delay_ms)
        self.slept_s: list[float] = []  # what work on the disk would have slept
        self.files = files or SimulatedFiles(Random(seed), self.clock)
        self.files.make_directory("/logs")
        self.files.sync_directory("/")
        self.cluster = cluster or MemoryCluster(random=Random(seed))
        self.config = BrokerConfig.from_settings(settings or {})
        logs = segment_store(self.config, "/logs", self.cluster, self.files, self.clock)
        self.broker = BrokerNode(
            self.config,
            clock=self.clock,
            random=Random(seed),
            storage=Storage(logs, self.cluster, self.files),
            sleep=self.slept_s.append,
            run_blocking=self.disk,
        )
        self.loop.run(self.broker.start(listen=False))

    @property
    def services(self) -> Services:
        return self.broker.services

    def join(self) -> ClusterStore:
        """The cluster store of another broker in the same cluster."""
        assert isinstance(self.cluster, MemoryCluster)
        return self.cluster.join()

    def connect(
        self, *, listener: str = "PLAINTEXT", ip: str = "10.0.0.1", client_id: str | None = "test"
    ) -> JarClient:
        return JarClient(self, listener, ip, client_id)

    def create_topic(self, name: str = "t", partitions: int = 1, **configs: object) -> bytes:
        """A topic with configs named with underscores; its id."""
        wanted = CreatableTopic(
            name,
            partitions,
            1,
            configs=[
                CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in configs.items()
            ],
        )
        outcome = self.loop.run(self.services.topics.create([wanted]))[name]
        assert hasattr(outcome, "topic"), outcome
        topic = self.services.image.topic(name)
        assert topic is not None
        return topic.topic_id

    def delete_topic(self, name: str) -> None:
        topic = self.services.image.topic(name)
        assert topic is not None
        self.loop.run(self.services.topics.delete([topic]))

    def pass_ms(self, duration_ms: int) -> None:
        self.loop.pass_ms(duration_ms)

    def close(self) -> None:
        self.loop.run(self.broker.stop())
        self.loop.close()
