"""A consumer group on its way to its target: who holds it up, since when, and who waits for what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from klamm.client.admin.model import GroupDescription, MemberDescription
from klamm.groups.diagnosis.words import duration, listed


def under_way(group: GroupDescription, events: Iterable[Mapping[str, Any]], now_ms: int) -> list[str]:
    """Sentences about the group now; none if every member has what it should have."""
    if group.group_type != "consumer" or group.target_epoch is None or group.epoch is None:
        return []
    if group.epoch > group.target_epoch:
        return [
            f"There is no target for epoch {group.epoch} yet: the next heartbeat of a member asks for one. "
            f"The last is that of epoch {group.target_epoch}."
        ]
    since_ms = _since_ms(events, group.target_epoch)
    since = "" if since_ms is None else f", for {duration(max(0, now_ms - since_ms))}"
    lines: list[str] = []
    owners = {each: member for member in group.members for each in member.assignment or ()}
    for member in group.members:
        lines += _of_member(member, owners, group.target_epoch, since)
    return lines


def _of_member(
    member: MemberDescription, owners: Mapping[Any, MemberDescription], target_epoch: int, since: str
) -> Iterator[str]:
    has, target = set(member.assignment or ()), set(member.target or ())
    name = f"{member.member_id} (client {member.client_id}, {member.protocol} protocol)"
    gives_up = sorted(has - target)
    if gives_up:
        yield f"{name} still has {_named(gives_up)}, which it should give up{since}."
    awaited: dict[str, list[object]] = {}
    for partition in sorted(target - has):
        owner = owners.get(partition)
        awaited.setdefault("" if owner is None else owner.member_id, []).append(partition)
    for owner_id, partitions in awaited.items():
        if owner_id:
            yield f"{name} waits for {_named(partitions)} of {owner_id}{since}."
        else:
            yield f"{name} has not taken {_named(partitions)} yet, which nobody has{since}."
    if not gives_up and not awaited and member.epoch != target_epoch:
        if member.epoch is not None and member.epoch < 0:
            yield f"{name} has left for a while; its partitions are kept until its session is over."
        else:
            yield f"{name} is at epoch {member.epoch}, not yet at {target_epoch}{since}."


def _named(partitions: Iterable[object]) -> str:
    return listed([str(each) for each in partitions])


def _since_ms(events: Iterable[Mapping[str, Any]], epoch: int) -> int | None:
    """When the epoch began; None if that is not recorded."""
    found = [
        int(event["timestamp_ms"])
        for event in events
        if event.get("type") == "group_epoch_bumped" and event.get("generation") == epoch
    ]
    return max(found, default=None)
