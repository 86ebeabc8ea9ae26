"""A group coordinator on a clock that stands still and a log in memory, for tests to push around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from klamm.clock import ManualClock
from klamm.coordinator.group.classic.membership import ClassicMembership, classic_membership
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.events import GroupEvent
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.records import encode_end
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.state import Group
from klamm.coordinator.runtime.events import Event
from klamm.protocol.errors import ErrorCode
from klamm.testing.rebalances.coordinator import CoordinatorInMemory, ScriptedTopics
from unit.coordinator.asking import DELAY_MS, Asking, Call, assignment
from unit.coordinator.memory_log import MemoryLog


class World(Asking, CoordinatorInMemory[MemoryLog]):
    """A broker's group coordinator, whose log obeys the test. Topics have eight partitions each."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        partition_count: int = 1,
        elect: bool = True,
        make_machine: Callable[[GroupConfig], GroupMachine] = GroupMachine,
    ) -> None:
        super().__init__(
            ManualClock(),
            config or GroupConfig(),
            ScriptedTopics(dict.fromkeys(("t", "t1", "t2", "t3"), 8)),
            MemoryLog,
            partition_count=partition_count,
            make_machine=make_machine,
        )
        self.events: list[GroupEvent] = []
        if elect:
            self.elect_all()

    def tell(self, event: Event) -> None:
        assert isinstance(event, GroupEvent)
        self.events.append(event)

    # --- time, disk and leadership -------------------------------------------------------------------

    @property
    def log(self) -> MemoryLog:
        return self.logs[0]

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
        return classic_membership(self.group(group_id)) or ClassicMembership(group_id)

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
