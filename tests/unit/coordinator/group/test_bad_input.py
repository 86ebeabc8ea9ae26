"""Requests that nobody should send: the specified error, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klamm.coordinator.group.classic.membership import ClassicMembership, Member
from klamm.coordinator.group.config import GroupConfig
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import assignment, commit_errors, subscription
from unit.coordinator.driver import World

OLD_ID = "an id that was valid once"
HUGE = "x" * 100_000


def a_world() -> World:
    """A full stable group of two static members, one of whom has restarted, with an offset."""
    world = World(GroupConfig(group_max_size=2))
    world.statics("a", "b", protocols={"range": subscription("t")})
    world.join(instance="b", version=9, protocols={"range": subscription("t")})
    first_id = world.live().static_members["a"]
    world.commit({("t", 0): 5}, member_id=first_id, generation=world.live().generation)
    return world


def picture(world: World) -> Any:
    """All that there is to know of the groups, and how far the log reaches; timers apart."""
    lives = {group_id: _shown(world.live(group_id)) for group_id in world.state.groups}
    return world.state.remembered(), lives, world.log.end_offset


def _shown(live: ClassicMembership) -> dict[str, Any]:
    shown = {name: value for name, value in live.fields().items() if not name.endswith("_timer")}
    shown["members"] = {member_id: _member(member) for member_id, member in live.members.items()}
    return {
        name: dict(value) if isinstance(value, dict) else value
        for name, value in shown.items()
        if name != "pending"
    } | {"pending": list(live.pending)}


def _member(member: Member) -> dict[str, Any]:
    timer = {"due_at_ms", "failures", "check_at_ms", "renewed_at_ms"}
    return {name: value for name, value in member.fields().items() if name not in timer}


def first(world: World) -> tuple[str, int]:
    return world.live().static_members["a"], world.live().generation


def commit_error(world: World, **arguments: Any) -> ErrorCode:
    member_id, generation = first(world)
    asked: dict[str, Any] = {"member_id": member_id, "generation": generation, **arguments}
    (error,) = set(commit_errors(world.commit(**asked)).values())
    return error


BAD: dict[str, tuple[Callable[[World], ErrorCode], ErrorCode]] = {
    "join: no group id": (lambda w: w.join(group="").error, ErrorCode.invalid_group_id),
    "join: session too short": (lambda w: w.join(session_ms=1).error, ErrorCode.invalid_session_timeout),
    "join: session too long": (
        lambda w: w.join(session_ms=2**31 - 1).error,
        ErrorCode.invalid_session_timeout,
    ),
    "join: unknown group": (lambda w: w.join("x", group="no").error, ErrorCode.unknown_member_id),
    "join: unknown member, full": (lambda w: w.join("x").error, ErrorCode.group_max_size_reached),
    "join: one too many": (lambda w: w.join(instance="c").error, ErrorCode.group_max_size_reached),
    "join: another type": (
        lambda w: w.join(first(w)[0], protocol_type="connect").error,
        ErrorCode.inconsistent_group_protocol,
    ),
    "join: no protocols": (
        lambda w: w.join(first(w)[0], protocols=()).error,
        ErrorCode.inconsistent_group_protocol,
    ),
    "join: no common protocol": (
        lambda w: w.join(first(w)[0], protocols=(HUGE,)).error,
        ErrorCode.inconsistent_group_protocol,
    ),
    "join: stale instance": (
        lambda w: w.join(first(w)[0], instance="b").error,
        ErrorCode.fenced_instance_id,
    ),
    "join: unknown instance": (
        lambda w: w.join(first(w)[0], instance="z").error,
        ErrorCode.unknown_member_id,
    ),
    "sync: unknown member": (lambda w: w.sync("x", 1).error, ErrorCode.unknown_member_id),
    "sync: unknown group": (lambda w: w.sync("x", 1, group="no").error, ErrorCode.unknown_member_id),
    "sync: wrong generation": (
        lambda w: w.sync(first(w)[0], 2**31 - 1, {first(w)[0]: assignment(("t", 1))}).error,
        ErrorCode.illegal_generation,
    ),
    "sync: stale instance": (
        lambda w: w.sync(OLD_ID, first(w)[1], instance="b").error,
        ErrorCode.fenced_instance_id,
    ),
    "sync: another protocol": (
        lambda w: w.sync(*first(w), protocol_name=HUGE).error,
        ErrorCode.inconsistent_group_protocol,
    ),
    "heartbeat: no group id": (lambda w: w.heartbeat("x", 1, group=""), ErrorCode.invalid_group_id),
    "heartbeat: unknown group": (lambda w: w.heartbeat("x", 1, group="no"), ErrorCode.unknown_member_id),
    "heartbeat: unknown member": (lambda w: w.heartbeat("x", first(w)[1]), ErrorCode.unknown_member_id),
    "heartbeat: wrong generation": (lambda w: w.heartbeat(first(w)[0], -1), ErrorCode.illegal_generation),
    "heartbeat: stale instance": (
        lambda w: w.heartbeat(OLD_ID, first(w)[1], instance="b"),
        ErrorCode.fenced_instance_id,
    ),
    "leave: unknown member": (
        lambda w: ErrorCode(w.leave("x").members[0].error_code),
        ErrorCode.unknown_member_id,
    ),
    "leave: stale instance": (
        lambda w: ErrorCode(w.leave((OLD_ID, "b")).members[0].error_code),
        ErrorCode.fenced_instance_id,
    ),
    "commit: unknown member": (lambda w: commit_error(w, member_id="x"), ErrorCode.unknown_member_id),
    "commit: wrong generation": (lambda w: commit_error(w, generation=7_000), ErrorCode.illegal_generation),
    "commit: outsider": (
        lambda w: commit_error(w, member_id="", generation=-1),
        ErrorCode.unknown_member_id,
    ),
    "commit: stale instance": (
        lambda w: commit_error(w, member_id=OLD_ID, instance="b"),
        ErrorCode.fenced_instance_id,
    ),
    "commit: huge metadata": (
        lambda w: commit_error(w, offsets={("t", 0): (1, HUGE)}),
        ErrorCode.offset_metadata_too_large,
    ),
    "commit: unknown topic": (
        lambda w: commit_error(w, offsets={("nowhere", 0): 1}),
        ErrorCode.unknown_topic_or_partition,
    ),
    "commit: no such partition": (
        lambda w: commit_error(w, offsets={("t", -1): 1, ("t", 2**31 - 1): 1}),
        ErrorCode.unknown_topic_or_partition,
    ),
    "commit: unknown group": (
        lambda w: commit_error(w, group="no", version=9),
        ErrorCode.group_id_not_found,
    ),
    "delete offsets: still read": (
        lambda w: ErrorCode(w.delete_offsets(("t", 0)).topics[0].partitions[0].error_code),
        ErrorCode.group_subscribed_to_topic,
    ),
    "delete offsets: unknown group": (
        lambda w: ErrorCode(w.delete_offsets(("t", 0), group="no").error_code),
        ErrorCode.group_id_not_found,
    ),
    "delete: members": (lambda w: w.delete("g")["g"], ErrorCode.non_empty_group),
    "delete: unknown group": (lambda w: w.delete("no")["no"], ErrorCode.group_id_not_found),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_request_gets_its_error_and_changes_nothing(what: str) -> None:
    ask, expected = BAD[what]
    world = a_world()
    before = picture(world)
    assert ask(world) is expected
    assert picture(world) == before
    world.restart()
    assert world.state.remembered() == before[0]
