"""What a listener hears, in which order, and what is committed before partitions go."""

from __future__ import annotations

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.group.listener import StatefulListener
from klamm.client.consumer.group.rebalance_log import Rebalance
from klamm.errors import RebalanceListenerError, WakeupError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import Heard, World

ALL = partitions("t", [0, 1, 2])
COOPERATIVE = "cooperative-sticky"


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 3)
    return world


def a_member(world: World, **settings: object) -> tuple[Consumer, Heard]:
    heard = Heard()
    consumer = world.consumer(group_id="g", **settings)
    consumer.subscribe(["t"], heard)
    return consumer, heard


def refused(code: ErrorCode) -> object:
    def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(item.partition_index, code) for item in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def test_an_eager_group_gives_up_everything_before_anybody_gets_anything(world: World) -> None:
    first, heard_first = a_member(world)
    first.poll(1)
    second, heard_second = a_member(world)
    world.settle(first, second)
    heard_first.take(), heard_second.take()
    order: list[str] = []
    for name, heard in (("first", heard_first), ("second", heard_second)):
        heard.do = {
            kind: lambda _partitions, name=name, kind=kind: order.append(f"{name} {kind}")  # type: ignore[misc]
            for kind in ("revoked", "assigned")
        }
    third, heard_third = a_member(world)
    world.settle(first, second, third)
    assert sorted(order[:2]) == ["first revoked", "second revoked"]
    assert sorted(order[2:]) == ["first assigned", "second assigned"]
    given = [heard.calls[-1][1] for heard in (heard_first, heard_second, heard_third)]
    assert sorted(given) == [[ALL[0]], [ALL[1]], [ALL[2]]]
    assert heard_third.calls == [("assigned", given[2])]


def test_a_cooperative_group_gives_up_only_what_moves_and_gives_it_out_a_round_later(world: World) -> None:
    first, heard_first = a_member(world, partition_assignment_strategy=COOPERATIVE)
    first.poll(1)
    assert heard_first.take() == [("assigned", ALL)]
    second, heard_second = a_member(world, partition_assignment_strategy=COOPERATIVE)
    world.settle(first, second)
    assert heard_first.take() == [("revoked", [ALL[2]]), ("assigned", []), ("assigned", [])]
    assert heard_second.take() == [("assigned", []), ("assigned", [ALL[2]])]
    causes = [entry.cause for entry in first.rebalances()]
    assert causes == ["first join", "the group is rebalancing", "revoked t-2 for other members"]


def test_a_cooperative_member_reads_on_during_a_rebalance(world: World) -> None:
    consumer, _ = a_member(world, partition_assignment_strategy=COOPERATIVE)
    consumer.poll(1)
    world.cluster.hold(ApiKey.JOIN_GROUP)
    consumer.enforce_rebalance()
    consumer.poll(0.1)
    world.cluster.produce(ALL[0], b"meanwhile")
    assert [record.value for record in consumer.poll(1)] == [b"meanwhile"]


def test_a_commit_before_a_rebalance_is_repeated_while_that_may_help(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world)
    consumer.poll(1)
    consumer.poll(1)
    heard.take()
    again = ErrorCode.coordinator_load_in_progress
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(again), refused(again), refused(again))
    heard.do["revoked"] = lambda _partitions: heard.calls.append(
        ("committed", [item for item in ALL if world.cluster.group.committed.get(item, (0,))[0] == 1])
    )
    consumer.enforce_rebalance()
    consumer.poll(5)
    assert heard.take() == [("revoked", ALL), ("committed", [ALL[0]]), ("assigned", ALL)]
    assert len(world.cluster.requests(ApiKey.OFFSET_COMMIT)) >= 4


def test_a_commit_before_a_rebalance_takes_no_longer_than_the_poll_interval(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world, max_poll_interval_ms=60_000)
    consumer.poll(1)
    heard.take()
    world.cluster.answer_always(ApiKey.OFFSET_COMMIT, refused(ErrorCode.coordinator_load_in_progress))  # type: ignore[arg-type]
    consumer.enforce_rebalance()
    began_ms = world.clock.now_ms()
    while not heard.calls:
        consumer.poll(1)
    assert 59_000 <= world.clock.now_ms() - began_ms <= 63_000


def test_a_commit_that_fails_for_good_does_not_stop_the_rebalance(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world)
    consumer.poll(1)
    heard.take()
    world.cluster.answer_once(ApiKey.OFFSET_COMMIT, refused(ErrorCode.offset_metadata_too_large))
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]


def test_what_is_fetched_while_an_eager_member_commits_is_not_handed_out(world: World) -> None:
    world.cluster.produce(ALL[0], b"before")
    consumer, heard = a_member(world)
    assert len(consumer.poll(1)) == 1
    world.cluster.hold(ApiKey.OFFSET_COMMIT)
    consumer.enforce_rebalance()
    assert len(consumer.poll(0.1)) == 0
    world.cluster.produce(ALL[0], b"late")
    assert len(consumer.poll(1)) == 0
    world.cluster.release(ApiKey.OFFSET_COMMIT)
    heard.take()
    assert [record.value for record in consumer.poll(2)] == [b"late"]
    assert world.cluster.group.committed[ALL[0]][0] == 1


