"""Members of consumer groups, one line each: `world.beat("A", 0, topics="t")`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, consumer_membership
from klamm.coordinator.group.consumer.records import KEY_TYPES
from klamm.coordinator.group.consumer.remembered import CurrentValue, Holding
from klamm.coordinator.group.machine import GroupMachine
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from unit.coordinator.asking import Call, at_version
from unit.coordinator.driver import World
from unit.coordinator.group.consumer.names import numbers, shown

REVOKE_MS = 60_000
SESSION_MS = 45_000


class Beat:
    """A heartbeat and its answer."""

    def __init__(self, world: GroupWorld, call: Call[ConsumerGroupHeartbeatResponse]) -> None:
        self._world = world
        self.call = call

    @property
    def error(self) -> ErrorCode:
        return self.call.error

    @property
    def message(self) -> str:
        return self.call.response.error_message or ""

    @property
    def epoch(self) -> int:
        assert self.error is ErrorCode.none, f"{self.error!r}: {self.message}"
        return self.call.response.member_epoch

    @property
    def member_id(self) -> str:
        return self.call.response.member_id or ""

    @property
    def got(self) -> str | None:
        """The assignment as `t-0 t-1`; None if there was none."""
        assert self.error is ErrorCode.none, f"{self.error!r}: {self.message}"
        assignment = self.call.response.assignment
        if assignment is None:
            return None
        return self._world.shown({each.topic_id: each.partitions for each in assignment.topic_partitions})


class GroupWorld(World):
    """A coordinator with the topics `t` (6 partitions) and `u` (3)."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        make_machine: Callable[[GroupConfig], GroupMachine] = GroupMachine,
    ) -> None:
        super().__init__(config, make_machine=make_machine)
        self.topics.known.clear()
        self.topics.create("t", 6)
        self.topics.create("u", 3)

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: str | None = None,
        owned: str | Holding | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        timeout_ms: int | None = None,
        group: str = "g",
        version: int = 1,
        client: str = "client",
    ) -> Beat:
        """A heartbeat; one with epoch 0 is complete, others say what they are given."""
        if epoch == 0:
            owned = "" if owned is None else owned
            topics = "t" if topics is None and regex is None else topics
            timeout_ms = REVOKE_MS if timeout_ms is None else timeout_ms
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=-1 if timeout_ms is None else timeout_ms,
            subscribed_topic_names=None if topics is None else topics.split(),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None if owned is None else self.partitions(owned),
        )
        return Beat(self, self.ask(at_version(request, version), client))

    def partitions(self, owned: str | Holding) -> list[TopicPartitions]:
        if not isinstance(owned, str):
            return [TopicPartitions(topic_id, list(held)) for topic_id, held in owned.items()]
        ids = {name: known.topic_id for name, known in self.topics.known.items()}
        return [TopicPartitions(ids[name], held) for name, held in numbers(owned).items()]

    def shown(self, held: Any) -> str:
        names = {known.topic_id: name for name, known in self.topics.known.items()}
        return shown({names.get(topic_id, "?"): partitions for topic_id, partitions in held.items()})

    # --- the group -----------------------------------------------------------------------------------------

    def members(self, group: str = "g") -> ConsumerGroupMembership:
        live = consumer_membership(self.state.groups[group])
        assert live is not None
        return live

    def current(self, member_id: str, group: str = "g") -> CurrentValue:
        return self.members(group).memory.current[member_id]

    def assigned(self, member_id: str) -> str:
        return self.shown(self.current(member_id).assigned)

    def pending(self, member_id: str) -> str:
        return self.shown(self.current(member_id).pending)

    def state_of(self, group: str = "g") -> str:
        return self.members(group).state_name

    def epochs_of(self, group: str = "g") -> tuple[int, int]:
        """Of the group and of its target."""
        memory = self.members(group).memory
        return memory.epoch, memory.target_epoch

    def described(self, group: str = "g") -> DescribedGroup:
        call = self.ask(ConsumerGroupDescribeRequest([group]))
        described: DescribedGroup = call.response.groups[0]
        return described

    def kinds(self, since: int = 0, of: Collection[int] = KEY_TYPES) -> list[int]:
        """The key types of the group's records, from an offset on."""
        found = []
        for batch in self.log.batches:
            for position, _ in iter_headers(batch):
                for record in decode_records(batch, position):
                    kind = int.from_bytes((record.key or b"\0\0")[:2], "big")
                    if record.offset >= since and kind in of:
                        found.append(kind)
        return found

    def settle(self, member_ids: Iterable[str], group: str = "g", **arguments: Any) -> None:  # type: ignore[override]
        """Every member acknowledges what it is told, until the group is stable."""
        for _ in range(8):
            for member_id in member_ids:
                current = self.current(member_id, group)
                self.beat(member_id, current.epoch, owned=current.assigned, group=group, **arguments)
            if self.state_of(group) == "Stable":
                return
        raise AssertionError(f"{group} is {self.state_of(group)}")


def pairs(held: Holding) -> set[tuple[bytes, int]]:
    return {(topic_id, partition) for topic_id, partitions in held.items() for partition in partitions}
