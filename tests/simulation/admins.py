"""Administrators: make topics and take them away, delete records, move offsets, look around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from simulation.clients import PASSING, Client
from simulation.network import DisconnectedError
from simulation.offsets import Offsets

if TYPE_CHECKING:
    from simulation.members import Member
    from simulation.world import World

Place = tuple[str, int]

_INSPECTIONS: Final = 60
_TOPIC_ERRORS: Final = {
    **PASSING,
    ErrorCode.topic_already_exists: "the answer to an earlier request was lost",
    ErrorCode.unknown_topic_or_partition: "the same",
}
_GROUP_ERRORS: Final = {
    **PASSING,
    ErrorCode.group_id_not_found: "deleted, or never there",
    ErrorCode.unknown_topic_or_partition: "deleted",
    ErrorCode.unknown_topic_id: "deleted",
}


async def create_topics(world: World, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
    """Topics by name: partitions and configs."""
    admin = Client(world, "founder")
    wanted = [
        CreatableTopic(name, partitions, 1, configs=[CreatableTopicConfig(*each) for each in configs.items()])
        for name, (partitions, configs) in topics.items()
    ]
    response = await admin.insist(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(wanted, 10_000))
    assert not any(topic.error_code for topic in response.topics), response
    world.partition_counts.update({name: partitions for name, (partitions, _) in topics.items()})
    admin.disconnect()


class Janitor(Client):
    """Creates and deletes one topic over and over, and deletes old records of another."""

    def __init__(self, world: World, name: str, topic: str, trimmed: Place) -> None:
        super().__init__(world, name)
        self._topic = topic
        self._trimmed = trimmed

    async def live(self) -> None:
        while not self.world.is_calm:
            await self.pause(self.random.choice((100, 2_000, 6_000)))
            try:
                await self.random.choice((self._create, self._delete, self._trim))()
            except DisconnectedError:
                await self.back_off()

    async def _create(self) -> None:
        wanted = CreatableTopic(self._topic, self.random.randint(1, 2), 1)
        request = CreateTopicsRequest([wanted], 10_000)
        response = await self.ask(ApiKey.CREATE_TOPICS, self.random.randint(2, 7), request)
        self.refused("a topic", response.topics[0].error_code, {ErrorCode.none: "", **_TOPIC_ERRORS})

    async def _delete(self) -> None:
        version = self.random.randint(1, 6)
        request = DeleteTopicsRequest(topic_names=[self._topic], timeout_ms=10_000)
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(self._topic)], timeout_ms=10_000)
        response = await self.ask(ApiKey.DELETE_TOPICS, version, request)
        self.refused("its end", response.responses[0].error_code, {ErrorCode.none: "", **_TOPIC_ERRORS})

    async def _trim(self) -> None:
        topic, partition = self._trimmed
        before = self.random.choice((-1, self.random.randrange(30)))
        named = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, before)])
        response = await self.ask(
            ApiKey.DELETE_RECORDS, self.random.randint(0, 2), DeleteRecordsRequest([named], 10_000)
        )
        (answer,) = response.topics[0].partitions
        allowed = {ErrorCode.none: "", ErrorCode.offset_out_of_range: "not there yet", **_TOPIC_ERRORS}
        self.refused("to delete records", answer.error_code, allowed)


class Bookkeeper(Client):
    """Commits offsets of a group without members, deletes them and looks at what is left."""

    def __init__(self, world: World, name: str, group: str, places: tuple[Place, ...]) -> None:
        super().__init__(world, name)
        self._group = group
        self._places = places
        self._offsets = Offsets(self, group)

    async def live(self) -> None:
        while not self.world.is_calm:
            await self.pause(self.random.choice((50, 500, 1_500)))
            work = self.random.choice(
                (self._commit, self._commit, self._commit, self._read, self._delete, self._forget, self._look)
            )
            try:
                await work()
            except DisconnectedError:
                await self.back_off()

    async def _commit(self) -> None:
        await self.learn_once(*dict(self._places))
        places = [place for place in self._places if place[0] in self.topic_ids]
        chosen = {place: self.random.randrange(1000) for place in places if self.random.random() < 0.6}
        error_code = await self._offsets.commit(chosen, -1, "", None)
        self.refused("a commit", error_code, {ErrorCode.none: "", **_GROUP_ERRORS})

    async def _read(self) -> None:
        await committed(self, self._group)

    async def _delete(self) -> None:
        topic, partition = self.random.choice(self._places)
        named = OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])
        response = await self.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(self._group, [named]))
        self.refused("to delete", response.error_code, {ErrorCode.none: "", **_GROUP_ERRORS})

    async def _forget(self) -> None:
        request = DeleteGroupsRequest([self._group])
        response = await self.ask(ApiKey.DELETE_GROUPS, self.random.randint(0, 2), request)
        self.refused("to forget", response.results[0].error_code, {ErrorCode.none: "", **_GROUP_ERRORS})

    async def _look(self) -> None:
        response = await self.ask(ApiKey.LIST_GROUPS, self.random.randint(0, 5), ListGroupsRequest())
        names = [group.group_id for group in response.groups]
        if len(set(names)) != len(names):
            self.world.broken(f"groups are listed twice: {names}")


async def committed(client: Client, group: str) -> dict[Place, int] | None:
    """Everything that is committed for a group; None when the coordinator does not say."""
    version = client.random.randint(2, 9)
    request = OffsetFetchRequest(group_id=group, topics=None)
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    response = await client.ask(ApiKey.OFFSET_FETCH, version, request)
    found = response.groups[0] if version >= 8 else response
    if found.error_code:
        client.refused("committed offsets", found.error_code, PASSING)
        return None
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in found.topics
        for each in topic.partitions
    }


async def inspect(world: World, groups: Mapping[str, list[Member]]) -> None:
    """After everything healed: each group is stable, all work is assigned, and all of it is done."""
    inspector = Client(world, "inspector")
    for group, members in groups.items():
        complaint: str | None = "nobody answers"
        for _ in range(_INSPECTIONS):
            complaint = await _complaint(inspector, group, members)
            if complaint is None:
                break
            await inspector.pause(1_000)
        if complaint is not None:
            world.broken(f"{group} did not heal: {complaint}")
    inspector.disconnect()


async def _complaint(inspector: Client, group: str, members: list[Member]) -> str | None:
    version = inspector.random.randint(0, 6)
    response = await inspector.ask(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([group]))
    described: DescribedGroup = response.groups[0]
    if described.error_code or described.group_state != "Stable":
        return f"it is {described.group_state}, error {described.error_code}"
    alive = {member.member_id: member for member in members if not member.is_dead}
    if {member.member_id for member in described.members} != set(alive):
        return (
            f"its members are {[member.member_id for member in described.members]}, alive are {list(alive)}"
        )
    for member in described.members:
        assigned = {tuple(each) for each in _assigned(member)}
        if assigned != set(alive[member.member_id].assigned or ()):
            return f"{member.member_id} has {alive[member.member_id].assigned}, the broker says {assigned}"
    offsets = await committed(inspector, group)
    for place in {place for member in alive.values() for place in member.assigned or ()}:
        end_offset = inspector.world.high_watermark(place)
        if end_offset and (offsets or {}).get(place) != end_offset:
            return f"{place} ends at {end_offset}, committed are {offsets}"
    return None


def _assigned(member: Any) -> Any:
    return decode_assignment(member.member_assignment).partitions if member.member_assignment else ()