def test_what_a_cooperative_member_read_during_the_rebalance_is_committed_before_it_goes(
    world: World,
) -> None:
    first, heard = a_member(world, partition_assignment_strategy=COOPERATIVE)
    first.poll(1)
    second, _ = a_member(world, partition_assignment_strategy=COOPERATIVE)
    world.cluster.hold(ApiKey.SYNC_GROUP)
    for _ in range(40):
        second.poll(0)
        first.poll(0)
        world.pass_time(100)
    world.cluster.produce(ALL[2], b"read in between")
    assert [record.value for record in first.poll(1)] == [b"read in between"]
    heard.take()
    seen: list[object] = []
    heard.do["revoked"] = lambda _partitions: seen.append(world.cluster.group.committed.get(ALL[2]))
    world.cluster.release(ApiKey.SYNC_GROUP)
    world.settle(first, second)
    assert ("revoked", [ALL[2]]) in heard.calls
    assert seen == [(1, 0, "")]


def test_a_listener_may_commit_and_ask_for_positions_while_partitions_are_being_revoked(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world, enable_auto_commit=False)
    consumer.poll(1)
    seen: list[int] = []

    def commit(_partitions: list[TopicPartition]) -> None:
        seen.append(consumer.position(ALL[0]))
        consumer.commit_sync()

    heard.do["revoked"] = commit
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert seen == [1]
    assert world.cluster.group.committed[ALL[0]][0] == 1


def test_an_eager_listener_that_fails_is_told_of_once_and_the_next_poll_joins(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1)
    heard.take()

    def fail(_partitions: list[TopicPartition]) -> None:
        raise RuntimeError("no")

    heard.do["revoked"] = fail
    consumer.enforce_rebalance()
    joined = len(world.cluster.requests(ApiKey.JOIN_GROUP))
    with pytest.raises(RebalanceListenerError, match="on_revoked") as caught:
        consumer.poll(1)
    assert isinstance(caught.value.__cause__, RuntimeError)
    world.pass_time(100)
    assert len(world.cluster.requests(ApiKey.JOIN_GROUP)) == joined
    consumer.poll(1)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]


def test_a_cooperative_listener_that_fails_is_told_of_when_all_is_done(world: World) -> None:
    first, heard = a_member(world, partition_assignment_strategy=COOPERATIVE)
    first.poll(1)
    heard.take()

    def fail(_partitions: list[TopicPartition]) -> None:
        raise RuntimeError("no")

    heard.do["revoked"] = fail
    second, _ = a_member(world, partition_assignment_strategy=COOPERATIVE)
    with pytest.raises(RebalanceListenerError):
        world.settle(first, second)
    assert heard.take() == [("revoked", [ALL[2]]), ("assigned", [])]
    assert first.assignment() == set(ALL[:2])
    world.settle(first, second)
    assert second.assignment() == {ALL[2]}


def test_a_wakeup_inside_on_revoked_is_raised_and_the_listener_not_told_again(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1)
    heard.take()

    def interrupted(_partitions: list[TopicPartition]) -> None:
        raise WakeupError("stop")

    heard.do["revoked"] = interrupted
    consumer.enforce_rebalance()
    with pytest.raises(WakeupError):
        consumer.poll(1)
    consumer.poll(1)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]


def test_a_cooperative_member_gives_up_topics_it_no_longer_wants_before_joining(world: World) -> None:
    world.cluster.create("u", 1)
    heard = Heard()
    consumer = world.consumer(group_id="g", partition_assignment_strategy=COOPERATIVE)
    consumer.subscribe(["t", "u"], heard)
    consumer.poll(1)
    heard.take()
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    assert heard.take() == [("revoked", partitions("u", [0])), ("assigned", [])]


def test_unsubscribing_commits_what_was_read(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, _ = a_member(world)
    consumer.poll(1)
    consumer.unsubscribe()
    assert world.cluster.group.committed[ALL[0]][0] == 1


def test_state_survives_an_eager_rebalance_that_gives_the_partition_back() -> None:
    made: list[str] = []
    listener = StatefulListener(
        init=lambda partition: made.append(f"+{partition}"),
        cleanup=lambda partition: made.append(f"-{partition}"),
        commit=lambda given: made.append(f"commit {len(given)}"),
    )
    listener.on_assigned(ALL[:2])
    listener.on_revoked(ALL[:2])
    listener.on_assigned(ALL[1:])
    assert made == ["+t-0", "+t-1", "commit 2", "-t-0", "+t-2"]


def test_state_of_a_cooperative_member_goes_with_its_partition() -> None:
    made: list[str] = []
    listener = StatefulListener(
        init=lambda partition: made.append(f"+{partition}"),
        cleanup=lambda partition: made.append(f"-{partition}"),
        is_cooperative=True,
    )
    listener.on_assigned(ALL)
    listener.on_revoked([ALL[2]])
    listener.on_assigned([])
    listener.on_lost(ALL[:2])
    assert made == ["+t-0", "+t-1", "+t-2", "-t-2", "-t-0", "-t-1"]


def test_asking_for_a_position_inside_a_callback_does_not_end_the_poll_around_it(world: World) -> None:
    world.cluster.produce(ALL[0], b"x")
    consumer, heard = a_member(world)
    seen: list[int] = []
    heard.do["assigned"] = lambda _partitions: seen.append(consumer.position(ALL[0]))
    assert [record.value for record in consumer.poll(1)] == [b"x"]
    assert seen == [0]


def test_a_rebalance_is_shown_with_its_cause_its_duration_and_what_moved() -> None:
    entry = Rebalance("first join", 0, [("join", 10), ("", 13)])
    assert repr(entry) == "<Rebalance (first join): running, no generation yet, 3 ms>"
    entry.generation_id, entry.gained, entry.outcome = (
        2,
        [TopicPartition("t", 0), TopicPartition("t", 1)],
        "done",
    )
    assert repr(entry) == "<Rebalance (first join): done, generation 2, 3 ms, gained t-0, t-1>"
