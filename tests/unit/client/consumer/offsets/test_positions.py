"""Where a partition is read from: committed, reset, sought, validated."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from klamm.client.committed import Committed
from klamm.errors import (
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(T0, b"0", b"1", b"2", b"3", b"4")
    return world


def listed(offset: int, code: int = 0) -> ListOffsetsResponse:
    item = ListOffsetsPartitionResponse(0, code, -1, offset, 0)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [item])])


def committed_answer(code: int) -> OffsetFetchResponse:
    item = OffsetFetchResponsePartitions(0, 2, -1, "", code)
    topics = [OffsetFetchResponseTopics(name="t", partitions=[item])]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])


def test_reading_goes_on_where_the_group_committed(world: World) -> None:
    world.cluster.group.commit(T0, 3)
    consumer = world.consumer("t", group_id="g")
    assert [record.offset for record in consumer.poll(1)] == [3, 4]


@pytest.mark.parametrize(("policy", "position"), [("earliest", 0), ("latest", 5)])
def test_without_a_commit_the_reset_policy_decides(world: World, policy: str, position: int) -> None:
    consumer = world.consumer(group_id="g", auto_offset_reset=policy)
    consumer.assign([T0])
    assert consumer.position(T0) == position


def test_without_a_commit_and_a_policy_all_partitions_are_named(world: World) -> None:
    consumer = world.consumer("t", group_id="g", auto_offset_reset="none")
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError) as caught:
            consumer.poll(1)
        assert caught.value.partitions == [T0, T1]
    consumer.seek(T0, 4)
    consumer.seek(T1, 0)
    assert [record.offset for record in consumer.poll(1)] == [4]


def test_a_seek_during_a_reset_wins_over_its_late_answer(world: World) -> None:
    world.cluster.hold(ApiKey.LIST_OFFSETS)
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.poll(0.1)
    consumer.seek(T0, 3)
    (late,) = world.cluster.held[ApiKey.LIST_OFFSETS]
    world.cluster.reply(late, listed(0))
    assert [record.offset for record in consumer.poll(1)] == [3, 4]


def test_a_second_reset_wins_over_the_answer_to_the_first(world: World) -> None:
    world.cluster.hold(ApiKey.LIST_OFFSETS)
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.poll(0.1)
    consumer.seek_to_end(T0)
    (late,) = world.cluster.held[ApiKey.LIST_OFFSETS]
    world.cluster.reply(late, listed(0))
    world.cluster.held.clear()
    world.cluster.release(ApiKey.LIST_OFFSETS)
    assert consumer.position(T0) == 5


def test_a_lookup_that_fails_is_repeated_with_newer_metadata(world: World) -> None:
    world.cluster.answer_once(ApiKey.LIST_OFFSETS, listed(-1, ErrorCode.not_leader_or_follower))
    consumer = world.consumer()
    consumer.assign([T0])
    asked = len(world.cluster.requests(ApiKey.METADATA))
    assert len(consumer.poll(1)) == 5
    assert len(world.cluster.requests(ApiKey.METADATA)) > asked


def test_a_lookup_without_the_right_to_the_topic_is_raised(world: World) -> None:
    world.cluster.answer_once(ApiKey.LIST_OFFSETS, listed(-1, ErrorCode.topic_authorization_failed))
    consumer = world.consumer()
    consumer.assign([T0])
    with pytest.raises(TopicAuthorizationError):
        consumer.poll(1)
    assert len(consumer.poll(1)) == 5


def test_an_offset_in_a_pending_transaction_is_waited_for(world: World) -> None:
    unstable = committed_answer(ErrorCode.unstable_offset_commit)
    world.cluster.answer_once(ApiKey.OFFSET_FETCH, unstable, unstable)
    world.cluster.group.commit(T0, 2)
    consumer = world.consumer(group_id="g")
    consumer.assign([T0])
    assert consumer.position(T0) == 2
    requests = world.cluster.requests(ApiKey.OFFSET_FETCH)
    assert len(requests) == 3
    assert all(request.require_stable for request in requests)


def test_a_committed_offset_of_an_unknown_partition_is_an_error(world: World) -> None:
    world.cluster.answer_once(ApiKey.OFFSET_FETCH, committed_answer(ErrorCode.unknown_topic_or_partition))
    consumer = world.consumer(group_id="g")
    with pytest.raises(Exception, match="does not exist"):
        consumer.committed([T0])


def test_out_of_range_goes_where_the_policy_says(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.seek(T0, 99)
    assert [record.offset for record in consumer.poll(1)] == [0, 1, 2, 3, 4]


def test_out_of_range_without_a_policy_is_raised(world: World) -> None:
    consumer = world.consumer(auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 99)
    with pytest.raises(OffsetOutOfRangeError, match="t-0 at 99") as caught:
        consumer.poll(1)
    assert caught.value.offsets == {T0: 99}
    assert consumer.position(T0) == 99


@pytest.mark.parametrize(("policy", "reads"), [("earliest", [2]), ("none", None)])
def test_a_log_cut_below_the_position_by_a_new_leader(
    world: World, policy: str, reads: list[int] | None
) -> None:
    consumer = world.consumer(auto_offset_reset="earliest" if policy == "earliest" else "none")
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert len(consumer.poll(1)) == 5
    log = world.cluster.log(T0)
    log.batches, log.next_offset = [], 2
    log.leader_epoch, log.epoch_ends = 1, {0: 2}
    world.cluster.produce(T0, b"other")
    world.pass_time(301_000)
    if reads is None:
        with pytest.raises(LogTruncationError) as caught:
            consumer.poll(2)
        assert caught.value.divergent == {T0: 2}
    else:
        assert [record.offset for record in consumer.poll(2)] == reads


def test_a_new_leader_that_has_everything_changes_nothing(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.poll(1)
    log = world.cluster.log(T0)
    log.leader_epoch, log.epoch_ends = 1, {0: 5}
    world.cluster.produce(T0, b"5")
    world.pass_time(301_000)
    assert [record.offset for record in consumer.poll(2)] == [5]
    assert len(world.cluster.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)) >= 1


def test_a_new_leader_that_does_not_know_the_epoch_resets_by_policy(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.poll(1)
    world.cluster.log(T0).leader_epoch = 7
    world.pass_time(301_000)
    assert [record.offset for record in consumer.poll(2)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("start", "position"),
    [(3, 3), ("latest", 5), ("earliest", 0), ({T0: 4}, 4), ({T1: 4}, 1)],
)
def test_a_consumer_may_start_elsewhere_than_committed(world: World, start: object, position: int) -> None:
    world.cluster.group.commit(T0, 1)
    consumer = world.consumer(group_id="g", start_at=start)
    consumer.assign([T0])
    assert consumer.position(T0) == position


def test_a_start_by_time_is_looked_up_and_applied_once(world: World) -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    world.cluster.answer_once(ApiKey.LIST_OFFSETS, listed(2))
    consumer = world.consumer(group_id="g", start_at=moment)
    consumer.assign([T0])
    assert consumer.position(T0) == 2
    (request,) = world.cluster.requests(ApiKey.LIST_OFFSETS)
    assert request.topics[0].partitions[0].timestamp == 1_704_067_200_000
    world.cluster.group.commit(T0, 4)
    consumer.assign([T1])
    consumer.assign([T0])
    assert consumer.position(T0) == 4


def test_a_committed_offset_with_an_epoch_is_validated_first(world: World) -> None:
    world.cluster.group.commit(T0, 3, 0)
    consumer = world.consumer(group_id="g")
    consumer.assign([T0])
    assert consumer.position(T0) == 3
    assert len(world.cluster.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)) == 1


def test_seeking_back_to_what_was_committed(world: World) -> None:
    consumer = world.consumer(group_id="g")
    consumer.assign([T0])
    consumer.poll(1)
    consumer.commit({T0: Committed(2, -1, "half way")})
    consumer.seek_to_committed(T0)
    assert [record.offset for record in consumer.poll(1)] == [2, 3, 4]
    assert consumer.committed([T0, T1]) == {T0: Committed(2, -1, "half way"), T1: None}


def test_edges_of_a_topic_that_the_client_does_not_know_yet_need_no_pause(world: World) -> None:
    began_ms = world.clock.now_ms()
    assert world.consumer().end_offsets([T0]) == {T0: 5}
    assert world.clock.now_ms() == began_ms


def test_edges_and_times_of_partitions_that_are_not_assigned(world: World) -> None:
    consumer = world.consumer()
    assert consumer.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
    assert consumer.end_offsets([T0, T1]) == {T0: 5, T1: 0}

    def found(request: ListOffsetsRequest) -> ListOffsetsResponse:
        assert request.topics[0].partitions[0].timestamp == 1234
        return listed(2)

    world.cluster.answer_once(ApiKey.LIST_OFFSETS, found, listed(-1))
    first = consumer.offsets_for_times({T0: 1234})[T0]
    assert first is not None
    assert first.offset == 2
    assert consumer.offsets_for_times({T0: 99}) == {T0: None}


def test_lag_is_known_after_a_fetch(world: World) -> None:
    consumer = world.consumer(max_poll_records=2)
    assert consumer.metrics()["records_lag"] is None  # nothing is assigned, so that nothing is read
    consumer.assign([T0])
    assert consumer.lag(T0) is None
    assert consumer.metrics()["records_lag"] is None
    assert consumer.metrics()["records_lag_max"] is None
    assert consumer.metrics()["partitions_without_lag"] == 1
    consumer.poll(1)
    assert consumer.lag(T0) == 3
    assert consumer.metrics()["records_lag"] == 3
    assert consumer.metrics()["partitions_without_lag"] == 0


def test_partitions_of_a_topic_can_be_asked_for(world: World) -> None:
    consumer = world.consumer()
    assert consumer.partitions_for("t") == [T0, T1]
    assert consumer.partitions_for("nosuch") == []
    assert TopicPartition("t", 0) == T0
