"""A consumer without threads, sockets or a running clock: waiting is what makes the world go round."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.polling.inbox import Signal
from klamm.client.consumer.settings import parse
from klamm.client.runtime import Core
from klamm.clock import Clock, ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import BASE_PORT, FakeCluster
from unit.client.fakes import Asked, FakeTransport

MAX_ROUNDS = 10_000


class WorldTransport(FakeTransport):
    """Requests go to the cluster, once the sender has let go of them."""

    def __init__(self) -> None:
        super().__init__()
        self.arriving: deque[Asked] = deque()

    def arrived(self, asked: Asked) -> None:
        if asked.api_key is ApiKey.API_VERSIONS:
            super().arrived(asked)
        else:
            self.arriving.append(asked)


class WorldSignal:
    """A flag. To wait for it is to let the world go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    async def wait(self, due_at_ms: int | None) -> None:
        clock = self._world.clock
        if due_at_ms is not None and due_at_ms <= clock.now_ms():
            clock.advance(1)  # or a poller that is always late would stop time
        self._world.run(lambda: self._is_set, due_at_ms)


class WorldHost:
    """A consumer's core, driven by the world."""

    def __init__(self, world: World, config: Any, settings: Any) -> None:
        self.clock: Clock = world.clock
        self.patience: Clock = world.clock
        self.transport = WorldTransport()
        self.signal: Signal = WorldSignal(world)
        self.work: deque[Callable[[], None]] = deque()
        self.is_stopped = False
        self.failure: BaseException | None = None
        self.core = Core(
            config.network(settings.client_id),
            config.metadata(allow_auto_topic_creation=True),
            transport=self.transport,
            random=Random(7),
            now_ms=world.clock.now_ms(),
        )

    def submit(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def check(self) -> None:
        """Nothing goes wrong with this thread: there is none."""

    def stop(self) -> None:
        self.is_stopped = True
        while self.work:
            self.work.popleft()()


@dataclass
class World:
    """The clock, the cluster, and every consumer of a test."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(now_ms=1_000_000))
    cluster: FakeCluster = field(init=False)
    hosts: list[WorldHost] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)  # brokers that do not answer

    def __post_init__(self) -> None:
        self.cluster = FakeCluster(self.clock)

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer of this world, as a program sees it."""
        settings.setdefault("bootstrap_servers", f"127.0.0.1:{BASE_PORT + 1}")
        settings.setdefault("auto_offset_reset", "earliest")
        parsed, checked = parse(None, settings, len(self.hosts) + 1)
        host = WorldHost(self, parsed, checked)
        self.hosts.append(host)
        made = Consumer.__new__(Consumer)
        made._begin(ConsumerOperations(host, checked))
        if topics:
            made.subscribe(topics)
        return made

    # --- time -------------------------------------------------------------------------------------------

    def run(self, is_done: Callable[[], bool], until_ms: int | None) -> None:
        """Go on until something is done, or an instant is reached."""
        for _ in range(MAX_ROUNDS):
            if is_done():
                return
            due_ms, is_busy = self._round()
            if is_busy or is_done():
                continue
            now_ms = self.clock.now_ms()
            if until_ms is not None and now_ms >= until_ms:
                return
            targets = [item for item in (due_ms, until_ms) if item is not None]
            assert targets, "nothing will ever happen any more"
            self.clock.advance(max(1, min(targets) - now_ms))
        raise AssertionError("the world does not come to rest")

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass; consumers do what they do in the background."""
        self.run(lambda: False, self.clock.now_ms() + duration_ms)

    def settle(self, *consumers: Consumer, rounds: int = 60) -> dict[int, list[bytes | None]]:
        """Poll consumers in turn for a while; the values that each has got."""
        got: dict[int, list[bytes | None]] = {index: [] for index in range(len(consumers))}
        for _ in range(rounds):
            for index, consumer in enumerate(consumers):
                got[index] += [record.value for record in consumer.poll(0)]
            self.pass_time(100)
        return got

    def _round(self) -> tuple[int | None, bool]:
        """One round of everything; when something is due, and whether anything happened."""
        is_busy = False
        dues: list[int] = []
        now_ms = self.clock.now_ms()
        for host in self.hosts:
            if host.is_stopped:
                continue
            host.core.on_time(now_ms)
            while host.work:
                host.work.popleft()()
                is_busy = True
            host.transport.open_all()
            while host.transport.arriving:
                asked = host.transport.arriving.popleft()
                if asked.link.address[1] - BASE_PORT not in self.frozen:
                    self.cluster.arrived(asked)
                is_busy = True
            # After the answers, as the thread does it, and before the poller has its turn.
            due_ms = host.core.tick(now_ms)
            if due_ms is not None:
                dues.append(due_ms)
            is_busy |= bool(host.transport.arriving)
        is_busy |= self.cluster.tick()
        due_ms = self.cluster.next_due_ms()
        if due_ms is not None:
            dues.append(due_ms)
        ahead = [due for due in dues if due > now_ms]
        return min(ahead, default=None), is_busy


class Heard(RebalanceListener):
    """A listener that remembers what it heard, and may do something about it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.do: dict[str, Callable[[list[TopicPartition]], None]] = {}

    def _note(self, name: str, given: list[TopicPartition]) -> None:
        self.calls.append((name, given))
        action = self.do.get(name)
        if action is not None:
            action(given)

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self._note("lost", partitions)

    def take(self) -> list[tuple[str, list[TopicPartition]]]:
        """What was heard since the last time."""
        calls, self.calls = self.calls, []
        return calls
