"""Groups as seen from outside: generations only grow, and nobody owns what is another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.placement import OFFSETS_TOPIC
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.storage.log import EngineLog
from simulation.checkers import Checker, Place
from simulation.log_checker import batches
from simulation.network import Exchange
from simulation.offset_checker import OffsetChecker

if TYPE_CHECKING:
    from simulation.world import World


class GroupChecker(Checker):
    """What the coordinator says must make one story, through every crash."""

    def __init__(self, world: World, offsets: OffsetChecker) -> None:
        super().__init__(world)
        self._offsets = offsets
        self.synced: dict[str, int] = {}  # the newest generation whose assignment anybody got
        self.rebalances = 0
        self.loads = 0
        self._owners: dict[tuple[str, int], dict[str, bytes]] = {}
        self._synced_before: dict[Exchange, int] = {}  # what was synced when it came
        self._loaded: dict[int, GroupMachine] = {}  # by partition: the last one that was looked at

    # -- the wire

    def delivered(self, exchange: Exchange) -> None:
        group = getattr(exchange.request, "group_id", None)
        if group is not None:
            self._synced_before[exchange] = self.synced.get(group, -1)

    def answered(self, exchange: Exchange) -> None:
        synced_before = self._synced_before.pop(exchange, -1)
        match exchange.api_key:
            case ApiKey.JOIN_GROUP:
                self._check_joined(exchange.request.group_id, exchange.response, synced_before)
            case ApiKey.SYNC_GROUP:
                self._check_synced(exchange.request, exchange.response, synced_before)
            case ApiKey.OFFSET_COMMIT:
                self._check_committed(exchange.request, exchange.response, synced_before)
            case _:
                pass

    def ended(self, exchange: Exchange) -> None:
        self._synced_before.pop(exchange, None)

    def _check_joined(self, group: str, response: JoinGroupResponse, synced_before: int) -> None:
        if response.error_code:
            return
        if response.generation_id < synced_before:
            self.world.broken(
                f"{group}: generation {response.generation_id} was joined after {synced_before} was at work"
            )
        if response.members and response.leader != response.member_id:
            self.world.broken(f"{group}: {response.member_id} got the members, {response.leader} leads")

    def _check_synced(
        self, request: SyncGroupRequest, response: SyncGroupResponse, synced_before: int
    ) -> None:
        if response.error_code:
            return
        group, generation = request.group_id, request.generation_id
        if generation < synced_before:
            self.world.broken(f"{group}: generation {generation} is at work after {synced_before} was")
        if generation > self.synced.get(group, -1):
            self.synced[group] = generation
            self.rebalances += 1
        # A static member that was replaced and its successor are one.
        owner = request.group_instance_id or request.member_id
        self._own(group, generation, owner, response.assignment)

    def _own(self, group: str, generation: int, owner: str, assignment: bytes) -> None:
        owners = self._owners.setdefault((group, generation), {})
        if owners.setdefault(owner, assignment) != assignment:
            self.world.broken(f"{group} generation {generation}: {owner} got two assignments")
        mine = _partitions(assignment)
        for other, theirs in owners.items():
            if other != owner and mine & _partitions(theirs):
                self.world.broken(f"{group} generation {generation}: {owner} and {other} own the same")

    def _check_committed(
        self, request: OffsetCommitRequest, response: OffsetCommitResponse, synced_before: int
    ) -> None:
        generation = request.generation_id_or_member_epoch
        errors = [each.error_code for topic in response.topics for each in topic.partitions]
        if 0 <= generation < synced_before and not all(errors):
            self.world.broken(
                f"{request.group_id}: {request.member_id} committed in generation {generation}, "
                f"when {synced_before} was at work"
            )

    # -- what the coordinator remembers

    def turned(self) -> None:
        """The broker had a turn: perhaps it has loaded something."""
        for partition, machine in self.machines():
            if self._loaded.get(partition) is not machine:
                self._loaded[partition] = machine
                log = self._log(partition)
                # What was written since cannot be told from what was loaded.
                if log.high_watermark == log.log_end_offset:
                    self.loads += 1
                    self._check_loaded(machine)

    def started(self) -> None:
        self._loaded.clear()

    def machines(self) -> Iterator[tuple[int, GroupMachine]]:
        """The machines of the shards that are served now."""
        broker = self.world.machine.broker
        if broker is None:
            return
        for partition, shard in broker.services.groups.shards.by_partition.items():
            if shard.status is ShardStatus.ACTIVE:
                assert isinstance(shard.machine, GroupMachine)
                yield partition, shard.machine

    def _log(self, partition: int) -> EngineLog:
        broker = self.world.machine.broker
        assert broker is not None
        served = broker.services.partitions.get(OFFSETS_TOPIC, partition)
        assert served is not None
        return cast(EngineLog, served.log)

    def _check_loaded(self, machine: GroupMachine) -> None:
        """After a start, or a failed flush: everything that anybody was told is there."""
        self._offsets.check_loaded(machine.state)
        for group_id, group in machine.state.groups.items():
            registration = group.memory.registration
            generation = -1 if registration is None else registration.generation
            synced = self.synced.get(group_id, -1)
            if generation < synced:
                self.world.broken(f"{group_id}: loaded at generation {generation}, {synced} was at work")
            if registration is not None and generation == synced:
                for member in registration.members:
                    owner = member.group_instance_id or member.member_id
                    self._own(group_id, generation, owner, member.assignment)

    def at_the_end(self) -> None:
        """What is remembered is what the log says, read from its beginning by another."""
        for partition, machine in self.machines():
            rebuilt = GroupMachine(machine.state.config)
            _load(rebuilt, self._log(partition))
            if rebuilt.state.remembered() != machine.state.remembered():
                self.world.broken(f"__consumer_offsets-{partition}: the log tells another story")


def _load(machine: GroupMachine, log: EngineLog) -> None:
    for _, _, _, stored in batches(log, log.log_start_offset, log.log_end_offset):
        machine.load(stored)


def _partitions(assignment: bytes) -> frozenset[Place]:
    if not assignment:
        return frozenset()
    return frozenset((each.topic, each.partition) for each in decode_assignment(assignment).partitions)
