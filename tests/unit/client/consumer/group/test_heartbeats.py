"""Staying a member: heartbeats, the session, the poll interval, leaving."""

from __future__ import annotations

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.group.membership import ConsumerMembership
from klamm.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import Heard, World

ALL = partitions("t", [0, 1])
BEAT_MS = 3_000


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


def a_member(world: World, **settings: object) -> tuple[Consumer, Heard]:
    heard = Heard()
    consumer = world.consumer(group_id="g", **settings)
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    heard.take()
    return consumer, heard


def count(world: World, api_key: ApiKey) -> int:
    return len(world.cluster.requests(api_key))


def test_heartbeats_go_on_while_the_caller_is_busy(world: World) -> None:
    a_member(world)
    world.pass_time(30_000)
    assert 9 <= count(world, ApiKey.HEARTBEAT) <= 10
    assert world.cluster.group.members


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.unknown_member_id, ""), (ErrorCode.illegal_generation, "member-1")],
)
def test_a_heartbeat_of_a_former_member_loses_everything_and_joins_again(
    world: World, code: ErrorCode, member_id: str
) -> None:
    consumer, heard = a_member(world)
    joined = count(world, ApiKey.JOIN_GROUP)
    world.cluster.answer_once(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=code))
    world.pass_time(BEAT_MS)
    if code == ErrorCode.unknown_member_id:
        world.cluster.group.expel("member-1")
    consumer.poll(1)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert world.cluster.requests(ApiKey.JOIN_GROUP)[joined].member_id == member_id


def test_a_heartbeat_into_a_rebalance_joins_again(world: World) -> None:
    consumer, heard = a_member(world)
    world.cluster.group.rebalance()
    world.pass_time(BEAT_MS)
    consumer.poll(1)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]
    assert consumer.rebalances()[-1].cause == "the group is rebalancing"


def test_a_late_answer_to_an_old_generations_heartbeat_is_ignored(world: World) -> None:
    consumer, heard = a_member(world)
    world.cluster.hold(ApiKey.HEARTBEAT)
    world.pass_time(BEAT_MS)
    (late,) = world.cluster.held[ApiKey.HEARTBEAT]
    membership = consumer._operations.engine.membership
    assert isinstance(membership, ConsumerMembership)
    membership.generation = membership.generation._replace(generation_id=99)  # as if rejoined meanwhile
    world.cluster.reply(late, HeartbeatResponse(error_code=ErrorCode.unknown_member_id))
    consumer.poll(1)
    assert heard.take() == []
    assert membership.generation.generation_id == 99
    assert consumer.assignment() == set(ALL)


def test_a_late_refusal_of_an_old_generations_commit_keeps_the_membership(world: World) -> None:
    consumer, heard = a_member(world, enable_auto_commit=False)
    world.cluster.hold(ApiKey.OFFSET_COMMIT)
    errors: list[BaseException | None] = []
    consumer.commit_async({ALL[0]: 0}, lambda _offsets, error: errors.append(error))
    world.pass_time(1)
    (late,) = world.cluster.held[ApiKey.OFFSET_COMMIT]
    membership = consumer._operations.engine.membership
    assert isinstance(membership, ConsumerMembership)
    membership.generation = membership.generation._replace(generation_id=99)  # as if rejoined meanwhile
    refused = [OffsetCommitResponsePartition(0, ErrorCode.unknown_member_id)]
    topics = [OffsetCommitResponseTopic(name="t", partitions=refused)]
    world.cluster.reply(late, OffsetCommitResponse(topics=topics))
    consumer.poll(0)
    assert isinstance(errors[-1], CommitFailedError)
    assert heard.take() == []
    assert membership.generation.generation_id == 99
    assert consumer.assignment() == set(ALL)


def test_a_fenced_static_member_hears_of_it_in_its_next_poll_and_may_join_again(world: World) -> None:
    consumer, heard = a_member(world, group_instance_id="one")
    world.cluster.answer_once(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.fenced_instance_id))
    world.pass_time(BEAT_MS)
    with pytest.raises(FencedInstanceIdError):
        consumer.poll(1)
    assert heard.take() == []
    consumer.poll(1)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert world.cluster.requests(ApiKey.JOIN_GROUP)[-1].member_id == ""


def test_a_heartbeat_without_the_right_to_the_group_is_raised(world: World) -> None:
    consumer, heard = a_member(world)
    world.cluster.answer_once(
        ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.group_authorization_failed)
    )
    world.pass_time(BEAT_MS)
    with pytest.raises(GroupAuthorizationError):
        consumer.poll(1)
    consumer.poll(1)
    assert heard.take() == []


def test_a_coordinator_that_moved_is_looked_up_without_a_rebalance(world: World) -> None:
    consumer, heard = a_member(world)
    world.cluster.answer_once(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.not_coordinator))
    world.pass_time(3 * BEAT_MS)
    assert count(world, ApiKey.FIND_COORDINATOR) == 2
    assert count(world, ApiKey.HEARTBEAT) >= 2
    consumer.poll(1)
    assert heard.take() == []


