"""What every simulated client does: connect, ask, wait, lose its connection, try again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from simulation.network import DisconnectedError, Link

if TYPE_CHECKING:
    from simulation.world import World

_BACKOFF_MS: Final = (20, 100, 500)
_REQUEST_TIMEOUT_MS: Final = 20_000


class Client:
    """One actor. `live` is its whole life; it is killed by ending its task."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random: Random = world.random
        self.topic_ids: dict[str, bytes] = {}
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self._link: Link | None = None

    async def live(self) -> None:
        """What it does until the world is over."""

    @property
    def is_at_rest(self) -> bool:
        """Whether it has, after everything healed, reached what it was after."""
        return True

    async def link(self) -> Link:
        """The connection, made if there is none; patient."""
        while self._link is None or not self._link.is_open_at_client:
            try:
                self._link = await self.world.network.connect(self.name)
            except DisconnectedError:
                await self.back_off()
        return self._link

    async def ask(
        self, api_key: ApiKey, version: int, request: Any, *, timeout_ms: int = _REQUEST_TIMEOUT_MS
    ) -> Any:
        """Send and wait. Raises DisconnectedError when it is unknown what became of the request."""
        link = await self.link()
        return await self.answer(link, link.send(api_key, version, request), timeout_ms)

    async def answer(
        self, link: Link, future: asyncio.Future[Any], timeout_ms: int = _REQUEST_TIMEOUT_MS
    ) -> Any:
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            # As every client does: an answer that late belongs to nobody, the connection goes.
            link.hang_up()
            raise DisconnectedError from None

    async def insist(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """Ask until there is an answer."""
        while True:
            try:
                return await self.ask(api_key, version, request)
            except DisconnectedError:
                await self.back_off()

    def disconnect(self) -> None:
        if self._link is not None:
            self._link.hang_up()

    async def pause(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    async def back_off(self) -> None:
        await self.pause(self.random.choice(_BACKOFF_MS))

    async def learn(self, *topics: str) -> None:
        """Ask for topics until all of them are there with leaders."""
        while not await self.learn_once(*topics):
            await self.back_off()

    async def learn_once(self, *topics: str) -> bool:
        """Ask for topics; whether all of them are there with leaders."""
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
        response = await self.insist(ApiKey.METADATA, self.random.randint(10, 13), asked)
        is_complete = True
        for topic in response.topics:
            if topic.error_code:
                is_complete = False
                self.topic_ids.pop(topic.name, None)
                continue
            self.topic_ids[topic.name] = topic.topic_id
            for partition in topic.partitions:
                self.leader_epochs[topic.name, partition.partition_index] = partition.leader_epoch
                is_complete = is_complete and not partition.error_code
        return is_complete

    def refused(self, doing: str, error_code: int, allowed: Mapping[ErrorCode, object]) -> None:
        """An error that should not be is the world's business."""
        if ErrorCode(error_code) not in allowed:
            self.world.broken(f"{self.name} was refused {doing}: {ErrorCode(error_code).name}")


# Errors after which every client tries again; nobody promises that they never come.
PASSING: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.kafka_storage_error: "the disk refused",
    ErrorCode.request_timed_out: "the disk is slow",
    ErrorCode.not_leader_or_follower: "the log is offline, in the words of older versions",
    ErrorCode.leader_not_available: "the log is offline",
    ErrorCode.coordinator_load_in_progress: "the broker has just started",
    ErrorCode.coordinator_not_available: "the coordinator's topic is being made",
    ErrorCode.not_coordinator: "the coordinator's log failed",
}
