"""Members of groups: join, divide the work, do it, commit, and fall out of every step on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.types import TopicPartition
from simulation.clients import Client
from simulation.consumers import Fetcher, Place
from simulation.network import DisconnectedError
from simulation.offsets import Offsets

if TYPE_CHECKING:
    from simulation.world import World

_SESSION_MS: Final = (3_000, 5_000)
_REBALANCE_MS: Final = (4_000, 8_000)
_HEARTBEAT_MS: Final = 1_000

_REJOIN: Final = {
    ErrorCode.rebalance_in_progress: "others move",
    ErrorCode.illegal_generation: "the generation is gone",
}
_UNKNOWN: Final = {
    ErrorCode.unknown_member_id: "silent for too long, or forgotten",
    # A join that a broken connection brought late has made another id of this instance.
    ErrorCode.fenced_instance_id: "another has the instance",
}
_LOOK_AGAIN: Final = {
    ErrorCode.not_coordinator: "a flush failed, or the broker stops",
    ErrorCode.coordinator_not_available: "the same, or the topic is being made",
    ErrorCode.coordinator_load_in_progress: "the broker has just started",
}
EXPECTED: Final[Mapping[ErrorCode, str]] = {**_REJOIN, **_UNKNOWN, **_LOOK_AGAIN}


class OutOfGroupError(Exception):
    """The member has to begin again."""


class DiedError(Exception):
    """The process is gone, without a word to anybody."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What a client of some age sends."""

    find: int
    join: int
    sync: int
    heartbeat: int
    leave: int


class Reader(Fetcher):
    """A member's other half: fetches what it was assigned."""

    def __init__(self, world: World, name: str, group: str) -> None:
        super().__init__(world, name)
        self._group = group

    def took(self, place: Place, first_offset: int, next_offset: int) -> None:
        self.world.consumed(self._group, place, first_offset, next_offset)


