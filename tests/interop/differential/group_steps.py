"""Requests of group members and of those who look after groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interop.differential.data_steps import SERVED
from interop.differential.group_world import PROTOCOLS, TOPICS, Asked, Group, GroupWorld, Member
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MINUTE_MS = 60_000
INSTANCES: Final = ("i1", "i2", "i1", "i2", "", "ü \U00010348", "i" * 300)
OTHERS = 1  # the connection of those who are no member


def version_of(world: GroupWorld, api_key: ApiKey) -> int:
    return world.random.choice(SERVED[api_key])


def subscription(topics: Sequence[str]) -> bytes:
    """A consumer's metadata, version 0."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def _protocols(world: GroupWorld) -> list[tuple[str, bytes]]:
    random = world.random
    names = random.choice(
        (
            PROTOCOLS[:1],
            PROTOCOLS[:2],
            PROTOCOLS,
            PROTOCOLS[1:2],
            ("odd",),
            ("ü \U00010348", "range"),
            ("x" * 300, "range"),
        )
    )
    topics = random.choice((["ga"], ["ga", "gb"], ["gb"], [], [""], ["ga", "ga"]))
    odd = random.choice(
        (b"", b"?", b"??", b"\x7f\xff" + subscription(topics)[2:], subscription(topics) + b"more")
    )
    return [(name, subscription(topics) if random.random() < 0.9 else odd) for name in names]


def _joining(world: GroupWorld, member: Member, version: int) -> JoinGroupRequest:
    random = world.random
    request = JoinGroupRequest(
        member.group.group_id,
        MINUTE_MS * 5,
        MINUTE_MS * 5,
        member.member_id,
        member.instance_id if version >= 5 else None,
        member.group.protocol_type,
        [JoinGroupRequestProtocol(*each) for each in member.protocols],
        random.choice((None, "", "because")),
    )
    chance = random.random()
    if chance < 0.02:
        request.session_timeout_ms = random.choice((0, -1, 5, 2**31 - 1, 99, 1_800_001))
    elif chance < 0.04:
        request.protocol_type = random.choice(("", "consumer", "connect"))
    elif chance < 0.06:
        request.protocols = []
    elif chance < 0.07:
        request.group_id = ""
    elif chance < 0.08:
        request.member_id = "nobody"
    return request


def join_new(world: GroupWorld) -> Asked:
    """Somebody new, or a static member after a restart."""
    random = world.random
    group = world.group()
    member = Member(group, world.next_connection(), protocols=_protocols(world))
    if random.random() < 0.3:
        member.instance_id = random.choice(INSTANCES)
    group.members.append(member)
    return _join(world, member)


def join_again(world: GroupWorld) -> Asked:
    """A member rejoins, perhaps with something new."""
    group = world.group()
    free = [member for member in group.members if member.waits_for is None and member.member_id]
    if not free:
        return join_new(world)
    member = world.random.choice(free)
    if world.random.random() < 0.3:
        member.protocols = _protocols(world)
    return _join(world, member)


def _join(world: GroupWorld, member: Member) -> Asked:
    version = version_of(world, ApiKey.JOIN_GROUP)
    world.joins += 1
    return Asked(
        0,
        ApiKey.JOIN_GROUP,
        version,
        _joining(world, member, version),
        member.connection,
        member,
        member.group,
        f"{member.group.group_id} {member.member_id or 'new'} {member.instance_id or ''}",
    )


def cut_off(world: GroupWorld) -> Asked:
    """The connection of somebody whose join is parked breaks: it is a member all the same."""
    group = world.group()
    waiting = [
        member for member in group.members if member.waits_for is ApiKey.JOIN_GROUP and member.member_id
    ]
    if not waiting:
        return join_again(world)
    member = world.random.choice(waiting)
    cut = member.connection
    member.connection, member.waits_for, member.is_in, member.is_pending = (
        world.next_connection(),
        None,
        True,
        False,
    )
    asked = heartbeat(world)
    asked.cuts = cut
    return asked


