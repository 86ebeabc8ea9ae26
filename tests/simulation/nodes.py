"""Brokers without sockets that share a store: each serves the groups whose log it leads, or believes to."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.log import AppendRefusedError, LogUnavailableError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header, stamp
from simulation.loops import ProcessLoop
from simulation.network import Exchange

CONFIG: Final = GroupConfig(group_initial_rebalance_delay_ms=500, group_min_session_timeout_ms=1_000)
_FLUSH_MS: Final = (1, 1, 5, 40)


class SharedLog:
    """One partition in a store that several brokers reach; only the newest epoch may write."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.durable_offset = 0
        self.epoch = -1
        self.view: LogAt | None = None  # of the leader that has it
        self.refusals = 0  # of older leaders' writes

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else 0

    def take(self, epoch: int, node: Node, partition: int) -> LogAt:
        """Lead from now on. What the one before had not flushed is partly there, partly not."""
        assert epoch > self.epoch, "the store hands out every epoch once"
        if self.view is not None:
            self.view.freeze()
        while self.end_offset > self.durable_offset and node.random.random() < 0.5:
            self.batches.pop()
        self.durable_offset = self.end_offset
        self.epoch = epoch
        self.view = LogAt(self, node, partition)
        return self.view

    def cut(self) -> None:
        while self.end_offset > self.durable_offset:
            self.batches.pop()


class LogAt:
    """The log at one leader epoch, as `coordinator.runtime` asks for it; fenced when there is a newer one."""

    start_offset = 0

    def __init__(self, shared: SharedLog, node: Node, partition: int) -> None:
        self._shared = shared
        self._node = node
        self._partition = partition
        self._frozen: tuple[int, int] | None = None
        self._cuts = 0

    def freeze(self) -> None:
        self._frozen = (self._shared.end_offset, self._shared.durable_offset)

    @property
    def is_fenced(self) -> bool:
        return self._frozen is not None

    @property
    def end_offset(self) -> int:
        return self._shared.end_offset if self._frozen is None else self._frozen[0]

    @property
    def durable_offset(self) -> int:
        return self._shared.durable_offset if self._frozen is None else self._frozen[1]

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int) -> int:
        shared, node = self._shared, self._node
        if self.is_fenced:
            shared.refusals += 1
            raise AppendRefusedError(ErrorCode.not_leader_or_follower, "another leads")
        stamped = bytearray(batch)
        base_offset = shared.end_offset
        stamp(stamped, base_offset, shared.epoch)
        shared.batches.append(bytes(stamped))
        delay_ms = node.random.choice(_FLUSH_MS)
        node.loop.call_later(delay_ms / 1000, self._flushed, shared.end_offset, self._cuts)
        return base_offset

    def _flushed(self, end_offset: int, cuts: int) -> None:
        if self.is_fenced or cuts != self._cuts or not self._node.is_alive:
            return
        if self._node.flush_fails():
            self._cuts += 1
            self._node.flush_failed(self._partition)
            return
        self._shared.durable_offset = max(self._shared.durable_offset, end_offset)
        self._node.flushed(self._partition)

    def read(self, offset: int, max_bytes: int) -> bytes:
        if self.is_fenced:
            raise LogUnavailableError("another leads")
        for batch in self._shared.batches:
            if offset < parse_header(batch).next_offset <= self._shared.durable_offset:
                return batch
        return b""

    def flush(self) -> None:
        """Every append is flushed without being asked."""

    def cut_back(self) -> None:
        if not self.is_fenced:
            self._shared.cut()


class Realm(Protocol):
    """Where nodes live."""

    loop: ProcessLoop
    random: Random
    logs: dict[int, SharedLog]
    topics: TopicDirectory
    flush_error: float

    def answer(self, exchange: Exchange, response: object) -> None: ...


class Asked(NamedTuple):
    """An exchange that a node has to answer."""

    node: Node
    exchange: Exchange

    def keep(self, response: object) -> None:
        self.node.answer(self.exchange, response)


class Node:
    """One broker's coordinator, and what it believes of its leadership."""

    def __init__(self, realm: Realm, broker_id: int) -> None:
        self._realm = realm
        self.broker_id = broker_id
        self.loop = realm.loop
        self.random = realm.random
        self.is_alive = True
        self.asked: dict[Exchange, None] = {}  # and not answered
        self.coordinator = GroupCoordinator(
            CONFIG, partition_count=len(realm.logs), topics=realm.topics, host=self
        )

    # -- leadership

    def elect(self, partition: int, epoch: int) -> None:
        """The news arrive that this broker leads; perhaps they are old by now."""
        shared = self._realm.logs[partition]
        if self.is_alive and epoch > shared.epoch:
            self.coordinator.shards.elect(partition, epoch, lambda: shared.take(epoch, self, partition))

    def resign(self, partition: int, epoch: int) -> None:
        """The news arrive that another leads."""
        if self.is_alive:
            self.coordinator.shards.resign(partition, epoch)

    def leads(self, partition: int) -> bool:
        """Whether this is the one whose writes the store takes."""
        view = self._realm.logs[partition].view
        return view is not None and view._node is self and self.is_alive

    def die(self) -> list[Exchange]:
        """Gone at once; the requests that nobody will answer."""
        self.is_alive = False
        asked, self.asked = list(self.asked), {}
        return asked

    # -- requests

    def handle(self, exchange: Exchange, request: Any) -> None:
        self.asked[exchange] = None
        context = self._context()
        context.client_id, context.client_host, context.token = (
            exchange.client,
            "/10.0.0.1",
            Asked(self, exchange),
        )
        if exchange.api_key is ApiKey.JOIN_GROUP:
            context.fresh_id = str(UUID(int=self.random.getrandbits(128), version=4))
        self.coordinator.handle(request, context)

    def _context(self) -> Context:
        clock = self.loop.clock
        return Context(now_ms=clock.now_ms(), timestamp_ms=clock.timestamp_ms())

    # -- what the coordinator asks of its host

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def answer(self, exchange: Exchange, response: object) -> None:
        if self.is_alive:
            self.asked.pop(exchange)
            self._realm.answer(exchange, response)

    def tell(self, event: Event) -> None:
        """Nobody asks why here."""

    def act(self, shard: Shard[Any, Any], action: object) -> None:
        raise AssertionError(f"groups do nothing outside their shard: {action!r}")

    def wake(self, at_ms: int) -> None:
        self.loop.call_at(at_ms / 1000, self._tick)

    def _tick(self) -> None:
        if self.is_alive:
            self.coordinator.shards.tick(self._context())
            next_ms = self.coordinator.shards.next_look_ms()
            if next_ms is not None:
                self.wake(max(next_ms, self.loop.clock.now_ms() + 1))

    def load(self, shard: Shard[Any, Any]) -> None:
        self.loop.call_later(self.random.randrange(3) / 1000, self._load, shard)

    def _load(self, shard: Shard[Any, Any]) -> None:
        if self.is_alive and not shard.load_some(self._context(), 1):
            self.load(shard)

    # -- the disk

    def flush_fails(self) -> bool:
        return self.random.random() < self._realm.flush_error

    def flushed(self, partition: int) -> None:
        shard = self.coordinator.shards.by_partition.get(partition)
        if shard is not None:
            shard.on_durable(self._context)

    def flush_failed(self, partition: int) -> None:
        shard = self.coordinator.shards.by_partition.get(partition)
        if shard is not None:
            shard.on_flush_failed()