class Member(Client):
    """One member of one group, static when it has an instance id."""

    def __init__(
        self, world: World, name: str, group: str, topics: Sequence[str], instance_id: str | None = None
    ) -> None:
        super().__init__(world, name)
        self.group = group
        self.topics = topics
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.assigned: tuple[Place, ...] | None = None
        self.is_dead = False
        random, low = self.random, 1 if instance_id else 0
        self.versions = Versions(
            random.randint(0, 6), random.randint(5 * low, 9), random.randint(3 * low, 5),
            random.randint(3 * low, 4), random.randint(3 * low, 5),
        )  # fmt: skip
        self.session_ms = random.choice(_SESSION_MS)
        self.rebalance_ms = random.choice(_REBALANCE_MS)
        self.reader = self.make_reader()
        self.offsets = Offsets(self, group, lowest_version=7 if instance_id else 2)
        self._heartbeat_at_ms = 0
        self._moods = count()

    def make_reader(self) -> Reader:
        return Reader(self.world, f"{self.name}-reader", self.group)

    # -- life

    async def live(self) -> None:
        await self.reader.learn(*self.topics)
        self.topic_ids = self.reader.topic_ids
        while not self.world.is_over:
            try:
                await self._find()
                await self._sync(await self._join())
                await self._work()
            except DisconnectedError:
                await self.back_off()
            except OutOfGroupError:
                self.assigned = None
                if self.random.random() < 0.3:
                    await self.back_off()
            except DiedError:
                self._die()
                return

    def _die(self) -> None:
        """Somebody in the same place begins after a while; a static member comes back as itself."""
        self.is_dead = True
        self.assigned = None
        for client in (self, self.reader):
            if self.random.random() < 0.5:
                client.disconnect()  # the system closes what the process had open; or the machine is gone

        async def replace() -> None:
            await self.pause(self.random.choice((10, 1_000, 6_000)))
            name = f"{self.name.partition('.')[0]}.{self.world.moment()}"
            self.world.add(type(self)(self.world, name, self.group, self.topics, self.instance_id))

        self.world.later(replace())

    def _refuse(self, doing: str, error_code: int) -> None:
        """Do what an error says; those that should not be are the world's business."""
        self.refused(doing, error_code, EXPECTED)
        if error_code in _UNKNOWN:
            self.member_id = ""
        raise OutOfGroupError

    # -- joining

    async def _find(self) -> None:
        while True:
            keys = [self.group] if self.versions.find >= 4 else []
            request = FindCoordinatorRequest(key=self.group, coordinator_keys=keys)
            response = await self.ask(ApiKey.FIND_COORDINATOR, self.versions.find, request)
            found = response.coordinators[0] if keys else response
            if not found.error_code:
                return
            self.refused("a coordinator", found.error_code, _LOOK_AGAIN)
            await self.back_off()

    async def _join(self) -> JoinGroupResponse:
        self.assigned = None
        subscription = Subscription(tuple(self.topics), user_data=b"%d" % next(self._moods))
        if self.random.random() < 0.5:
            subscription = Subscription(tuple(self.topics))
        metadata = encode_subscription(subscription, self.random.randint(0, 3))
        while True:
            request = JoinGroupRequest(
                self.group, self.session_ms, self.rebalance_ms, self.member_id, self.instance_id, "consumer",
                [JoinGroupRequestProtocol(name, metadata) for name in ("range", "roundrobin")],
            )  # fmt: skip
            response: JoinGroupResponse = await self.ask(
                ApiKey.JOIN_GROUP, self.versions.join, request, timeout_ms=self.rebalance_ms * 2
            )
            if response.error_code == ErrorCode.member_id_required:
                self.member_id = response.member_id
                self._maybe_die()
                continue
            if response.error_code:
                self._refuse("to join", response.error_code)
            self.member_id, self.generation = response.member_id, response.generation_id
            self._maybe_die()
            return response

    async def _sync(self, joined: JoinGroupResponse) -> None:
        given: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.member_id and not joined.skip_assignment:
            given = self._divide(joined)
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, self.instance_id,
            "consumer", joined.protocol_name, given,
        )  # fmt: skip
        response = await self.ask(
            ApiKey.SYNC_GROUP, self.versions.sync, request, timeout_ms=self.rebalance_ms * 2
        )
        if response.error_code:
            self._refuse("its assignment", response.error_code)
        partitions = decode_assignment(response.assignment).partitions if response.assignment else ()
        self.assigned = tuple((each.topic, each.partition) for each in partitions)

    def _divide(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Deal the partitions out, another way each time: mixed-up assignments must show."""
        topics: dict[str, list[str]] = {}
        for member in joined.members:
            for topic in decode_subscription(member.metadata).topics:
                topics.setdefault(topic, []).append(member.member_id)
        shares: dict[str, list[TopicPartition]] = {member.member_id: [] for member in joined.members}
        for topic, takers in topics.items():
            self.random.shuffle(takers)
            for partition in range(self.world.partition_counts[topic]):
                shares[takers[partition % len(takers)]].append(TopicPartition(topic, partition))
        tag = b"%d" % self.world.moment()
        return [
            SyncGroupRequestAssignment(member_id, encode_assignment(Assignment(tuple(share), tag)))
            for member_id, share in shares.items()
        ]

    # -- working

    async def _work(self) -> None:
        assert self.assigned is not None
        positions = await self.offsets.fetch(self.assigned, EXPECTED)
        if positions is None:
            raise OutOfGroupError
        self.reader.begin_at(positions)
        self._heartbeat_at_ms = self.world.clock.now_ms() + _HEARTBEAT_MS
        while not self.world.is_over:
            await self._read()
            if self.world.clock.now_ms() >= self._heartbeat_at_ms:
                await self._heartbeat()
            if self.random.random() < 0.4 or self.world.is_calm:
                await self._commit()
            await self._live_on()

    async def _read(self) -> None:
        try:
            await self.reader.fetch(max_wait_ms=300)
        except DisconnectedError:
            await self.back_off()
        await self.pause(500 if self.world.is_calm else self.random.choice((5, 100, 500)))

    async def _heartbeat(self) -> None:
        self._heartbeat_at_ms = self.world.clock.now_ms() + _HEARTBEAT_MS
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance_id)
        response = await self.ask(ApiKey.HEARTBEAT, self.versions.heartbeat, request)
        if response.error_code:
            if response.error_code in _REJOIN and self.random.random() < 0.7:
                await self._commit()
            self._refuse("a heartbeat", response.error_code)

    async def _commit(self) -> None:
        error_code = await self.offsets.commit(
            self.reader.positions, self.generation, self.member_id, self.instance_id
        )
        if error_code:
            self._refuse("a commit", error_code)

    async def _live_on(self) -> None:
        """Whatever may happen to a member in the middle of its work."""
        if self.world.is_calm:
            return
        drawn = self.random.random()
        if drawn < 0.01:
            raise DiedError
        if drawn < 0.02 and self.instance_id is None:
            await self._leave()
        elif drawn < 0.03:
            # As long as a debugger: whatever it does next, it does in the past.
            await self.pause(self.session_ms * 2)
        elif drawn < 0.04:
            raise OutOfGroupError  # joins again, with other words or the same

    def _maybe_die(self) -> None:
        if not self.world.is_calm and self.random.random() < 0.03:
            raise DiedError

    async def _leave(self) -> None:
        request = LeaveGroupRequest(self.group, [MemberIdentity(self.member_id)], self.member_id)
        response = await self.ask(ApiKey.LEAVE_GROUP, self.versions.leave, request)
        self.assigned = None
        self.member_id = ""
        errors = (response.error_code, *(each.error_code for each in response.members))
        for error_code in filter(None, errors):
            self.refused("to leave", error_code, EXPECTED)
        await self.pause(self.random.choice((10, 3_000)))
        raise OutOfGroupError

    @property
    def is_at_rest(self) -> bool:
        if self.is_dead:
            return True
        if self.assigned is None:
            return False
        positions = self.reader.positions
        return set(positions) == set(self.assigned) and all(
            offset >= self.world.high_watermark(place) and self.offsets.committed.get(place) == offset
            for place, offset in positions.items()
        )


def at_rest(world: World, members: Sequence[Any]) -> bool:
    """Whether all partitions are with somebody, and everybody in one generation."""
    alive = [each for each in members if isinstance(each, Member) and not each.is_dead]
    wanted = {
        (topic, partition)
        for member in alive
        for topic in member.topics
        for partition in range(world.partition_counts[topic])
    }
    owned = [place for member in alive for place in member.assigned or ()]
    is_whole = sorted(owned) == sorted(wanted)
    return is_whole and len({member.generation for member in alive}) <= 1
