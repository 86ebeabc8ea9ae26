"""Members of consumer groups: heartbeats, slow revocations, and falling out of every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from simulation.clients import PASSING, Client
from simulation.consumers import Place
from simulation.members import DiedError, Reader
from simulation.network import DisconnectedError
from simulation.offsets import Offsets

if TYPE_CHECKING:
    from simulation.world import World

SESSION_MS: Final = 3_000
INTERVAL_MS: Final = 500
CONSUMER_SETTINGS: Final[Mapping[str, str]] = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.regex.refresh.interval.ms": "10000",
}
_REVOKE_MS: Final = (2_000, 4_000)
_FENCED: Final = {
    ErrorCode.unknown_member_id: "silent or slow for too long",
    ErrorCode.fenced_member_epoch: "an answer was lost",
    ErrorCode.fenced_instance_id: "a request of a dead process came late",
}
_COMMIT: Final = {
    **PASSING,
    ErrorCode.unknown_member_id: "the session is over",
    ErrorCode.stale_member_epoch: "the partition has moved on",
}


class FencedError(Exception):
    """The member is none any more: it has lost everything, and joins again."""


class ConsumerMember(Client):
    """One member, static when it has an instance id; `regex` stands for topics, if there is one."""

    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        topics: Sequence[str],
        instance_id: str | None = None,
        regex: str | None = None,
    ) -> None:
        super().__init__(world, name)
        self.group = group
        self.topics = topics
        self.instance_id = instance_id
        self.regex = regex
        self._version = 1 if regex or self.random.random() < 0.8 else 0
        self._begin_again()
        self.held: set[Place] = set()
        self.is_dead = False
        self._revoke_ms = self.random.choice(_REVOKE_MS)
        self.reader = self.make_reader()
        self.offsets = Offsets(self, group, lowest_version=9)

    def _begin_again(self) -> None:
        self.member_id = f"{self.name}-{self.world.moment()}" if self._version else ""
        self._join_again()

    def _join_again(self) -> None:
        self.epoch = 0
        self.wanted: set[Place] | None = None  # assigned, and not reached yet
        self._released_at_ms: int | None = None  # when its listener will have returned
        self._is_to_tell_all = True
        self._is_to_acknowledge = False

    def make_reader(self) -> Reader:
        return Reader(self.world, f"{self.name}-reader", self.group)

    # -- life

    async def live(self) -> None:
        await self.reader.learn(*self.topics)
        self.topic_ids = self.reader.topic_ids
        while not self.world.is_over:
            try:
                await self._find()
                while not self.world.is_over:
                    await self._turn()
            except DisconnectedError:
                # It goes on reading, and hears later what became of it.
                self._is_to_tell_all = True
                await self.back_off()
            except FencedError:
                self._lose_all()
                self._join_again()
                if self.random.random() < 0.3:
                    await self.back_off()
            except DiedError:
                self._die()
                return

    async def _turn(self) -> None:
        await self._heartbeat()
        if self.epoch > 0:
            await self._reconcile()
            await self._read()
            if self.random.random() < 0.4 or self.world.is_calm:
                await self._commit()
            await self._live_on()
        await self.pause(INTERVAL_MS if self.world.is_calm else self.random.choice((5, 100, INTERVAL_MS)))

    def _die(self) -> None:
        self.is_dead = True
        self._lose_all()
        for client in (self, self.reader):
            if self.random.random() < 0.5:
                client.disconnect()

        async def replace() -> None:
            await self.pause(self.random.choice((10, 1_000, 6_000)))
            name = f"{self.name.partition('.')[0]}.{self.world.moment()}"
            self.world.add(
                type(self)(self.world, name, self.group, self.topics, self.instance_id, self.regex)
            )

        self.world.later(replace())

    async def _find(self) -> None:
        while True:
            response = await self.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(self.group))
            if not response.error_code:
                return
            self.refused("a coordinator", response.error_code, PASSING)
            await self.back_off()

    # -- heartbeats

    async def _heartbeat(self) -> None:
        is_acknowledging = self._is_to_acknowledge
        response = await self.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, self._version, self._request(is_acknowledging)
        )
        error_code = ErrorCode(response.error_code)
        if error_code is not ErrorCode.none:
            await self._refused(error_code)
            return
        if 0 < response.member_epoch < self.epoch:
            self.world.broken(f"{self.name} was at epoch {self.epoch}, and is at {response.member_epoch}")
        self.member_id, self.epoch = response.member_id, response.member_epoch
        self._is_to_tell_all = False
        self._is_to_acknowledge = self._is_to_acknowledge and not is_acknowledging
        if response.assignment is not None:
            self.wanted = self._places(response.assignment.topic_partitions)

    def _request(self, is_acknowledging: bool) -> ConsumerGroupHeartbeatRequest:
        is_join = self.epoch == 0
        tells_all = is_join or self._is_to_tell_all
        owned: list[TopicPartitions] | None = [] if is_join else None
        # While its listener runs it says nothing of partitions: a list would give away what is not in it.
        if not is_join and self._released_at_ms is None and (is_acknowledging or tells_all):
            owned = self._as_partitions(self.held)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self._revoke_ms if tells_all else -1,
            subscribed_topic_names=([] if self.regex else list(self.topics)) if tells_all else None,
            subscribed_topic_regex=self.regex if tells_all else None,
            topic_partitions=owned,
        )

    async def _refused(self, error_code: ErrorCode) -> None:
        if error_code in _FENCED:
            if error_code is ErrorCode.fenced_instance_id:
                self.member_id = f"{self.name}-{self.world.moment()}" if self._version else ""
            raise FencedError
        if error_code is ErrorCode.unreleased_instance_id and self.instance_id and not self.epoch:
            await self.back_off()  # until the session of the one before is over
            return
        self.refused("a heartbeat", error_code, PASSING)
        raise DisconnectedError

    def _places(self, assigned: Iterable[TopicPartitions]) -> set[Place]:
        return {
            (self.world.topic_name(topic.topic_id), partition)
            for topic in assigned
            for partition in topic.partitions
        }

    def _as_partitions(self, places: Iterable[Place]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(places):
            by_topic.setdefault(topic, []).append(partition)
        return [TopicPartitions(self.topic_ids[topic], numbers) for topic, numbers in by_topic.items()]

    # -- partitions

    async def _reconcile(self) -> None:
        """One step towards what is assigned: revoke, which may take long; then take over."""
        if self.wanted is None:
            return
        now_ms = self.world.clock.now_ms()
        if self.held - self.wanted:
            if self._released_at_ms is None:
                slow_ms = () if self.world.is_calm else (300, 1_500, self._revoke_ms + 1_000)
                self._released_at_ms = now_ms + self.random.choice((0, 0, *slow_ms))
            if now_ms < self._released_at_ms:
                return
            await self._commit()
            self._release(self.held - self.wanted)
        self._released_at_ms = None
        coming = self.wanted - self.held
        if coming:
            positions = await self.offsets.fetch(sorted(coming), PASSING)
            if positions is None:
                raise DisconnectedError
            for place in sorted(coming):
                self.held.add(place)
                self.world.consumer_groups.took(self, place)
            self.reader.begin_at({**self.reader.positions, **positions})
        self.wanted = None
        self._is_to_acknowledge = True

    def _release(self, places: Iterable[Place]) -> None:
        for place in sorted(places):
            self.held.discard(place)
            self.world.consumer_groups.gave_up(self, place)
        self.reader.begin_at({each: at for each, at in self.reader.positions.items() if each in self.held})

    def _lose_all(self) -> None:
        self._release(list(self.held))

    async def _read(self) -> None:
        if not self.held:
            return
        try:
            await self.reader.fetch(max_wait_ms=100)
        except DisconnectedError:
            await self.back_off()

    async def _commit(self) -> None:
        error_code = await self.offsets.commit(self.reader.positions, self.epoch, self.member_id, None)
        if error_code:
            self.refused("a commit", error_code, _COMMIT)
            if error_code in PASSING:
                raise DisconnectedError

    # -- accidents

    async def _live_on(self) -> None:
        if self.world.is_calm:
            return
        drawn = self.random.random()
        if drawn < 0.01:
            raise DiedError
        if drawn < 0.02:
            await self._leave(-1)
        elif drawn < 0.035 and self.instance_id is not None:
            await self._leave(-2)
        elif drawn < 0.045:
            await self.pause(2 * SESSION_MS)
        elif drawn < 0.06:
            self._lose_all()
            self._join_again()  # the same member, as after an error of its own
        elif drawn < 0.07:
            self._is_to_tell_all = True
        elif drawn < 0.08 and len(self.topics) > 1 and self.regex is None:
            self.topics = self.random.sample(list(self.topics), len(self.topics))
            self._is_to_tell_all = True

    async def _leave(self, epoch: int) -> None:
        """Close: a process that leaves has given up everything, whether it is heard or not."""
        self._lose_all()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id,
            topic_partitions=None,
        )  # fmt: skip
        self._begin_again()
        response = await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, self._version, request)
        if response.error_code:
            self.refused("to leave", response.error_code, {**PASSING, **_FENCED})
        await self.pause(self.random.choice((10, 3_000)))

    @property
    def is_at_rest(self) -> bool:
        if self.is_dead:
            return True
        if self.wanted is not None or not self.world.consumer_groups.is_settled(self):
            return False
        positions: dict[Place, int] = self.reader.positions
        return set(positions) == self.held and all(
            offset >= self.world.high_watermark(place) and self.offsets.committed.get(place) == offset
            for place, offset in positions.items()
        )
