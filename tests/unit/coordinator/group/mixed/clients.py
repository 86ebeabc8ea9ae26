"""Clients that do what they are told, in either protocol, one request at a time."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.types import TopicPartition
from unit.coordinator.asking import Call
from unit.coordinator.group.consumer.names import shown
from unit.coordinator.group.mixed.driver import MixedWorld, assigned, metadata

PARTITIONS = range(6)
OK = ErrorCode.none
AGAIN = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.rebalance_in_progress,
}


def names(held: Iterable[int]) -> str:
    return shown({"t": held})


class Client:
    """What both kinds have: partitions, and those that it has been told to give up but still has."""

    def __init__(self, world: MixedWorld, instance: str | None = None) -> None:
        self.world = world
        self.instance = instance
        self.member_id = ""
        self.epoch = 0  # or generation
        self.held: set[int] = set()
        self.giving_up: set[int] = set()

    def step(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """What is on its way gets no answer."""

    def leave(self) -> None:
        raise NotImplementedError

    def counts(self) -> bool:
        """Whether the coordinator takes it for a member in this epoch; a fenced one may not know."""
        consumer = self.world.group().memory.consumer
        if consumer is not None:
            current = consumer.current.get(self.member_id)
            is_previous = current is not None and current.previous_epoch == self.epoch
            return current is not None and (current.epoch == self.epoch or is_previous)
        live = self.world.live()
        return self.member_id in live.members and live.generation == self.epoch

    def lost(self) -> None:
        self.held.clear()
        self.giving_up.clear()
        self.epoch = 0

    def commit(self, offset: int, random: Random) -> int | None:
        """Commit for one of its partitions: which, if that was accepted."""
        if not self.held or not self.member_id:
            return None
        number = random.choice(sorted(self.held))
        call = self.world.commit(
            {("t", number): offset}, member_id=self.member_id, generation=self.epoch, version=9
        )
        return number if call.is_answered and not call.response.topics[0].partitions[0].error_code else None


class ConsumerClient(Client):
    """A member of the consumer protocol."""

    def __init__(self, world: MixedWorld, member_id: str, instance: str | None = None) -> None:
        super().__init__(world, instance)
        self.member_id = member_id
        self.told: set[int] = set()
        self.must_say = True

    def step(self) -> None:
        if self.giving_up or self.held != self.told:
            self.held = set(self.told)  # it has given up what goes, and takes what comes
            self.giving_up.clear()
            self.must_say = True
        arguments: dict[str, Any] = {"instance": self.instance}
        if self.epoch > 0 and self.must_say:
            arguments.update(owned=names(self.held), topics="t", timeout_ms=20_000)
        beat = self.world.beat(self.member_id, self.epoch, **arguments)
        if not beat.call.is_answered:
            return
        if beat.error is not OK:
            if beat.error not in AGAIN and beat.error is not ErrorCode.unreleased_instance_id:
                self.lost()
            self.must_say = True
            return
        self.must_say = False
        self.epoch = beat.epoch
        assignment = beat.call.response.assignment
        if assignment is not None:
            self.told = {number for each in assignment.topic_partitions for number in each.partitions}
            self.giving_up = self.held - self.told

    def forget(self) -> None:
        self.must_say = True

    def lost(self) -> None:
        super().lost()
        self.told.clear()

    def leave(self) -> None:
        self.world.beat(self.member_id, -1, instance=self.instance)


class ClassicClient(Client):
    """A member of the classic protocol, cooperative or eager; as a leader it assigns."""

    def __init__(self, world: MixedWorld, instance: str | None = None, *, is_cooperative: bool) -> None:
        super().__init__(world, instance)
        self.is_cooperative = is_cooperative
        self.joining: Call[JoinGroupResponse] | None = None
        self.syncing: Call[Any] | None = None
        self.must_join = True

    def step(self) -> None:
        if self.joining is not None:
            if self.joining.is_answered:
                self._joined(self.joining.response)
        elif self.syncing is not None:
            if self.syncing.is_answered:
                self._synced(self.syncing)
        elif self.must_join:
            self._join()
        else:
            error = self.world.heartbeat(self.member_id, self.epoch, instance=self.instance)
            if error is ErrorCode.rebalance_in_progress:
                self._join()
            elif error is not OK and error not in AGAIN:
                self.lost()

    def _join(self) -> None:
        self.held -= self.giving_up
        self.giving_up.clear()
        if not self.is_cooperative:
            self.held.clear()
        self.joining = self.world.rejoin(
            self.member_id,
            version=3 if self.instance is None else 9,
            instance=self.instance,
            rebalance_ms=20_000,
            protocols={"p": metadata("t", names(self.held))},
        )

    def _joined(self, response: JoinGroupResponse) -> None:
        self.joining, self.must_join = None, True
        error = ErrorCode(response.error_code)
        if error is not OK:
            if error not in AGAIN:
                self.lost()
            return
        self.member_id, self.epoch = response.member_id, response.generation_id
        given = self._assignments(response) if response.leader == self.member_id else None
        self.syncing = self.world.sync(self.member_id, self.epoch, given, instance=self.instance)

    def _assignments(self, response: JoinGroupResponse) -> dict[str, bytes]:
        """In turn; what another member says that it has stays unassigned until that one has joined again."""
        claimed = {
            each.partition: member.member_id
            for member in response.members
            for each in decode_subscription(member.metadata).owned
        }
        members = sorted(member.member_id for member in response.members)
        shares: dict[str, list[int]] = {member_id: [] for member_id in members}
        for number in PARTITIONS:
            owner = members[number % len(members)]
            if claimed.get(number, owner) == owner:
                shares[owner].append(number)
        return {member_id: assigned(names(share)) for member_id, share in shares.items()}

    def _synced(self, call: Call[Any]) -> None:
        self.syncing = None
        if call.error is not OK:
            if call.error not in AGAIN:
                self.lost()
            return
        told = {each.partition for each in _partitions(call.response.assignment)}
        self.giving_up = self.held - told
        self.held |= told
        self.must_join = bool(self.giving_up)

    def forget(self) -> None:
        if self.joining is not None or self.syncing is not None:
            self.joining = self.syncing = None
            self.must_join = True

    def lost(self) -> None:
        super().lost()
        self.must_join = True
        if self.instance is None or not self.held:
            self.member_id = ""

    def leave(self) -> None:
        if self.member_id:
            self.world.leave((self.member_id, self.instance))


def _partitions(raw: bytes) -> tuple[TopicPartition, ...]:
    return decode_assignment(raw).partitions if raw else ()
