"""Brokers without sockets that share a store: each serves the groups whose log it leads, or believes to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from klamm.broker.coordinators.host import Coordinator, CoordinatorHost
from klamm.broker.net.context import ClientSoftware, HeldResponse, RequestContext
from klamm.clock import ManualClock
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupRecord
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.log import AppendRefusedError, LogUnavailableError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header, stamp
from simulation.consumer_members import INTERVAL_MS, SESSION_MS
from simulation.loops import Agenda, ProcessLoop
from simulation.network import Exchange

CONFIG: Final = GroupConfig(
    group_initial_rebalance_delay_ms=500,
    group_min_session_timeout_ms=1_000,
    group_consumer_session_timeout_ms=SESSION_MS,
    group_consumer_heartbeat_interval_ms=INTERVAL_MS,
)
_FLUSH_MS: Final = (1, 1, 5, 40, 300)
_LATER_MS: Final = 20  # what nothing waits for
_LOAD_AFTER_MS: Final = (0, 1, 5, 50)
_LOADING_SHARE: Final = 10  # how much more often a flush fails that a loading shard waits for: there are few


class StumbleError(Exception):
    """A fault of ours that was planted where nobody expects one."""


def _next_offset(batch: bytes) -> int:
    return parse_header(batch).next_offset


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
        return _next_offset(self.batches[-1]) if self.batches else 0

    def take(self, epoch: int, node: Process[Any], partition: int) -> LogAt:
        """Lead from now on. What the one before had not flushed is partly there, partly not."""
        assert epoch > self.epoch, "the store hands out every epoch once"
        if self.view is not None:
            self.view.freeze()
        while self.end_offset > self.durable_offset and node.random.random() < 0.5:
            self.batches.pop()
        self.epoch = epoch
        self.view = LogAt(self, node, partition)
        return self.view

    def cut(self) -> None:
        while self.end_offset > self.durable_offset:
            self.batches.pop()


class LogAt:
    """The log at one leader epoch, as `coordinator.runtime` asks for it; fenced when there is a newer one."""

    start_offset = 0
    is_being_repaired = False

    def __init__(self, shared: SharedLog, node: Process[Any], partition: int) -> None:
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

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        shared = self._shared
        if self.is_fenced:
            shared.refusals += 1
            raise AppendRefusedError(ErrorCode.not_leader_or_follower, "another leads")
        stamped = bytearray(batch)
        base_offset = shared.end_offset
        stamp(stamped, base_offset, shared.epoch)
        shared.batches.append(bytes(stamped))
        self._node.appended(self._partition, shared.batches[-1])
        if is_awaited:
            self.flush()
        else:
            self._node.loop.call_later(_LATER_MS / 1000, self.flush)
        return base_offset

    def flush(self) -> None:
        node = self._node
        delay_ms = node.random.choice(_FLUSH_MS)
        node.loop.call_later(delay_ms / 1000, self._flushed, self.end_offset, self._cuts)

    def _flushed(self, end_offset: int, cuts: int) -> None:
        if self.is_fenced or cuts != self._cuts:
            return
        if self._node.flush_fails(self._partition):
            self._cuts += 1
            self._shared.cut()
            self._node.on_flush_failed(self._partition)
            return
        self._shared.durable_offset = max(self._shared.durable_offset, end_offset)
        self._node.on_durable(self._partition)

    def read(self, offset: int, max_bytes: int) -> bytes:
        if self.is_fenced:
            raise LogUnavailableError("another leads")
        batches = self._shared.batches
        found = bisect_right(batches, offset, key=_next_offset)
        if found < len(batches) and _next_offset(batches[found]) <= self._shared.durable_offset:
            return batches[found]
        return b""

    def cut_back(self) -> None:
        if not self.is_fenced:
            self._cuts += 1
            self._shared.cut()


class Realm(Protocol):
    """Where nodes live."""

    clock: ManualClock
    agenda: Agenda
    random: Random
    logs: dict[int, SharedLog]
    flush_error: float
    failed_loads: int


class GroupRealm(Realm, Protocol):
    """Where nodes live that coordinate groups."""

    topics: TopicDirectory
    stumble: float
    stumbles: int

    def answer(self, exchange: Exchange, response: object) -> None: ...


Hosted = TypeVar("Hosted", bound=Coordinator)


class Process(CoordinatorHost[Hosted]):
    """One broker's coordinator in a process of its own, and what it believes of its leadership."""

    def __init__(self, realm: Realm, broker_id: int, make: Callable[[ShardHost], Hosted]) -> None:
        self._realm = realm
        self.broker_id = broker_id
        self.loop = ProcessLoop(realm.clock)
        self.random = realm.random
        self.is_alive = True
        realm.agenda.add(self.loop)
        super().__init__(self.loop, realm.clock, make, events=self)

    def lead(self, partition: int, epoch: int) -> None:
        """The news arrive that this broker leads; perhaps they are old by now."""
        shared = self._realm.logs[partition]
        if self.is_alive and epoch > shared.epoch:
            self.elect(partition, epoch, lambda: shared.take(epoch, self, partition))

    def retire(self, partition: int, epoch: int) -> None:
        """The news arrive that another leads."""
        if self.is_alive:
            self.resign(partition, epoch)

    def leads(self, partition: int) -> bool:
        """Whether this is the one whose writes the store takes."""
        view = self._realm.logs[partition].view
        return view is not None and view._node is self and self.is_alive

    def close(self) -> None:
        """Gone at once."""
        self.is_alive = False
        self._realm.agenda.remove(self.loop)
        self.loop.close()  # a host has no tasks, only calls to come

    def tell(self, event: Event) -> None:
        """Nobody asks why here."""

    def load(self, shard: Shard) -> None:
        delay_ms = self.random.choice(_LOAD_AFTER_MS)
        self.loop.call_later(delay_ms / 1000, super().load, shard)

    def flush_fails(self, partition: int) -> bool:
        shard = self.shards.by_partition.get(partition)
        is_loading = shard is not None and shard.is_awaiting_flush
        chance = self._realm.flush_error * (_LOADING_SHARE if is_loading else 1)
        fails = self.random.random() < chance
        self._realm.failed_loads += fails and is_loading
        return fails

    def appended(self, partition: int, batch: bytes) -> None:
        """A batch is in the log of a partition; for whoever watches."""


