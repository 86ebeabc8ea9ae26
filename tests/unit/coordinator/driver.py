"""A group coordinator on a clock that stands still and a log in memory, for tests to push around."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from klamm.clock import ManualClock
from klamm.coordinator.group.classic.membership import ClassicMembership, classic_of
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.events import GroupEvent
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.records import encode_end
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import DELAY_MS, Asking, Call, assignment
from unit.coordinator.memory_log import MemoryLog


class Topics:
    """Topics that exist: all of them with eight partitions, unless said otherwise."""

    def __init__(self, names: Iterable[str] = ("t", "t1", "t2", "t3")) -> None:
        self.known = {
            name: KnownTopic(name, bytes(15) + bytes([number]), 8) for number, name in enumerate(names, 1)
        }

    def by_name(self, name: str) -> KnownTopic | None:
        return self.known.get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return next((topic for topic in self.known.values() if topic.topic_id == topic_id), None)


class World(Asking):
    """A broker's group coordinator and everything around it."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        partition_count: int = 1,
        elect: bool = True,
        make_machine: Callable[[GroupConfig], GroupMachine] = GroupMachine,
    ) -> None:
        self.clock = ManualClock()
        self.config = config or GroupConfig()
        self.topics = Topics()
        self.partition_count = partition_count
        self.logs = {partition: MemoryLog() for partition in range(partition_count)}
        self.epochs = dict.fromkeys(range(partition_count), 0)
        self.events: list[GroupEvent] = []
        self.loading: list[Shard[Any, Any]] = []
        self.fresh = count(1)
        self.make_machine = make_machine
        self.coordinator = self._coordinator()
        if elect:
            self.elect_all()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            partition_count=self.partition_count,
            topics=self.topics,
            host=self,
            make_machine=self.make_machine,
        )

    # --- what the coordinator asks of its host -------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Event) -> None:
        assert isinstance(event, GroupEvent)
        self.events.append(event)

    def act(self, shard: Shard[Any, Any], action: object) -> None:
        raise AssertionError(f"groups do nothing outside their shard: {action!r}")

    def wake(self, at_ms: int) -> None:
        assert at_ms >= self.clock.now_ms()

    def load(self, shard: Shard[Any, Any]) -> None:
        self.loading.append(shard)

    # --- time, disk and leadership -------------------------------------------------------------------

    @property
    def log(self) -> MemoryLog:
        return self.logs[0]

    @property
    def shard(self) -> Shard[Any, Any]:
        shard = self.coordinator.shards.by_partition.get(0)
        assert shard is not None
        return shard

    @property
    def state(self) -> GroupState:
        machine = self.shard.machine
        assert isinstance(machine, GroupMachine)
        return machine.state

    def context(self, token: object = None, client_id: str = "") -> Context:
        return Context(
            now_ms=self.clock.now_ms(),
            timestamp_ms=self.clock.timestamp_ms(),
            client_id=client_id,
            client_host="/127.0.0.1",
            fresh_id="" if token is None else f"id{next(self.fresh)}",
            token=token,
        )

    def elect_all(self) -> None:
        for partition in range(self.partition_count):
            self.elect(partition)
        self.load_all()

    def elect(self, partition: int, epoch: int | None = None) -> bool:
        if epoch is None:
            self.epochs[partition] += 1
            epoch = self.epochs[partition]
        return self.coordinator.shards.elect(partition, epoch, lambda: self.logs[partition])

    def load_all(self, max_bytes: int = 1 << 20) -> None:
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

    def flush(self) -> None:
        for partition, log in self.logs.items():
            log.durable_offset = log.end_offset
            shard = self.coordinator.shards.by_partition.get(partition)
            if shard is not None:
                shard.on_durable(self.context)

    def end_transaction(self, *, commit: bool, producer: int = 1) -> None:
        """The marker, as the transaction coordinator has it written to this partition."""
        record = TransactionEnded(producer, is_commit=commit)
        batch = encode_end(record, self.clock.timestamp_ms())
        offset = self.log.append(batch, now_ms=self.clock.now_ms(), timestamp_ms=self.clock.timestamp_ms())
        self.shard.on_written_by_others(record, offset)

    def fail_flush(self) -> None:
        self.shard.on_flush_failed()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, firing every timer at its own instant."""
        until_ms = self.clock.now_ms() + duration_ms
        while True:
            look_ms = self.coordinator.shards.next_look_ms()
            if look_ms is None or look_ms > until_ms:
                break
            self.clock.advance(max(look_ms - self.clock.now_ms(), 0))
            self.coordinator.shards.tick(self.context())
        self.clock.advance(until_ms - self.clock.now_ms())

    def jump_ms(self, duration_ms: int) -> None:
        """Let time pass at once, as if the broker had been asleep."""
        self.clock.advance(duration_ms)
        self.pass_ms(0)

    def ask(self, request: object, client_id: str = "client") -> Call[Any]:
        call: Call[Any] = Call(request)
        self.coordinator.handle(request, self.context(call, client_id))
        return call

    # --- groups in a known state ---------------------------------------------------------------------

    def group(self, group_id: str = "g") -> Group:
        return self.state.groups[group_id]

    def live(self, group_id: str = "g") -> ClassicMembership:
        return classic_of(self.group(group_id))

    def phase(self, group_id: str = "g") -> Phase:
        return self.live(group_id).phase

    def joined(self, size: int = 1, **arguments: Any) -> list[str]:
        """A group that waits for its leader's assignment; the leader comes first."""
        calls = [self.join(**arguments) for _ in range(size)]
        self.pass_ms(2 * DELAY_MS)
        return [call.response.member_id for call in calls]

    def stable(
        self,
        size: int = 1,
        *,
        assign: Callable[[int], bytes] = lambda number: assignment(("t", number)),
        **arguments: Any,
    ) -> list[str]:
        """A stable group of dynamic members; the leader comes first."""
        members = self.joined(size, **arguments)
        group = arguments.get("group", "g")
        self.settle(members, group=group, assign=assign)
        return members

    def stable_of(self, group: str) -> list[str]:
        """A stable group of one, in whatever shard it lives."""
        call = self.join(group=group)
        self.pass_ms(DELAY_MS)
        member_id = call.response.member_id
        assert self.sync(member_id, 1, {member_id: b""}, group=group).error is ErrorCode.none
        return [member_id]

    def settle(
        self,
        members: Sequence[str],
        *,
        group: str = "g",
        assign: Callable[[int], bytes] = lambda number: assignment(("t", number)),
    ) -> None:
        """Let every member of the generation sync, the leader first."""
        generation = self.live(group).generation
        given = {member_id: assign(number) for number, member_id in enumerate(members)}
        for member_id in members:
            is_leader = member_id == self.live(group).leader_id
            call = self.sync(member_id, generation, given if is_leader else None, group=group)
            assert call.error is ErrorCode.none
        assert self.phase(group) is Phase.STABLE

    def statics(self, *instances: str, **arguments: Any) -> list[str]:
        """A stable group of static members; the leader comes first."""
        calls = [self.join(instance=instance, version=9, **arguments) for instance in instances]
        self.pass_ms(2 * DELAY_MS)
        members = [call.response.member_id for call in calls]
        self.settle(members)
        return members
