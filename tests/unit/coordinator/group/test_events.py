"""What is told of a group."""

from __future__ import annotations

import json

import pytest

from klamm.coordinator.group.classic.phases import NEXT_PHASES, Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.events import (
    NAMES,
    GroupEvent,
    GroupEventCause,
    MemberRemoved,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceStarted,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from unit.coordinator.asking import assignment, subscription
from unit.coordinator.driver import World
from unit.coordinator.group.consumer.user_assignors import CONFIG as USERS


def causes(world: World, kind: type[GroupEvent]) -> list[str]:
    return [event.cause for event in world.events if type(event) is kind]


def test_every_rebalance_names_what_began_it() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    (first_id,) = world.stable(1)
    world.join(first_id)
    world.settle([first_id])
    world.join(first_id, protocols={"range": subscription("t2")})
    world.settle([first_id])
    world.join(instance="i", version=9)
    world.pass_ms(10_000)  # the first is silent: only the static one is left
    assert causes(world, RebalanceStarted) == [
        GroupEventCause.MEMBER_JOINED,
        GroupEventCause.LEADER_REJOINED,
        GroupEventCause.METADATA_CHANGED,
        GroupEventCause.MEMBER_JOINED,
    ]
    assert causes(world, MemberRemoved) == [GroupEventCause.SESSION_EXPIRED]


def test_a_member_that_another_client_removes_did_not_leave() -> None:
    world = World()
    _, removed_id = world.stable(2)
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(removed_id, reason="out of service")])
    world.ask(request, client_id="admin")
    assert causes(world, MemberRemoved) == [GroupEventCause.MEMBER_DISMISSED]


def test_every_removal_names_its_cause() -> None:
    world = World()
    leader_id, follower_id, _ = world.stable(3)
    world.leave(follower_id)
    world.join(leader_id)
    unused_id = world.join(version=4, group="other").response.member_id
    world.pass_ms(10_000)
    removed = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert [event.cause for event in removed] == [
        GroupEventCause.MEMBER_LEFT,
        GroupEventCause.SESSION_EXPIRED,
        GroupEventCause.ID_UNUSED,
    ]
    assert [event.member_id for event in removed if event.group_id == "other"] == [unused_id]


def test_an_assignment_that_could_not_be_written_is_told_with_the_logs_error() -> None:
    world = World()
    (member_id,) = world.joined(1)
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.sync(member_id, 1)
    event = world.events[-1]
    assert (event.cause, event.reason) == (GroupEventCause.ASSIGNMENT_NOT_WRITTEN, "kafka_storage_error")


@pytest.mark.parametrize("after", [{"m": b"\x00"}, {"m": b"\xff" * 40}])
def test_assignments_that_cannot_be_read_move_nothing_that_can_be_told(after: dict[str, bytes]) -> None:
    event = _completed({"m": assignment(("t", 0))}, after)
    assert event.moved() is None
    assert event.as_json()["moved"] is None


def test_a_partition_that_nobody_has_any_more_has_moved() -> None:
    event = _completed({"m": assignment(("t", 0), ("t", 1)), "n": b""}, {"m": assignment(("t", 1))})
    assert event.as_json()["moved"] == ["t-0"]
    assert event.as_json()["moved_count"] == 1


def _completed(before: dict[str, bytes], after: dict[str, bytes]) -> RebalanceCompleted:
    return RebalanceCompleted(
        group_id="g",
        timestamp_ms=0,
        cause=GroupEventCause.MEMBER_JOINED,
        generation_before=1,
        generation_after=2,
        join_phase_ms=3,
        sync_phase_ms=4,
        leader_id="m",
        protocol_name="range",
        member_count=1,
        before=before,
        after=after,
    )


def test_every_event_is_json_and_a_line_of_the_log() -> None:
    world = World(
        GroupConfig(
            offsets_retention_minutes=1,
            offsets_retention_check_interval_ms=1_000,
            group_consumer_assignors=USERS.group_consumer_assignors,
        )
    )
    members = world.statics("a", "b")
    world.commit({("t", 0): 1}, member_id=members[0], generation=1)
    world.txn_commit({("t", 0): 1}, member_id=members[0], generation=1)
    world.end_transaction(commit=True)
    world.join(instance="b", version=9)
    world.leave(("", "a"), ("", "b"))
    world.jump_ms(61_000)
    world.stable(1)
    world.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=["t"],
            server_assignor="raises",
        )
    )
    world.pass_ms(1)
    kinds = {type(event) for event in world.events}
    assert kinds == set(NAMES)
    for event in world.events:
        fields = json.loads(json.dumps(event.as_json()))
        assert (fields["type"], fields["group_id"]) == (NAMES[type(event)], "g")
        assert "g" in event.line()
        assert event.cause in event.line()
    assert "Preparing to rebalance group g with old generation 0" in world.events[0].line()


def test_only_offsets_whose_time_is_over_are_called_expired() -> None:
    world = World(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    world.commit({("t1", 0): 1, ("t", 0): 1})
    del world.topics.known["t1"]
    world.coordinator.topic_deleted("t1", world.context())
    world.jump_ms(61_000)
    lines = [event.line() for event in world.events if isinstance(event, OffsetsRemoved)]
    assert lines == [
        "Removed 1 offsets in group g (the topic was deleted)",
        "Removed 1 expired offsets in group g (the retention time is over: last committed 1.0 min ago, kept "
        "for 1.0 min)",
    ]


def test_the_table_of_phases_is_whole() -> None:
    assert set(NEXT_PHASES) == set(Phase)
    assert all(Phase.DEAD in following for following in NEXT_PHASES.values())
    assert NEXT_PHASES[Phase.DEAD] == {Phase.DEAD}
