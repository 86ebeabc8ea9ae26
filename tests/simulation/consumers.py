"""Consumers: read everything there is, with and without sessions, and remember where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import iter_headers
from simulation.clients import PASSING, Client
from simulation.network import DisconnectedError

if TYPE_CHECKING:
    from simulation.world import World

Place = tuple[str, int]

_EARLIEST: Final = -2
_LATEST: Final = -1
_STALE: Final = {
    **PASSING,
    ErrorCode.fenced_leader_epoch: "the broker was started again",
    ErrorCode.unknown_leader_epoch: "an answer from before",
    ErrorCode.unknown_topic_or_partition: "deleted",
    ErrorCode.unknown_topic_id: "deleted, perhaps made again",
    ErrorCode.inconsistent_topic_id: "made again",
    ErrorCode.offset_out_of_range: "the log begins later by now",
}
_SESSION_ERRORS: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class Session:
    """A fetch session as a client keeps it: what the broker was told, and the number of the next request."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.told: dict[Place, FetchPartition] = {}

    def reset(self) -> None:
        self.session_id, self.epoch, self.told = 0, 0, {}


class Fetcher(Client):
    """Reads partitions from positions that it keeps."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.version = self.random.randint(4, 18)
        self.isolation_level = self.random.choice((0, 1))
        self.positions: dict[Place, int] = {}
        self.read_epochs: dict[Place, int] = {}
        self._session = Session()
        self._keeps_session = self.version >= 7 and self.random.random() < 0.8
        self._names_epochs = self.version >= 9 and self.random.random() < 0.5

    def took(self, place: Place, first_offset: int, next_offset: int) -> None:
        """A batch came; what lies before `first_offset` of it was read before."""

    def received(self, place: Place, data: PartitionData) -> None:
        """The answer for one partition, before the position moves."""

    async def fetch(self, max_wait_ms: int = 500) -> None:
        """One Fetch of all positions, and what comes of it. Raises DisconnectedError."""
        request = self._request(max_wait_ms)
        try:
            response = await self.ask(ApiKey.FETCH, self.version, request)
        except DisconnectedError:
            self._session.reset()
            raise
        error_code = ErrorCode(response.error_code)
        if error_code is not ErrorCode.none:
            if error_code not in _SESSION_ERRORS:
                self.refused("a fetch", error_code, {})
            self._session.reset()
            return
        if self._keeps_session:
            self._session.session_id = response.session_id
            self._session.epoch = self._session.epoch + 1 if response.session_id else 0
            if not response.session_id:
                self._session.told = {}
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if self.version >= 13 else topic.topic
            for data in topic.partitions:
                if (name, data.partition_index) in self.positions:
                    await self._take((name, data.partition_index), data)

    def _request(self, max_wait_ms: int) -> FetchRequest:
        random, session = self.random, self._session
        wanted = {place: self._wanted(place) for place in self.positions}
        if session.epoch == 0:
            named, forgotten = wanted, []
        else:
            named = {place: each for place, each in wanted.items() if session.told.get(place) != each}
            forgotten = [place for place in session.told if place not in wanted]
        if self._keeps_session:
            session.told = wanted
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=random.choice((0, 1, 1, 2_000)),
            max_bytes=random.choice((1, 3_000, 1 << 20)),
            isolation_level=self.isolation_level,
            session_id=session.session_id,
            session_epoch=session.epoch if self._keeps_session else -1,
            topics=[
                FetchTopic(self.topic_ids.get(place[0], ZERO_ID), place[0], [each])
                for place, each in named.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(self.topic_ids.get(topic, ZERO_ID), topic, [partition])
                for topic, partition in forgotten
            ],
        )

    def _wanted(self, place: Place) -> FetchPartition:
        return FetchPartition(
            place[1],
            self.leader_epochs.get(place, -1) if self._names_epochs else -1,
            self.positions[place],
            self.read_epochs.get(place, -1) if self._names_epochs and self.version >= 12 else -1,
            partition_max_bytes=1_500,
        )

    async def _take(self, place: Place, data: Any) -> None:
        if data.error_code:
            self.refused(f"to read {place}", data.error_code, _STALE)
            if data.error_code == ErrorCode.offset_out_of_range:
                await self._reset(place)
            else:
                self._session.reset()
                await self.learn(*dict(self.positions.keys()))
                await self.back_off()
            return
        if data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
            self.world.broken(
                f"{self.name} has read {place} up to {self.positions[place]}, and now it is gone"
            )
        self.received(place, data)
        for _, header in iter_headers(data.records or b""):
            position = self.positions[place]
            if header.next_offset <= position:
                continue
            self.took(place, position, header.next_offset)
            self.positions[place] = header.next_offset
            self.read_epochs[place] = header.leader_epoch

    async def _reset(self, place: Place) -> None:
        """Begin again where the log begins now; it must be later than where we are."""
        start_offset = await self.offset_at(place, _EARLIEST)
        if start_offset is None:
            return
        if start_offset <= self.positions[place]:
            self.world.broken(
                f"{self.name} may not read {place} at {self.positions[place]}; it begins at {start_offset}"
            )
        self.positions[place] = start_offset
        self.read_epochs.pop(place, None)

    async def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        asked = ListOffsetsTopic(place[0], [ListOffsetsPartition(place[1], -1, timestamp_ms)])
        version = self.random.randint(1, 10)
        request = ListOffsetsRequest(-1, self.isolation_level, [asked])
        response = await self.ask(ApiKey.LIST_OFFSETS, version, request)
        (answer,) = response.topics[0].partitions
        if answer.error_code:
            self.refused(f"the offsets of {place}", answer.error_code, _STALE)
            return None
        return int(answer.offset)

    async def latest(self, place: Place) -> int | None:
        return await self.offset_at(place, _LATEST)

    def begin_at(self, positions: Mapping[Place, int]) -> None:
        """Read these from now on; what was read before is forgotten."""
        self.positions = dict(positions)
        self.read_epochs.clear()


class Consumer(Fetcher):
    """Reads some partitions from their beginning to whatever their end will be."""

    def __init__(
        self, world: World, name: str, places: Sequence[Place], isolation_level: int | None = None
    ) -> None:
        super().__init__(world, name)
        if isolation_level is not None:
            self.isolation_level = isolation_level
        self.positions = dict.fromkeys(places, 0)

    async def live(self) -> None:
        await self.learn(*dict(self.positions.keys()))
        while not self.world.is_over:
            try:
                await self.fetch()
            except DisconnectedError:
                await self.back_off()
            await self.pause(400 if self.world.is_calm else self.random.choice((1, 50, 400)))

    @property
    def is_at_rest(self) -> bool:
        return all(offset >= self.world.high_watermark(place) for place, offset in self.positions.items())
