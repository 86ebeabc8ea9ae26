"""A group coordinator on a clock that a test moves, with its log in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Generic, TypeVar

from klamm.assignors.base import PartitionView
from klamm.assignors.server import GroupAssignor, compute_target
from klamm.clock import ManualClock
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.regexes import resolved
from klamm.coordinator.group.consumer.signals import ComputeTarget, ResolveRegexes, TargetFound
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.log import CoordinatorLog
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard
from klamm.records.batch import parse_header, stamp

_LOAD_BYTES: Final = 1 << 20


class MemoryLog:
    """The log of one shard. What is appended is durable at once."""

    is_being_repaired = False

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    @property
    def start_offset(self) -> int:
        return parse_header(self.batches[0]).base_offset if self.batches else 0

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else 0

    @property
    def durable_offset(self) -> int:
        return self.end_offset

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        stamped = bytearray(batch)
        base_offset = self.end_offset
        stamp(stamped, base_offset, 0)
        self.batches.append(bytes(stamped))
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        found: list[bytes] = []
        size = 0
        for batch in self.batches:
            if offset < parse_header(batch).next_offset <= self.durable_offset:
                if found and size + len(batch) > max_bytes:
                    break
                found.append(batch)
                size += len(batch)
        return b"".join(found)

    def flush(self) -> None:
        """Everything is durable."""

    def cut_back(self) -> None:
        """Nothing is not durable."""


class ScriptedTopics:
    """The topics that exist, with the number of their partitions."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.known: dict[str, KnownTopic] = {}
        self.version = 0
        self._numbers = count(1)
        for name, partition_count in partitions.items():
            self.create(name, partition_count)

    def create(self, name: str, partition_count: int) -> None:
        topic_id = next(self._numbers).to_bytes(16, "big")
        self.known[name] = KnownTopic(name, topic_id, partition_count)
        self.version += 1

    def names(self) -> Iterable[str]:
        return tuple(self.known)

    def partition_views(self, name: str) -> Sequence[PartitionView]:
        return ()

    def are_complete(self) -> bool:
        return True

    def by_name(self, name: str) -> KnownTopic | None:
        return self.known.get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return next((topic for topic in self.known.values() if topic.topic_id == topic_id), None)


Log = TypeVar("Log", bound=CoordinatorLog)


class CoordinatorInMemory(Generic[Log]):
    """A broker's group coordinator and what surrounds it: clock, topics, logs, leadership."""

    def __init__(
        self,
        clock: ManualClock,
        config: GroupConfig,
        topics: ScriptedTopics,
        make_log: Callable[[], Log],
        *,
        partition_count: int = 1,
        make_machine: Callable[[GroupConfig], GroupMachine] = GroupMachine,
        assignors: Mapping[str, GroupAssignor] | None = None,
    ) -> None:
        self.clock = clock
        self.config = config
        self.topics = topics
        self.partition_count = partition_count
        self.logs = {partition: make_log() for partition in range(partition_count)}
        self.epochs = dict.fromkeys(range(partition_count), 0)
        self.on_event: Callable[[Event], object] = lambda _event: None
        self.loading: list[Shard] = []
        self.outside: list[tuple[Shard, ResolveRegexes | ComputeTarget]] = []  # what shards have asked for
        self.fresh = count(1)
        self.make_machine = make_machine
        self.assignors = assignors
        self.coordinator = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            partition_count=self.partition_count,
            topics=self.topics,
            host=self,
            make_machine=self.make_machine,
            assignors=self.assignors,
        )

    # --- what the coordinator asks of its host -------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Event) -> None:
        self.on_event(event)

    def act(self, shard: Shard, action: object) -> None:
        assert isinstance(action, ResolveRegexes | ComputeTarget), f"unknown work for a host: {action!r}"
        self.outside.append((shard, action))

    def work_outside(self) -> None:
        """Match the regular expressions, and compute the targets, that shards ask for."""
        while self.outside:
            shard, action = self.outside.pop(0)
            topics = self.topics
            if isinstance(action, ComputeTarget):
                found: object = TargetFound(action, compute_target(action.assignor, action.group))
            else:
                found = resolved(action, topics.names(), topics.version, self.clock.timestamp_ms())
            shard.signal(found, self.context())

    def act_early(self, shard: Shard, action: object) -> bool:
        return False

    def wake(self, at_ms: int) -> None:
        assert at_ms >= self.clock.now_ms()

    def load(self, shard: Shard) -> None:
        self.loading.append(shard)

    # --- time, disk and leadership -------------------------------------------------------------------

    @property
    def shard(self) -> Shard:
        """The first one."""
        shard = self.coordinator.shards.by_partition.get(0)
        assert shard is not None
        return shard

    @property
    def state(self) -> GroupState:
        """The groups of the first shard."""
        machine = self.shard.machine
        assert isinstance(machine, GroupMachine)
        return machine.state

    def context(self, token: object = None, client_id: str = "") -> Context:
        clock = self.clock
        fresh_id = "" if token is None else f"id{next(self.fresh)}"
        # By position, and the same below: one is made for each request.
        return Context(clock.now_ms(), clock.timestamp_ms(), client_id, "/127.0.0.1", fresh_id, token)

    def elect_all(self) -> None:
        for partition in range(self.partition_count):
            self.elect(partition)
        self.load_all()

    def elect(self, partition: int, epoch: int | None = None) -> bool:
        if epoch is None:
            self.epochs[partition] += 1
            epoch = self.epochs[partition]
        return self.coordinator.shards.elect(partition, epoch, lambda: self.logs[partition])

    def load_all(self, max_bytes: int = _LOAD_BYTES) -> None:
        while self.loading:
            shard = self.loading.pop()
            while not shard.load_some(self.context(), max_bytes):
                pass

    def restart(self) -> None:
        """Everything that is not in the log is gone."""
        for log in self.logs.values():
            log.cut_back()
        self.coordinator = self._coordinator()
        self.loading.clear()
        self.elect_all()

    def next_due_ms(self) -> int | None:
        """When `tick` is to be called."""
        return self.coordinator.shards.next_check_ms()

    def tick(self) -> None:
        """Fire the timers that are due, after what was begun outside the shards."""
        self.work_outside()
        self.coordinator.shards.tick(self.context())

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, firing every timer at its own instant."""
        until_ms = self.clock.now_ms() + duration_ms
        self.work_outside()
        while True:
            look_ms = self.next_due_ms()
            if look_ms is None or look_ms > until_ms:
                break
            self.clock.advance(max(look_ms - self.clock.now_ms(), 0))
            self.tick()
        self.clock.advance(until_ms - self.clock.now_ms())
