"""`klamm groups migrate --dry-run`: what happens when a group's consumers change their protocol."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    print_json,
    print_table,
)
from klamm.cli.completion import complete_groups
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import GroupDescription, MemberDescription

POLICY: Final = "group.consumer.migration.policy"
CONSUMER_MAX: Final = "group.consumer.max.size"
CLASSIC_MAX: Final = "group.max.size"
_SETTINGS: Final = (POLICY, CONSUMER_MAX, CLASSIC_MAX, "group.consumer.assignors")
_SERVING: Final = "group.version"  # the feature that the consumer protocol needs


class Obstacle(NamedTuple):
    """What keeps a group, or one of its members, from changing its protocol."""

    text: str
    member_id: str | None = None  # None: the group as a whole


def migrate(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The id of the group.", autocompletion=complete_groups)
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would happen; there is no other way to call this.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Tell what happens when the consumers of a group change their protocol, and what is in the way.

    A group moves by restarting its consumers, one by one, with group.protocol=consumer (or classic, to go
    back). This command changes nothing: it shows which protocol each member speaks, the settings of the
    coordinator that matter, and what stands in the way. It works with klamm and Apache Kafka 4.

    \b
      klamm groups migrate billing --dry-run
      klamm groups migrate billing --dry-run --json
    """
    if not dry_run:
        fail(
            "nothing to do: restart the consumers of the group one by one with group.protocol=consumer; "
            "--dry-run tells what would happen",
            MISUSED,
        )
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_groups([group]).unwrap()[group]
        settings = _settings(admin, found.coordinator_id)
    obstacles = obstacles_of(found, settings)
    if as_json:
        print_json(_as_json(found, settings, obstacles))
    else:
        _print(found, settings, obstacles)


def _settings(admin: Admin, broker_id: int) -> dict[str, str | None]:
    """Of the coordinator, by name; None where it does not have one."""
    (configs,) = admin.describe_configs("broker", broker_id).unwrap().values()
    found: dict[str, str | None] = {
        name: None if (entry := configs.get(name)) is None else entry.value for name in _SETTINGS
    }
    feature = admin.describe_features().get(_SERVING)
    level = None if feature is None else feature.level
    found[_SERVING] = None if level is None else str(level)
    return found


def obstacles_of(group: GroupDescription, settings: dict[str, str | None]) -> list[Obstacle]:
    """What keeps it from its other protocol: from consumer, if it is a classic group, else from classic."""
    policy = (settings[POLICY] or "").lower()
    obstacles = []
    if group.group_type == "classic":
        if settings[_SERVING] in (None, "0"):
            obstacles.append(Obstacle(f"the cluster has the feature {_SERVING} at {settings[_SERVING] or 0}"))
        if group.members and policy not in ("upgrade", "bidirectional"):
            obstacles.append(Obstacle(f"{POLICY} is {policy or 'not set'}"))
        if group.members and group.protocol_type != "consumer":
            kind = group.protocol_type or "unknown"
            obstacles.append(Obstacle(f"its members are no consumers: their protocol type is {kind}"))
        elif group.members:
            obstacles += _of_members(group)
        if _is_above(len(group.members), settings[CONSUMER_MAX]):
            obstacles.append(Obstacle(f"{CONSUMER_MAX} is {settings[CONSUMER_MAX]}"))
        return obstacles
    if group.members and policy not in ("downgrade", "bidirectional"):
        obstacles.append(Obstacle(f"{POLICY} is {policy or 'not set'}"))
    if _is_above(len(group.members), settings[CLASSIC_MAX]):
        obstacles.append(Obstacle(f"{CLASSIC_MAX} is {settings[CLASSIC_MAX]}"))
    return obstacles


def _is_above(count: int, limit: str | None) -> bool:
    return limit is not None and limit.isdigit() and count > int(limit)


def _of_members(group: GroupDescription) -> list[Obstacle]:
    owners: dict[object, str] = {}
    obstacles = []
    for member in group.members:
        if member.has_user_data:
            text = "its assignor keeps data in the assignment, which the consumer protocol does not carry"
            obstacles.append(Obstacle(text, member.member_id))
        for partition in member.assignment or ():
            if partition in owners:
                text = f"{partition} is assigned to {owners[partition]} too"
                obstacles.append(Obstacle(text, member.member_id))
            owners[partition] = member.member_id
    return obstacles


def _outcome(group: GroupDescription, obstacles: list[Obstacle]) -> str:
    is_classic = group.group_type == "classic"
    if obstacles:
        other = "consumer" if is_classic else "classic"
        return f"It cannot become a {other} group: " + "; ".join(_text(each) for each in obstacles) + "."
    if not group.members:
        return "It has no members: it takes the protocol of the first consumer that joins. Its offsets stay."
    if is_classic:
        return (
            "With the first consumer that joins with group.protocol=consumer it becomes a consumer group. "
            "The others remain members in their protocol; offsets and partitions stay."
        )
    others = sum(member.protocol == "consumer" for member in group.members)
    if not others:
        return "All members speak the classic protocol. With the next one that leaves it is a classic group."
    if others == len(group.members):
        return (
            "All members speak the consumer protocol. To go back, restart them with group.protocol=classic: "
            "when the last one has left, the group is classic."
        )
    return (
        f"{others} of {len(group.members)} members speak the consumer protocol. Restart the others with "
        "group.protocol=consumer to move all. When the last of the former has left, it is classic again."
    )


def _text(obstacle: Obstacle) -> str:
    return obstacle.text if obstacle.member_id is None else f"{obstacle.member_id}: {obstacle.text}"


def _next_step(member: MemberDescription, group: GroupDescription, obstacles: list[Obstacle]) -> str:
    own = [each.text for each in obstacles if each.member_id == member.member_id]
    if own:
        return "; ".join(own)
    if any(each.member_id is None for each in obstacles) and group.group_type == "classic":
        return "waits for the group"
    other = "consumer" if member.protocol == "classic" else "classic"
    return f"restart with group.protocol={other}"


def _print(group: GroupDescription, settings: dict[str, str | None], obstacles: list[Obstacle]) -> None:
    counted = f"{len(group.members)} member(s)"
    echo(f"{group.group_id}: {group.group_type} group, {group.state}, {counted}")
    echo(_outcome(group, obstacles))
    echo()
    known = [(name, "not known" if value is None else value) for name, value in settings.items()]
    print_table((f"setting of broker {group.coordinator_id}", "value"), known)
    if group.members:
        echo()
        columns = ("member", "instance", "client", "protocol", "to move it")
        print_table(
            columns,
            [
                (
                    member.member_id,
                    member.group_instance_id or "-",
                    member.client_id,
                    member.protocol,
                    _next_step(member, group, obstacles),
                )
                for member in group.members
            ],
        )


def _as_json(
    group: GroupDescription, settings: dict[str, str | None], obstacles: list[Obstacle]
) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "coordinator": group.coordinator_id,
        "can_move": not obstacles,
        "outcome": _outcome(group, obstacles),
        "obstacles": [each._asdict() for each in obstacles],
        "settings": settings,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "protocol": member.protocol,
                "next_step": _next_step(member, group, obstacles),
            }
            for member in group.members
        ],
    }
