"""Consumer groups as seen from outside and inside: one owner of each partition, epochs that never fall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, consumer_membership
from klamm.coordinator.group.consumer.remembered import ConsumerMemory, ReconciliationState
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.placement import OFFSETS_TOPIC
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from klamm.storage.log import EngineLog
from simulation.checkers import Checker, Place
from simulation.group_checker import GroupChecker
from simulation.network import Exchange

if TYPE_CHECKING:
    from simulation.consumer_members import ConsumerMember
    from simulation.world import World

Granted = tuple[int, str, int]  # the epoch, the owner, and the moment at which it was answered


class ConsumerGroupChecker(Checker):
    """The promises of the consumer protocol."""

    def __init__(self, world: World, groups: GroupChecker) -> None:
        super().__init__(world)
        self._groups = groups
        self.highest: dict[str, int] = {}  # epoch that any member of a group was told
        self.grants = 0
        self._holders: dict[tuple[str, Place], ConsumerMember] = {}
        self._owners: dict[tuple[str, int], dict[Place, str]] = {}  # of a group at an epoch
        self._granted: dict[tuple[str, Place], Granted] = {}  # the last time, at the highest epoch
        self._epochs: dict[str, tuple[ConsumerMemory, int, int]] = {}  # when they were looked at last
        self._has_written = False

    # -- the clients' side

    def took(self, member: ConsumerMember, place: Place) -> None:
        """A member begins to work on a partition: nobody else does, but for one that the group removed."""
        if not self._counts(member):
            return  # its answer was late, and its session is over
        before = self._holders.get((member.group, place))
        if before is not None and before is not member and self._counts(before):
            self.world.broken(f"{member.name} takes {place}, which {before.name} has not given up")
        self._holders[member.group, place] = member

    def gave_up(self, member: ConsumerMember, place: Place) -> None:
        if self._holders.get((member.group, place)) is member:
            del self._holders[member.group, place]

    def _counts(self, member: ConsumerMember) -> bool:
        """Whether a member is one, as its coordinator has it; nobody knows while that is not served."""
        live = self._live(member.group)
        return live is not None and member.member_id in live.memory.members

    def _live(self, group: str) -> ConsumerGroupMembership | None:
        for _, machine in self._groups.machines():
            live = consumer_membership(machine.state.groups.get(group))
            if live is not None:
                return live
        return None

    def is_settled(self, member: ConsumerMember) -> bool:
        """Whether its group is stable, and it has what it should."""
        live = self._live(member.group)
        if live is None or live.state_name != "Stable" or member.member_id not in live.memory.members:
            return False
        if live.memory.regex_users.keys() - live.memory.regexes.keys():
            return False  # what it matches is found out in the next pass, and changes the target
        target = live.memory.targets.get(member.member_id, {})
        return member.held == {
            (self.world.topic_name(topic_id), partition)
            for topic_id, partitions in target.items()
            for partition in partitions
        }

    # -- the wire

    def answered(self, exchange: Exchange) -> None:
        match exchange.api_key:
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self._check_heartbeat(exchange.request, exchange.response)
            case ApiKey.OFFSET_COMMIT:
                self._check_commit(exchange, exchange.request, exchange.response)
            case _:
                pass

    def _check_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        if response.error_code or response.member_epoch <= 0:
            return
        group, epoch = request.group_id, response.member_epoch
        self.highest[group] = max(self.highest.get(group, 0), epoch)
        if response.assignment is None:
            return
        owner = request.instance_id or response.member_id or ""
        owners = self._owners.setdefault((group, epoch), {})
        for topic in response.assignment.topic_partitions:
            for partition in topic.partitions:
                place = (self.world.topic_name(topic.topic_id), partition)
                self.grants += 1
                if owners.setdefault(place, owner) != owner:
                    self.world.broken(f"{group} epoch {epoch}: {owner} and {owners[place]} have {place}")
                last = self._granted.get((group, place))
                if last is None or last[0] <= epoch:
                    self._granted[group, place] = (epoch, owner, self.world.moment())

    def _check_commit(
        self, exchange: Exchange, request: OffsetCommitRequest, response: OffsetCommitResponse
    ) -> None:
        group, epoch = request.group_id, request.generation_id_or_member_epoch
        if group not in self.highest or epoch < 0:
            return
        for topic in response.topics:
            name = topic.name or self.world.topic_name(topic.topic_id)
            for each in topic.partitions:
                last = self._granted.get((group, (name, each.partition_index)))
                if each.error_code or last is None or exchange.delivered_at is None:
                    continue
                granted_epoch, owner, moment = last
                if epoch < granted_epoch and owner != request.member_id and moment < exchange.delivered_at:
                    self.world.broken(
                        f"{group}: {request.member_id} committed {name}-{each.partition_index} at {epoch}, "
                        f"which {owner} has had since {granted_epoch}"
                    )

    # -- what the coordinator remembers

    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None:
        self._has_written = self._has_written or log.topic == OFFSETS_TOPIC

    def started(self) -> None:
        self._has_written = True

    def turned(self) -> None:
        """The broker had a turn: perhaps groups have changed."""
        if self._has_written:
            self._has_written = False
            self.look()

    def look(self) -> None:
        for _, machine in self._groups.machines():
            for group_id, group in machine.state.groups.items():
                live = consumer_membership(group)
                if live is not None:
                    self._check_epochs(group_id, live.memory)
                    self._check_owners(group_id, live.memory)
                    self._check_targets(group_id, live.memory)

    def _check_epochs(self, group: str, memory: ConsumerMemory) -> None:
        before, epoch, target_epoch = self._epochs.get(group, (memory, 0, 0))
        self._epochs[group] = (memory, memory.epoch, memory.target_epoch)
        if before is not memory:
            # It was loaded: what nobody was told may be gone.
            epoch = target_epoch = self.highest.get(group, 0)
        if memory.epoch < epoch or memory.target_epoch < target_epoch:
            self.world.broken(
                f"{group}: epochs {memory.epoch} and {memory.target_epoch} after {epoch} and {target_epoch}"
            )
        if memory.target_epoch > memory.epoch:
            self.world.broken(f"{group}: target {memory.target_epoch} above epoch {memory.epoch}")

    def _check_owners(self, group: str, memory: ConsumerMemory) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, current in memory.current.items():
            if member_id not in memory.members:
                self.world.broken(f"{group}: {member_id} is no member, and has partitions")
            if current.epoch > memory.target_epoch:
                self.world.broken(f"{group}: {member_id} at {current.epoch}, target {memory.target_epoch}")
            if current.pending and current.state != ReconciliationState.UNREVOKED:
                self.world.broken(f"{group}: {member_id} has to give up partitions in state {current.state}")
            for held in (current.assigned, current.pending):
                for topic_id, partitions in held.items():
                    for partition, epoch in partitions.items():
                        other = owners.setdefault((topic_id, partition), member_id)
                        if other != member_id:
                            self.world.broken(f"{group}: {other} and {member_id} own {partition}")
                        if epoch > max(current.epoch, 0):
                            self.world.broken(f"{group}: {member_id} got {partition} in its future")
        counted = sum(map(memory.is_settled, memory.current))
        if counted != memory.settled:
            self.world.broken(f"{group}: {memory.settled} members are settled, {counted} really")

    def _check_targets(self, group: str, memory: ConsumerMemory) -> None:
        given: set[tuple[bytes, int]] = set()
        for member_id, target in memory.targets.items():
            if member_id not in memory.members:
                self.world.broken(f"{group}: {member_id} is no member, and has a target")
            for topic_id, partitions in target.items():
                for partition in partitions:
                    if (topic_id, partition) in given:
                        self.world.broken(f"{group}: the target has {partition} twice")
                    given.add((topic_id, partition))

    def at_the_end(self) -> None:
        """Every partition of the topics that a group reads is with one of its members."""
        self.look()
        for _, machine in self._groups.machines():
            self._check_whole(machine)

    def _check_whole(self, machine: GroupMachine) -> None:
        topics = machine.state.topics
        for group_id, group in machine.state.groups.items():
            live = consumer_membership(group)
            if live is None or not live.memory.members or topics is None:
                continue
            memory = live.memory
            if live.state_name != "Stable":
                self.world.broken(f"{group_id} is {live.state_name}")
            for name in memory.subscribed():
                known = topics.by_name(name)
                if known is not None and len(memory.owners.get(known.topic_id, {})) != known.partition_count:
                    self.world.broken(f"{group_id}: not all of {name} is with a member")
