"""Requests about committed offsets, and about groups as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interop.differential.group_steps import OTHERS, heartbeat, version_of
from interop.differential.group_world import TOPICS, Asked, GroupWorld
from interop.differential.wire_steps import changing
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema import is_flexible

# By the units that Java counts, 4096 are allowed.
METADATA: Final = (
    None,
    "",
    "m",
    "ü",
    "x" * 4096,
    "ü" * 4096,
    "\U00010348" * 2048,
)
LONG_METADATA: Final = ("x" * 4097, "\U00010348" * 2049, "x" * 32_767)
STRAY_GROUPS: Final = ("", "no-such-group", "g" * 300, "ü", "\U00010348", "g" * 8000, " ")


def _targets(world: GroupWorld) -> list[tuple[str, list[int]]]:
    """Topics and partitions; now and then one that is not there, or one twice."""
    random = world.random
    names = random.choices([*TOPICS, *TOPICS, "missing", "a b", ""], k=random.choice((0, 1, 1, 1, 1, 2, 3)))
    return [(name, _partitions(world, name)) for name in names]


def _partitions(world: GroupWorld, name: str) -> list[int]:
    random = world.random
    chance = random.random()
    if chance < 0.05:
        return []
    if chance < 0.3:
        count = TOPICS.get(name, 1)
        return random.sample(range(count), random.randint(1, count)) + random.choice(
            ([], [], [0], [count, -1])
        )
    return random.choices((0, 0, 1, 1, 2, -1, 2**31 - 1, -(2**31)), k=random.choice((1, 2)))


def _group_id(world: GroupWorld, *, odd: float = 0.1) -> str:
    if world.random.random() < odd:
        return world.random.choice(STRAY_GROUPS)
    return world.group().group_id


def commit(world: GroupWorld) -> Asked:
    random = world.random
    version = version_of(world, ApiKey.OFFSET_COMMIT)
    group = world.group()
    group_id = group.group_id if random.random() < 0.9 else _group_id(world, odd=0.5)
    # Where nothing of the first commit is accepted, Kafka has a group that it shows to nobody.
    is_there = group_id == group.group_id and group.present()
    metadata = (*METADATA, *LONG_METADATA) if is_there else METADATA
    topics = [
        OffsetCommitRequestTopic(
            world.topics.any_id(name),
            name,
            [
                OffsetCommitRequestPartition(
                    index,
                    random.choice((0, 1, 5, 2**63 - 1, -1, -(2**63))),
                    random.choice((-1, 0, 3, -2, 2**31 - 1)),
                    random.choice(metadata),
                )
                for index in indexes
            ],
        )
        for name, indexes in _targets(world)
    ]
    request = OffsetCommitRequest(group_id, topics=topics)
    member = world.any_member(group)
    if member is not None and random.random() < 0.75:
        request.member_id, request.group_instance_id = member.member_id, member.instance_id
        request.generation_id_or_member_epoch = world.any_generation(group)
    elif random.random() < 0.4:
        request.member_id = world.any_member_id(group)
        request.generation_id_or_member_epoch = world.any_generation(group)
        request.group_instance_id = random.choice((None, "i1", "i9"))
    request.retention_time_ms = random.choice((-1, 10**10, 2**63 - 1, 0, -2))
    return Asked(0, ApiKey.OFFSET_COMMIT, version, request, OTHERS, None, group)


def fetch(world: GroupWorld) -> Asked:
    random = world.random
    version = version_of(world, ApiKey.OFFSET_FETCH)
    asks_all = version >= 2 and random.random() < 0.3
    targets = _targets(world)
    request = OffsetFetchRequest(require_stable=random.random() < 0.3)
    if version < 8:
        request.group_id = _group_id(world)
        topics = [OffsetFetchRequestTopic(*target) for target in targets]
        request.topics = None if asks_all else topics
    else:
        request.groups = [
            OffsetFetchRequestGroup(
                _group_id(world),
                random.choice((None, None, "", world.any_member_id(world.group()))),
                world.any_generation(world.group()) if random.random() < 0.3 else -1,
                None
                if random.random() < 0.3
                else [
                    OffsetFetchRequestTopics(world.topics.any_id(name), name, indexes)
                    for name, indexes in random.choice((targets, _targets(world)))
                ],
            )
            for _ in range(random.choice((0, 1, 1, 2, 4)))
        ]
    return Asked(0, ApiKey.OFFSET_FETCH, version, request, OTHERS)


def delete_offsets(world: GroupWorld) -> Asked:
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in _targets(world)
    ]
    return Asked(0, ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(_group_id(world), topics), OTHERS)


def describe(world: GroupWorld) -> Asked:
    version = version_of(world, ApiKey.DESCRIBE_GROUPS)
    names = [_group_id(world) for _ in range(world.random.choice((0, 1, 1, 2, 4)))]
    request = DescribeGroupsRequest(names, world.random.random() < 0.3)
    return Asked(0, ApiKey.DESCRIBE_GROUPS, version, request, OTHERS)


def list_groups(world: GroupWorld) -> Asked:
    random = world.random
    version = version_of(world, ApiKey.LIST_GROUPS)
    states = (
        "Stable",
        "stable",
        "sTABLE",
        "EMPTY",
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "completingrebalance",
        "Dead",
        "Assigning",
        "nonsense",
        " Stable",
        "",
    )
    request = ListGroupsRequest(
        random.sample(states, random.choice((0, 0, 1, 2))),
        random.sample(
            ("classic", "cLASSIC", "Consumer", "share", "streams", "x", ""), random.choice((0, 0, 1, 2))
        ),
    )
    return Asked(0, ApiKey.LIST_GROUPS, version, request, OTHERS)


def delete(world: GroupWorld) -> Asked:
    version = version_of(world, ApiKey.DELETE_GROUPS)
    names = [_group_id(world) for _ in range(world.random.choice((0, 1, 1, 1, 2, 4)))]
    return Asked(0, ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest(names), OTHERS)


def find_coordinator(world: GroupWorld) -> Asked:
    random = world.random
    version = version_of(world, ApiKey.FIND_COORDINATOR)
    request = FindCoordinatorRequest(
        _group_id(world),
        random.choice((0, 0, 0, 3, -1)) if version >= 1 else 0,
        [_group_id(world) for _ in range(random.choice((0, 1, 2)))],
    )
    return Asked(0, ApiKey.FIND_COORDINATOR, version, request, OTHERS)


def change_topic(world: GroupWorld) -> Asked:
    """Delete a topic, or make it again."""
    name = world.random.choice(list(TOPICS))
    if name in world.topics.topics:
        doomed = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        return Asked(0, ApiKey.DELETE_TOPICS, 4, doomed, OTHERS, says=name)
    made = CreateTopicsRequest([CreatableTopic(name, TOPICS[name], 1)])
    return Asked(0, ApiKey.CREATE_TOPICS, 4, made, OTHERS, says=name)


def audit(world: GroupWorld) -> Iterator[Asked]:
    """What is left at the end, asked for in full."""
    names = [*(group.group_id for group in world.groups if not group.is_retired), *STRAY_GROUPS]
    wanted = [OffsetFetchRequestGroup(name, None, -1, None) for name in names]
    yield Asked(0, ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=wanted), OTHERS, says="all")
    yield Asked(0, ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(names), OTHERS, says="all")
    yield Asked(0, ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), OTHERS, says="all")


# Requests that change nothing, whatever becomes of them.
_READ_ONLY: Final = (heartbeat, fetch, describe, list_groups, find_coordinator)


def changed_frame(world: GroupWorld) -> Asked:
    """A question with something done to its bytes."""
    random = world.random
    changes: tuple[str, ...] = ("cut", "cut", "longer", "flipped", "client id", "tag")
    asked = random.choice(_READ_ONLY)(world)
    if random.random() < 0.3:
        asked, changes = commit(world), ("cut", "longer", "tag")
    asked.connection = world.next_connection()
    asked.says = random.choice(changes)
    has_tags = is_flexible(asked.api_key, asked.version)
    asked.frame_change = changing(asked.says, random.getrandbits(32), has_tags)
    return asked