def test_a_silent_coordinator_is_looked_up_again_and_not_left(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.hold(ApiKey.HEARTBEAT)
    world.pass_time(46_000)
    assert count(world, ApiKey.FIND_COORDINATOR) >= 2
    assert count(world, ApiKey.LEAVE_GROUP) == 0
    assert consumer.keepalive()


def test_other_errors_of_a_heartbeat_are_tried_again_after_a_backoff(world: World) -> None:
    a_member(world)
    world.cluster.answer_once(
        ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.coordinator_load_in_progress)
    )
    world.pass_time(BEAT_MS + 200)
    assert count(world, ApiKey.HEARTBEAT) == 2


def test_a_dynamic_member_that_does_not_poll_leaves_and_comes_back_with_its_next_poll(world: World) -> None:
    consumer, heard = a_member(world)
    world.pass_time(299_000)
    assert count(world, ApiKey.LEAVE_GROUP) == 0
    world.pass_time(2_000)
    (leave,) = world.cluster.requests(ApiKey.LEAVE_GROUP)
    assert "max.poll.interval.ms" in leave.members[0].reason
    assert not consumer.keepalive()
    consumer.poll(1)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert "max.poll.interval.ms" in consumer.rebalances()[-1].cause


def test_a_static_member_that_does_not_poll_falls_silent(world: World) -> None:
    a_member(world, group_instance_id="one")
    world.pass_time(301_000)
    beaten = count(world, ApiKey.HEARTBEAT)
    world.pass_time(30_000)
    assert count(world, ApiKey.LEAVE_GROUP) == 0
    assert count(world, ApiKey.HEARTBEAT) == beaten


def test_keeping_alive_counts_as_polling(world: World) -> None:
    consumer, heard = a_member(world)
    for _ in range(5):
        world.pass_time(200_000)
        assert consumer.keepalive()
    consumer.poll(1)
    assert heard.take() == []


def test_taking_records_one_by_one_counts_as_polling(world: World) -> None:
    world.cluster.produce(ALL[0], *[b"x"] * 10)
    consumer, heard = a_member(world)
    consumer.seek_to_beginning()
    for _, record in zip(range(8), consumer, strict=False):
        assert record.value == b"x"
        world.pass_time(100_000)
    assert heard.take() == []


def test_waiting_in_a_long_poll_is_no_silence(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1_000)
    assert count(world, ApiKey.LEAVE_GROUP) == 0
    assert heard.take() == []


def test_a_commit_after_too_long_a_pause_names_the_limit(world: World) -> None:
    consumer, _ = a_member(world)
    world.pass_time(310_000)
    with pytest.raises(
        CommitFailedError, match=r"not called for 30\d+ ms, max\.poll\.interval\.ms is 300000"
    ):
        consumer.commit_sync({ALL[0]: 1})


@pytest.mark.parametrize(("settings", "says_so"), [({}, True), ({"group_instance_id": "one"}, False)])
def test_closing_commits_first_and_only_a_dynamic_member_says_goodbye(
    world: World, settings: dict[str, str], says_so: bool
) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world, **settings)
    consumer.poll(1)
    consumer.close()
    assert heard.take() == [("revoked", ALL)]
    assert world.cluster.group.committed[ALL[0]][0] == 1
    assert count(world, ApiKey.LEAVE_GROUP) == int(says_so)
    kinds = [asked.api_key for asked in world.cluster.asked]
    if says_so:
        assert kinds.index(ApiKey.OFFSET_COMMIT) < kinds.index(ApiKey.LEAVE_GROUP)


def test_closing_during_a_rebalance_says_lost(world: World) -> None:
    consumer, heard = a_member(world, partition_assignment_strategy="cooperative-sticky")
    world.cluster.hold(ApiKey.JOIN_GROUP)
    consumer.enforce_rebalance()
    consumer.poll(0.5)
    consumer.close()
    assert heard.take() == [("lost", ALL)]


def test_closing_does_not_wait_for_a_coordinator_that_is_gone(world: World) -> None:
    consumer, _ = a_member(world)
    world.frozen.add(1)
    began_ms = world.clock.now_ms()
    consumer.close(5)
    assert world.clock.now_ms() - began_ms <= 10_100


def test_health_says_what_is_wrong(world: World) -> None:
    consumer, _ = a_member(world)
    assert consumer.health().is_healthy
    assert consumer.health().assignment == (TopicPartition("t", 0), TopicPartition("t", 1))
    world.cluster.answer_once(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.unknown_member_id))
    world.pass_time(BEAT_MS)
    health = consumer.health()
    assert not health.is_healthy
    assert health.member_state == "unjoined"
    assert "UNKNOWN_MEMBER_ID" in health.problems[0]
