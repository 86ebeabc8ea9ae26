"""Requests of members that speak the consumer protocol, right and wrong, and of those who look at groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interop.differential.group_steps import OTHERS, version_of
from interop.differential.group_world import TOPICS, Asked, Group, GroupWorld
from interop.differential.offset_steps import STRAY_GROUPS
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

LAST_EPOCH = 2**31 - 1
AWAY = -2
_REVOKE_MS = 300_000
_INSTANCES = ("i1", "i2", "ü")
_BAD_REGEXES = ("(", r"(a)\1", "t(?=x)", "[z-a]")
# Range alone gives the same partitions to the same members everywhere: the other assignor follows hash order.
_ASSIGNOR = "range"


@dataclass(slots=True)
class ConsumerMember:
    """Somebody who is or was in a group."""

    group: Group
    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    held: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by topic id, in hex
    is_in: bool = False


@dataclass(slots=True)
class ConsumerWorld(GroupWorld):
    """What the steps choose from."""

    consumers: list[ConsumerMember] = field(default_factory=list)
    made: int = 0

    def consumer(self, *, is_away: bool | None = False) -> ConsumerMember | None:
        """A member of a group that is compared; None: no matter whether it has left for a while."""
        found = [
            each
            for each in self.consumers
            if each.is_in and not each.group.is_retired and is_away in (None, each.epoch == AWAY)
        ]
        return self.random.choice(found) if found else None

    def is_succeeded(self, member: ConsumerMember) -> bool:
        """Whether another id has its place now."""
        return member.instance_id is not None and any(
            each.is_in and each is not member and each.group is member.group
            for each in self.consumers
            if each.instance_id == member.instance_id
        )

    def wrong_epoch(self, epoch: int) -> int:
        return self.random.choice((epoch - 1, epoch - 1, epoch + 1, epoch + 2, LAST_EPOCH, 1, -3))


@dataclass(slots=True)
class AskedByConsumer(Asked):
    """A request of a member."""

    consumer: ConsumerMember | None = None
    replaced: ConsumerMember | None = None  # whose place the member takes


# Not none at all: then the first epoch of a group is Kafka's first, too.
_TOPICS = (("ga",), ("gb",), ("ga", "gb"), ("ga", "gc"), ("gc", "missing"), ("missing",))


def _topics(world: ConsumerWorld) -> list[str]:
    return list(world.random.choice(_TOPICS))


def _beat(member: ConsumerMember, epoch: int, **fields: object) -> AskedByConsumer:
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member.member_id,
        member_epoch=epoch,
        instance_id=member.instance_id,
    ).but(**fields)
    says = f"{member.member_id} {member.instance_id or ''} epoch {epoch}"
    return AskedByConsumer(
        0, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, OTHERS, None, member.group, says, consumer=member
    )


def _join(world: ConsumerWorld, member: ConsumerMember, **fields: object) -> AskedByConsumer:
    complete = {
        "rebalance_timeout_ms": _REVOKE_MS,
        "subscribed_topic_names": _topics(world),
        "server_assignor": _ASSIGNOR,
        "topic_partitions": [],
        "rack_id": world.random.choice((None, "r1", "r2")),
    }
    return _beat(member, 0, **{**complete, **fields})


def join_new(world: ConsumerWorld) -> AskedByConsumer:
    world.made += 1
    member = ConsumerMember(world.group(), f"c{world.made}")
    taken = {each.instance_id for each in world.consumers if each.is_in and each.group is member.group}
    free = [each for each in _INSTANCES if each not in taken]
    if free and world.random.random() < 0.3:
        member.instance_id = world.random.choice(free)
    world.consumers.append(member)
    return _join(world, member)


def take_place(world: ConsumerWorld) -> AskedByConsumer:
    """A static member is started again, with another id."""
    former = world.consumer(is_away=None)
    if former is None or former.instance_id is None:
        return join_new(world)
    world.made += 1
    member = ConsumerMember(former.group, f"c{world.made}", former.instance_id)
    world.consumers.append(member)
    asked = _join(world, member)
    asked.replaced = former
    return asked


def use_id_twice(world: ConsumerWorld) -> AskedByConsumer:
    """Somebody joins under an id that is a member's, or was."""
    known = [each for each in world.consumers if not each.group.is_retired]
    if not known:
        return join_new(world)
    member = world.random.choice(known)
    return take_place(world) if world.is_succeeded(member) else _join(world, member)