class StumblingMachine(GroupMachine):
    """A machine that fails in the middle of things, as only a fault of ours would make it."""

    def __init__(self, config: GroupConfig, realm: GroupRealm) -> None:
        super().__init__(config)
        self._realm = realm

    def _stumble(self) -> None:
        if self._realm.random.random() < self._realm.stumble:
            self._realm.stumbles += 1
            raise StumbleError

    def encode(self, records: Sequence[GroupRecord], timestamp_ms: int) -> bytes:
        self._stumble()
        return super().encode(records, timestamp_ms)

    def replay(self, records: Sequence[GroupRecord], offset: int) -> int:
        self._stumble()
        return super().replay(records, offset)

    def apply(self, note: Note) -> None:
        self._stumble()
        super().apply(note)

    def load(self, batches: bytes) -> int:
        self._stumble()
        return super().load(batches)

    def loaded(self, context: Context) -> GroupOutcome:
        self._stumble()
        return super().loaded(context)


class Node(Process[GroupCoordinator]):
    """A process that coordinates groups."""

    def __init__(self, realm: GroupRealm, broker_id: int) -> None:
        super().__init__(
            realm,
            broker_id,
            lambda host: GroupCoordinator(
                CONFIG,
                partition_count=len(realm.logs),
                topics=realm.topics,
                host=host,
                make_machine=lambda config: StumblingMachine(config, realm),
            ),
        )
        self._answers = realm
        self.asked: dict[Exchange, None] = {}  # and not answered

    def die(self) -> list[Exchange]:
        """Gone at once; the requests that nobody will answer."""
        self.close()
        asked, self.asked = list(self.asked), {}
        return asked

    def handle(self, exchange: Exchange, request: Any) -> None:
        self.asked[exchange] = None
        context = RequestContext(exchange.client, "/10.0.0.1", "PLAINTEXT", ClientSoftware())
        fresh_id = ""
        if exchange.api_key in (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT):
            fresh_id = str(UUID(int=self.random.getrandbits(128), version=4))
        response = self.ask(request, context, fresh_id=fresh_id)
        if isinstance(response, HeldResponse):
            response.listener = lambda: self._answer(exchange, response.response)
        else:
            self._answer(exchange, response)

    def _answer(self, exchange: Exchange, response: object) -> None:
        if self.is_alive:
            self.asked.pop(exchange)
            self._answers.answer(exchange, response)
