"""Committing offsets and fetching them again, in every version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.types import ZERO_ID

if TYPE_CHECKING:
    from simulation.clients import Client

Place = tuple[str, int]


class Offsets:
    """What one client commits and has committed for one group. Every commit is told apart by its note."""

    def __init__(
        self, client: Client, group: str, *, lowest_version: int = 2, require_stable: bool = False
    ) -> None:
        self._client = client
        self._group = group
        self._commit_version = client.random.randint(lowest_version, 10)
        self._require_stable = require_stable
        self._fetch_version = client.random.randint(7 if require_stable else 1, 10)
        self.committed: dict[Place, int] = {}

    async def commit(
        self, offsets: Mapping[Place, int], generation: int, member_id: str, instance_id: str | None
    ) -> int:
        """Commit; the first error. Raises DisconnectedError."""
        if not offsets:
            return 0
        note = f"{self._client.name} {self._client.world.moment()}"
        topics = [
            OffsetCommitRequestTopic(
                self._client.topic_ids.get(topic, ZERO_ID), topic,
                [OffsetCommitRequestPartition(partition, offset, -1, note)],
            )
            for (topic, partition), offset in offsets.items()
        ]  # fmt: skip
        request = OffsetCommitRequest(self._group, generation, member_id, instance_id, -1, topics)
        response = await self._client.ask(ApiKey.OFFSET_COMMIT, self._commit_version, request)
        errors = [
            each.error_code for topic in response.topics for each in topic.partitions if each.error_code
        ]
        if not errors:
            self.committed.update(offsets)
        return errors[0] if errors else 0

    async def fetch(
        self, places: Iterable[Place], passing: Mapping[ErrorCode, object]
    ) -> dict[Place, int] | None:
        """Where to go on, 0 where nobody has committed. None: ask another coordinator. DisconnectedError."""
        client, version = self._client, self._fetch_version
        places = list(places)
        while True:
            request = self._fetch_request(places)
            response = await client.ask(ApiKey.OFFSET_FETCH, version, request)
            found = response.groups[0] if version >= 8 else response
            errors = [found.error_code] if version >= 2 else []
            positions = {}
            names = {topic_id: name for name, topic_id in client.topic_ids.items()}
            for topic in found.topics:
                name = names[topic.topic_id] if version >= 10 else topic.name
                for each in topic.partitions:
                    errors.append(each.error_code)
                    positions[name, each.partition_index] = max(each.committed_offset, 0)
            if not any(errors):
                if set(positions) != set(places):
                    client.world.broken(f"{client.name} asked for {places} and got {positions}")
                return positions
            for error_code in filter(None, errors):
                if error_code == ErrorCode.unstable_offset_commit and self._require_stable:
                    continue  # a transaction is open
                client.refused("committed offsets", error_code, passing)
                if error_code != ErrorCode.coordinator_load_in_progress:
                    return None
            await client.back_off()

    def _fetch_request(self, places: list[Place]) -> OffsetFetchRequest:
        if self._fetch_version < 8:
            named = [OffsetFetchRequestTopic(topic, [partition]) for topic, partition in places]
            return OffsetFetchRequest(group_id=self._group, topics=named, require_stable=self._require_stable)
        ids = self._client.topic_ids
        topics = [
            OffsetFetchRequestTopics(ids.get(topic, ZERO_ID), topic, [partition])
            for topic, partition in places
        ]
        group = OffsetFetchRequestGroup(self._group, topics=topics)
        return OffsetFetchRequest(groups=[group], require_stable=self._require_stable)
