"""Committing: sync, async, by itself, and what the broker may say to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    KlammTimeoutError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import Heard, World

T0, T1 = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(T0, b"0", b"1")
    return world


def a_member(world: World, **settings: Any) -> tuple[Consumer, Heard]:
    heard = Heard()
    consumer = world.consumer(group_id="g", enable_auto_commit=False, **settings)
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    heard.take()
    return consumer, heard


def refused(code: int) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
    def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(item.partition_index, code) for item in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def commits(world: World) -> list[OffsetCommitRequest]:
    return world.cluster.requests(ApiKey.OFFSET_COMMIT)


def test_a_commit_takes_the_positions_and_carries_the_generation(world: World) -> None:
    consumer, _ = a_member(world)
    consumer.commit()
    (request,) = commits(world)
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, "member-1")
    assert world.cluster.group.committed == {T0: (2, 0, ""), T1: (0, 0, "")}


def test_an_assigned_consumer_commits_without_a_generation(world: World) -> None:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    consumer.poll(1)
    consumer.commit()
    (request,) = commits(world)
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        -1,
        "",
        None,
    )


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.request_timed_out,
    ],
)
def test_a_synchronous_commit_is_repeated_while_that_may_help(world: World, code: ErrorCode) -> None:
    consumer, _ = a_member(world)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(code), refused(code))
    looked_up = len(world.cluster.requests(ApiKey.FIND_COORDINATOR))
    consumer.commit({T0: 1})
    assert len(commits(world)) == 3
    is_forgotten = code in (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.request_timed_out,
    )
    assert len(world.cluster.requests(ApiKey.FIND_COORDINATOR)) - looked_up == (2 if is_forgotten else 0)


def test_a_synchronous_commit_gives_up_when_its_time_is_up(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.answer_always(ApiKey.OFFSET_COMMIT, refused(ErrorCode.coordinator_load_in_progress))
    began_ms = world.clock.now_ms()
    with pytest.raises(KlammTimeoutError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        consumer.commit({T0: 1}, timeout=3)
    assert 2_900 <= world.clock.now_ms() - began_ms <= 3_100


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_commit_whose_time_is_up_is_not_sent_when_the_coordinator_is_found(
    world: World, is_answered: bool
) -> None:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    consumer.seek(T0, 0)
    consumer.poll(1)
    if is_answered:
        away = Coordinator("g", error_code=ErrorCode.coordinator_not_available)
        answer = FindCoordinatorResponse(coordinators=[away])
        world.cluster.answer_once(ApiKey.FIND_COORDINATOR, *[answer] * 20)
    else:
        world.cluster.hold(ApiKey.FIND_COORDINATOR)
    for offset in (1, 2):
        with pytest.raises(KlammTimeoutError):
            consumer.commit({T0: offset}, timeout=2)
    world.cluster.release(ApiKey.FIND_COORDINATOR)
    consumer.commit({T0: 3})
    world.pass_time(120_000)
    assert [request.topics[0].partitions[0].committed_offset for request in commits(world)] == [3]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.offset_metadata_too_large, BrokerError),
        (ErrorCode.invalid_commit_offset_size, BrokerError),
        (ErrorCode.group_authorization_failed, BrokerError),
        (ErrorCode.fenced_instance_id, FencedInstanceIdError),
        (ErrorCode.rebalance_in_progress, RebalanceInProgressError),
        (ErrorCode.illegal_generation, CommitFailedError),
        (ErrorCode.unknown_member_id, CommitFailedError),
    ],
)
def test_a_commit_that_cannot_be_mended_is_raised(
    world: World, code: ErrorCode, error: type[Exception]
) -> None:
    consumer, _ = a_member(world)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(code))
    with pytest.raises(error):
        consumer.commit({T0: 1})
    assert len(commits(world)) == 1


def test_topics_without_the_right_to_commit_are_all_named(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(ErrorCode.topic_authorization_failed))
    with pytest.raises(TopicAuthorizationError, match="t, u"):
        consumer.commit({T0: 1, partitions("u", [0])[0]: 1})


@pytest.mark.parametrize(
    ("code", "hears"),
    [
        (ErrorCode.rebalance_in_progress, "revoked"),
        (ErrorCode.illegal_generation, "lost"),
        (ErrorCode.unknown_member_id, "lost"),
    ],
)
def test_a_commit_of_a_former_member_joins_again_with_the_next_poll(
    world: World, code: ErrorCode, hears: str
) -> None:
    consumer, heard = a_member(world)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(code))
    with pytest.raises(BrokerError):
        consumer.commit({T0: 1})
    if code == ErrorCode.unknown_member_id:
        world.cluster.group.expel("member-1")
    consumer.poll(1)
    assert heard.take() == [(hears, [T0, T1]), ("assigned", [T0, T1])]


def test_a_commit_during_a_rebalance_says_so(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.hold(ApiKey.JOIN_GROUP)
    consumer.enforce_rebalance()
    consumer.poll(0.1)
    with pytest.raises(RebalanceInProgressError, match="poll"):
        consumer.commit({T0: 1})


def test_callbacks_of_asynchronous_commits_run_before_a_synchronous_one_returns(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.hold(ApiKey.OFFSET_COMMIT)
    order: list[str] = []
    consumer.commit_async({T0: 1}, lambda _offsets, error: order.append(f"1 {error}"))
    consumer.commit_async({T0: 2}, lambda _offsets, error: order.append(f"2 {error}"))
    world.pass_time(1)
    assert order == []
    world.cluster.release(ApiKey.OFFSET_COMMIT)
    consumer.commit_sync({T0: 2})
    order.append("3")
    assert order == ["1 None", "2 None", "3"]


def test_callbacks_run_also_before_a_commit_of_nothing(world: World) -> None:
    consumer, _ = a_member(world)
    seen: list[Any] = []
    consumer.commit_async({T0: 1}, lambda offsets, _error: seen.append(offsets[T0].offset))
    consumer.commit_sync({})
    assert seen == [1]
    assert len(commits(world)) == 1


def test_an_asynchronous_commit_is_not_repeated(world: World) -> None:
    consumer, _ = a_member(world)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(ErrorCode.not_coordinator))
    errors: list[Any] = []
    consumer.commit_async({T0: 1}, lambda _offsets, error: errors.append(error))
    consumer.poll(1)
    assert isinstance(errors[0], RetriableCommitFailedError)
    assert len(commits(world)) == 1


def test_an_asynchronous_commit_without_a_coordinator_fails_at_once(world: World) -> None:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    consumer.seek(T0, 0)
    consumer.poll(1)
    away = Coordinator("g", error_code=ErrorCode.coordinator_not_available)
    world.cluster.answer_once(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[away]))
    errors: list[Any] = []
    consumer.commit_async(callback=lambda _offsets, error: errors.append(error))
    world.pass_time(1)
    consumer.poll(0)
    assert isinstance(errors[0], RetriableCommitFailedError)
    assert commits(world) == []


def test_an_asynchronous_commit_that_was_fenced_is_raised_ever_after(world: World) -> None:
    consumer, _ = a_member(world, group_instance_id="one")
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(ErrorCode.fenced_instance_id))
    consumer.commit_async({T0: 1})
    world.pass_time(1)
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            consumer.poll(0)
        with pytest.raises(FencedInstanceIdError):
            consumer.commit()


def test_positions_are_committed_by_themselves_from_inside_poll(world: World) -> None:
    consumer = world.consumer("t", group_id="g")
    assert len(consumer.poll(1)) == 2
    world.pass_time(6_000)
    assert commits(world) == []
    consumer.poll(0)
    world.pass_time(1)
    assert world.cluster.group.committed[T0][0] == 2


def test_what_a_poll_is_about_to_return_is_not_committed_by_it(world: World) -> None:
    consumer = world.consumer("t", group_id="g", auto_commit_interval_ms=0)
    consumer.poll(1)
    world.cluster.produce(T0, b"2")
    assert [record.offset for record in consumer.poll(1)] == [2]
    world.pass_time(1)
    assert max(request.topics[0].partitions[0].committed_offset for request in commits(world)) == 2


def test_a_long_poll_commits_when_it_is_time(world: World) -> None:
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    consumer.poll(12)
    assert len(commits(world)) == 2


def test_an_automatic_commit_that_failed_is_repeated_soon(world: World) -> None:
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(ErrorCode.coordinator_load_in_progress))
    consumer.poll(6)
    assert len(commits(world)) == 2


def test_reading_what_was_committed_finds_the_coordinator_again(world: World) -> None:
    consumer, _ = a_member(world)
    consumer.commit({T0: 1})
    world.cluster.coordinator_id = 1
    consumer._operations.engine.coordinator.mark_unknown("for the test")
    assert consumer.committed([T0])[T0].offset == 1  # type: ignore[union-attr]  # it is there


@pytest.mark.parametrize("offsets", [[T0], {T0: "1"}, {"t": 1}])
def test_offsets_to_commit_are_a_mapping(world: World, offsets: Any) -> None:
    consumer, _ = a_member(world)
    with pytest.raises(TypeError):
        consumer.commit(offsets)
