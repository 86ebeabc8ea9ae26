"""Reading what was committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.client.calls import Deadline, by_topic
from klamm.client.committed import Committed
from klamm.client.consumer.group.coordinator import CoordinatorLookup
from klamm.client.consumer.group.generation import Generation
from klamm.client.consumer.group.roles import Fencing
from klamm.client.consumer.offsets.commits import Commits
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import Core
from klamm.errors import KlammError, StaleMemberEpochError, UnknownTopicError, broker_error
from klamm.net.network import Node
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from klamm.protocol.types import TopicPartition

NAMES_VERSION: Final = 9  # the last version with topic names; later ones use topic ids
BATCHED_VERSION: Final = 8  # the first version with several groups


class CommittedOffsets:
    """Fetches committed offsets from the coordinator or the local store. Runs on the client's thread."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        coordinator: CoordinatorLookup,
        fencing: Fencing,
        commits: Commits,
    ) -> None:
        self._core = core
        self._settings = settings
        self._coordinator = coordinator
        self._fencing = fencing
        self._commits = commits

    async def for_positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """One attempt, once the coordinator is known; retriable errors are the caller's to repeat."""
        if self._commits.store is not None:
            return self._commits.store.load(self._commits.owner, partitions)
        node = await self._coordinator.ensure()
        return await self._ask(node, partitions, self._fencing.reader())

    async def get(
        self, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Committed]:
        """Retry until there is a response, or the time is up."""
        while True:
            try:
                return await self._core.tasks.within(
                    self._core.tasks.spawn(self.for_positions(partitions)),
                    deadline.remaining_ms(),
                    f"waiting for the coordinator of group {self._settings.group_id}",
                )
            except KlammError as error:
                await deadline.pause(error)

    async def _ask(
        self, node: Node, partitions: Sequence[TopicPartition], reader: Generation | None
    ) -> dict[TopicPartition, Committed]:
        group_id = self._settings.group_id or ""
        grouped = by_topic(partitions)

        def request(version: int) -> OffsetFetchRequest:
            if version >= BATCHED_VERSION:
                topics = [
                    OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                    for name, numbers in grouped.items()
                ]
                group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
                if reader is not None:
                    group.member_id, group.member_epoch = reader.member_id, reader.generation_id
                return OffsetFetchRequest(groups=[group], require_stable=True)
            return OffsetFetchRequest(
                group_id=group_id,
                topics=[OffsetFetchRequestTopic(*item) for item in grouped.items()],
                require_stable=True,
            )

        try:
            response: OffsetFetchResponse = await self._core.tasks.request(
                node, ApiKey.OFFSET_FETCH, request, max_version=NAMES_VERSION
            )
            return self._found(response)
        except KlammError as error:
            self._coordinator.judge(error, node)
            raise

    def _found(self, response: OffsetFetchResponse) -> dict[TopicPartition, Committed]:
        answer = response.groups[0] if response.groups else response
        if answer.error_code:
            error = broker_error(answer.error_code, f"offsets of group {self._settings.group_id}")
            if answer.error_code == ErrorCode.stale_member_epoch:
                raise StaleMemberEpochError(f"{error}: the epoch of this member has changed")
            raise error
        found = {}
        for topic in answer.topics:
            for item in topic.partitions:
                partition = TopicPartition(topic.name, item.partition_index)
                if item.error_code == ErrorCode.unknown_topic_or_partition:
                    raise UnknownTopicError(f"{partition} does not exist")
                if item.error_code:
                    raise broker_error(item.error_code, f"the committed offset of {partition}")
                if item.committed_offset >= 0:
                    found[partition] = Committed(
                        item.committed_offset, item.committed_leader_epoch, item.metadata or ""
                    )
        return found