def beat(world: ConsumerWorld) -> AskedByConsumer:
    member = world.consumer()
    if member is None:
        return join_new(world)
    random = world.random
    fields: dict[str, object] = {}
    if random.random() < 0.6:
        given_up = random.random() < 0.15
        fields["topic_partitions"] = [
            TopicPartitions(bytes.fromhex(topic_id), list(held)[1:] if given_up else list(held))
            for topic_id, held in member.held.items()
        ]
    if random.random() < 0.12:
        fields["subscribed_topic_names"] = random.choice((_topics(world), _topics(world), []))
    if random.random() < 0.1:
        fields["rebalance_timeout_ms"] = _REVOKE_MS
    if random.random() < 0.05:
        fields["rack_id"] = random.choice(("r1", "r2", ""))
    if random.random() < 0.04:
        fields["subscribed_topic_regex"] = random.choice(_BAD_REGEXES)
    if random.random() < 0.03:
        fields["server_assignor"] = random.choice(("nope", _ASSIGNOR))
    if random.random() < 0.03:
        fields["instance_id"] = random.choice(("i1", "i9"))
    epoch = member.epoch if random.random() < 0.85 else world.wrong_epoch(member.epoch)
    return _beat(member, epoch, **fields)


def leave(world: ConsumerWorld) -> AskedByConsumer:
    member = world.consumer(is_away=None)
    if member is None:
        return join_new(world)
    is_for_a_while = member.instance_id is not None and world.random.random() < 0.7
    return _beat(member, AWAY if is_for_a_while else -1)


def strange_beat(world: ConsumerWorld) -> AskedByConsumer:
    """Of nobody, or not even well-formed."""
    random = world.random
    stranger = ConsumerMember(
        world.group(), random.choice(("nobody", "", " ")), random.choice((None, None, "i9", ""))
    )
    asked = _beat(stranger, random.choice((1, 3, -1, -2, -3, LAST_EPOCH)))
    asked.consumer = None
    if random.random() < 0.3:
        asked.request.group_id = random.choice(("", " ", "no-such-group"))
    return asked


def describe(world: ConsumerWorld) -> Asked:
    random = world.random
    names = [
        random.choice(STRAY_GROUPS) if random.random() < 0.1 else world.group().group_id
        for _ in range(random.choice((0, 1, 1, 1, 2, 3)))
    ]
    version = version_of(world, ApiKey.CONSUMER_GROUP_DESCRIBE)
    request = ConsumerGroupDescribeRequest(names, random.random() < 0.3)
    return Asked(0, ApiKey.CONSUMER_GROUP_DESCRIBE, version, request, OTHERS)


def dismiss(world: ConsumerWorld) -> Asked:
    """An administrator removes members by LeaveGroup."""
    random = world.random
    group = world.group()
    known = [each for each in world.consumers if each.group is group]
    chosen = random.sample(known, min(len(known), random.choice((0, 1, 1, 2))))
    members = [
        MemberIdentity(each.member_id, each.instance_id if random.random() < 0.5 else None, None)
        for each in chosen
    ]
    members += random.choice(
        ([], [], [MemberIdentity("nobody", None, None)], [MemberIdentity("", "i9", None)])
    )
    request = LeaveGroupRequest(group.group_id, members=members)
    return Asked(0, ApiKey.LEAVE_GROUP, random.choice((3, 4, 5)), request, OTHERS, None, group)


def commit(world: ConsumerWorld) -> Asked:
    random = world.random
    member = world.consumer(is_away=None)
    if member is None:
        return join_new(world)
    is_stale = random.random() < 0.25
    # Of several partitions klamm commits those that the member may, Kafka none.
    places = [(random.choice(list(TOPICS)), 0) for _ in range(1 if is_stale else random.choice((1, 1, 2)))]
    request = OffsetCommitRequest(
        member.group.group_id,
        world.wrong_epoch(member.epoch) if is_stale else member.epoch,
        random.choice((member.member_id, member.member_id, member.member_id, "", "nobody")),
        member.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                world.topics.any_id(name), name, [OffsetCommitRequestPartition(index, random.randrange(99))]
            )
            for name, index in dict.fromkeys(places)
        ],
    )
    version = version_of(world, ApiKey.OFFSET_COMMIT)
    return Asked(0, ApiKey.OFFSET_COMMIT, version, request, OTHERS, None, member.group, member.member_id)


def fetch(world: ConsumerWorld) -> Asked:
    random = world.random
    member = world.consumer(is_away=None)
    if member is None:
        return join_new(world)
    name = random.choice(list(TOPICS))
    group = OffsetFetchRequestGroup(
        member.group.group_id,
        random.choice((member.member_id, member.member_id, member.member_id, None, "", "nobody")),
        random.choice((member.epoch, member.epoch, member.epoch, member.epoch + 1, -1)),
        random.choice((None, [OffsetFetchRequestTopics(world.topics.any_id(name), name, [0, 1])])),
    )
    version = random.choice((9, 10))
    return Asked(
        0, ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=[group]), OTHERS, None, member.group
    )