def sync(world: GroupWorld) -> Asked:
    random = world.random
    group = world.group()
    free = [member for member in group.present() if member.waits_for is None]
    if not free:
        return join_again(world)
    late = [member for member in free if not member.has_synced]
    member = random.choice(late or free)
    version = version_of(world, ApiKey.SYNC_GROUP)
    request = SyncGroupRequest(
        group.group_id,
        world.any_generation(group, right=0.95),
        member.member_id,
        member.instance_id if random.random() < 0.8 else random.choice((None, "i1", "i9")),
        group.protocol_type if random.random() < 0.97 else random.choice((None, "connect", "")),
        group.protocol if random.random() < 0.97 else random.choice((None, "nothing")),
    )
    if member.member_id == group.leader:
        present = [each.member_id for each in group.present()]
        chosen = [name for name in (*present, "nobody", "", *present[:1]) if random.random() < 0.8]
        request.assignments = [
            SyncGroupRequestAssignment(name, random.choice((b"for %d" % index, b"", bytes(50))))
            for index, name in enumerate(chosen)
        ]
    return Asked(0, ApiKey.SYNC_GROUP, version, request, member.connection, member, group, member.member_id)


def heartbeat(world: GroupWorld) -> Asked:
    random = world.random
    group = world.group()
    member = world.any_member(group)
    request = HeartbeatRequest(group.group_id, world.any_generation(group), world.any_member_id(group))
    if member is not None and random.random() < 0.7:
        request.member_id, request.group_instance_id = member.member_id, member.instance_id
    if random.random() < 0.05:
        request.group_instance_id = random.choice(("i1", "i2", "i9", ""))
    if random.random() < 0.05:
        request.group_id = random.choice(("", "no-such-group"))
    return Asked(0, ApiKey.HEARTBEAT, version_of(world, ApiKey.HEARTBEAT), request, OTHERS, None, group)


def leave(world: GroupWorld) -> Asked:
    random = world.random
    group = world.group()
    version = version_of(world, ApiKey.LEAVE_GROUP)
    # A parked sync of a member that is removed is never answered by Kafka.
    possible = [
        member
        for member in group.members
        if member.waits_for is not ApiKey.SYNC_GROUP
        and (member.member_id or not _parks_sync(group, member.instance_id))
    ]
    chosen = random.sample(possible, min(len(possible), random.choice((1, 1, 1, 2)) if version >= 3 else 1))
    request = LeaveGroupRequest(group.group_id, [_leaver(world, member) for member in chosen])
    if random.random() < 0.1:
        request.members = [*request.members, MemberIdentity("nobody", random.choice((None, "i9")), None)]
    if random.random() < 0.1:
        request.members = [*request.members, *request.members]
    if random.random() < 0.05:
        request.members = []
    request.member_id = chosen[0].member_id if chosen else "nobody"
    if random.random() < 0.03:
        request.group_id = random.choice(("", "no-such-group"))
    return Asked(0, ApiKey.LEAVE_GROUP, version, request, OTHERS, None, group)


def _leaver(world: GroupWorld, member: Member) -> MemberIdentity:
    chance = world.random.random()
    if chance < 0.75:
        return MemberIdentity(member.member_id, member.instance_id, world.random.choice((None, "bye")))
    if chance < 0.85 and not _parks_sync(member.group, member.instance_id):
        return MemberIdentity("", member.instance_id, None)
    return MemberIdentity(member.member_id, None if chance < 0.95 else "i9", None)


def _parks_sync(group: Group, instance_id: str | None) -> bool:
    return any(
        member.waits_for is ApiKey.SYNC_GROUP and member.instance_id == instance_id
        for member in group.members
    )


__all__ = ["TOPICS", "heartbeat", "join_again", "join_new", "leave", "sync"]
