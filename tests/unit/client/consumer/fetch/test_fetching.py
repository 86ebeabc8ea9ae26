"""Fetching: what is sent, what is kept, what is handed out."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.errors import (
    BrokerError,
    ProtocolError,
    RecordDeserializationError,
    TopicAuthorizationError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType, encode_marker
from unit.client.consumer.fake_cluster import BASE_PORT, partitions, topic_id
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


def a_reader(world: World, *assigned: TopicPartition, **settings: Any) -> Consumer[Any, Any]:
    consumer = world.consumer(**settings)
    consumer.assign(assigned or [T0])
    return consumer


def fetched(data: PartitionData, **fields: Any) -> FetchResponse:
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=topic_id("t"), partitions=[data])], **fields
    )


def fetches(world: World) -> list[FetchRequest]:
    return world.cluster.requests(ApiKey.FETCH)


def offsets_fetched(world: World) -> list[int]:
    return [
        item.fetch_offset
        for request in fetches(world)
        for topic in request.topics
        for item in topic.partitions
    ]


def test_what_is_buffered_is_handed_out_in_portions_before_more_is_fetched(world: World) -> None:
    world.cluster.produce(T0, *[b"x"] * 1200)
    consumer = a_reader(world)
    sizes = [len(consumer.poll(1)), len(consumer.poll(1))]
    world.pass_time(1)
    assert offsets_fetched(world) == [0]
    sizes.append(len(consumer.poll(1)))
    assert sizes == [500, 500, 200]
    world.pass_time(1)
    assert offsets_fetched(world) == [0, 1200]


def test_the_next_fetch_is_under_way_before_the_last_portion_is_decoded(world: World) -> None:
    world.cluster.produce(T0, b"x")
    consumer = a_reader(world)
    consumer.poll(1)
    world.pass_time(1)
    assert offsets_fetched(world)[-1] == 1


def test_a_paused_partition_keeps_what_was_fetched(world: World) -> None:
    world.cluster.produce(T0, b"kept")
    world.cluster.hold(ApiKey.FETCH)
    consumer = a_reader(world)
    consumer.poll(0.1)
    consumer.pause(T0)
    world.cluster.release(ApiKey.FETCH)
    assert len(consumer.poll(1)) == 0
    asked = offsets_fetched(world)
    consumer.resume(T0)
    assert [record.value for record in consumer.poll(0)] == [b"kept"]
    assert offsets_fetched(world) == asked == [0]


def test_a_paused_partition_does_not_hold_up_the_others(world: World) -> None:
    world.cluster.produce(T0, b"zero")
    world.cluster.produce(T1, b"one")
    consumer = a_reader(world, T0, T1)
    consumer.pause(T0)
    assert [record.value for record in consumer.poll(1)] == [b"one"]


def test_an_answer_for_a_position_that_was_left_is_dropped(world: World) -> None:
    world.cluster.produce(T0, b"0", b"1", b"2")
    world.cluster.hold(ApiKey.FETCH)
    consumer = a_reader(world)
    consumer.poll(0.1)
    consumer.seek(T0, 2)
    world.cluster.release(ApiKey.FETCH)
    assert [record.offset for record in consumer.poll(1)] == [2]


def test_an_answer_for_a_partition_that_went_away_is_dropped(world: World) -> None:
    world.cluster.produce(T0, b"0")
    world.cluster.produce(T1, b"1")
    world.cluster.hold(ApiKey.FETCH)
    consumer = a_reader(world)
    consumer.poll(0.1)
    consumer.assign([T1])
    world.cluster.release(ApiKey.FETCH)
    assert [record.value for record in consumer.poll(1)] == [b"1"]


def test_only_committed_transactions_are_read_and_the_position_moves_past_markers(world: World) -> None:
    log = world.cluster.log(T0)
    world.cluster.produce(T0, b"bad", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(marker(ControlType.ABORT, 7))
    world.cluster.produce(T0, b"good", producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    log.append(marker(ControlType.COMMIT, 7))
    log.aborted = [(7, 0)]
    consumer = a_reader(world, isolation_level="read_committed")
    assert [record.value for record in consumer.poll(1)] == [b"good"]
    assert fetches(world)[0].isolation_level == 1
    consumer.poll(0)
    assert consumer.position(T0) == 4


def marker(kind: ControlType, producer_id: int) -> bytes:
    return encode_marker(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1000
    )


def test_uncommitted_reading_sees_everything_but_the_markers(world: World) -> None:
    world.cluster.produce(T0, b"bad", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    world.cluster.log(T0).append(marker(ControlType.ABORT, 7))
    consumer = a_reader(world)
    assert [record.value for record in consumer.poll(1)] == [b"bad"]


def test_a_marker_alone_ends_a_poll_at_once(world: World) -> None:
    world.cluster.log(T0).append(marker(ControlType.COMMIT, 7))
    consumer = a_reader(world)
    began_ms = world.clock.now_ms()
    assert len(consumer.poll(10)) == 0
    assert world.clock.now_ms() - began_ms < 1000
    assert consumer.position(T0) == 1


def refuses_two(value: bytes | None) -> str:
    if value == b"2":
        raise ValueError("not this one")
    return (value or b"").decode()


def test_a_record_that_does_not_deserialize_is_raised_after_those_before_it_until_it_is_passed(
    world: World,
) -> None:
    world.cluster.produce(T0, b"0", b"1", b"2", b"3", b"4")
    consumer = a_reader(world, value_deserializer=refuses_two)
    assert [record.value for record in consumer.poll(1)] == ["0", "1"]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match=r"seek\(3\)") as caught:
            consumer.poll(1)
        assert (caught.value.partition, caught.value.offset, caught.value.value) == (T0, 2, b"2")
    assert consumer.position(T0) == 2
    consumer.seek(T0, 3)
    assert [record.value for record in consumer.poll(1)] == ["3", "4"]


def test_records_that_do_not_deserialize_can_be_skipped_or_handled(world: World) -> None:
    world.cluster.produce(T0, b"1", b"2", b"3")
    skipping = a_reader(world, value_deserializer=refuses_two, on_deserialize_error="skip")
    assert [record.value for record in skipping.poll(1)] == ["1", "3"]
    seen: list[Any] = []
    handling = a_reader(world, value_deserializer=refuses_two, on_deserialize_error=seen.append)
    assert [record.value for record in handling.poll(1)] == ["1", "3"]
    assert [error.offset for error in seen] == [1]


def test_a_follower_that_is_behind_sends_us_back_to_the_leader_at_the_same_offset(world: World) -> None:
    world.cluster.racks = {1: "a", 2: "b"}
    world.cluster.produce(T0, b"x")
    out_of_range = PartitionData(partition_index=0, error_code=ErrorCode.offset_out_of_range)
    prefers = PartitionData(partition_index=0, high_watermark=1, preferred_read_replica=2)
    world.cluster.answer_once(ApiKey.FETCH, fetched(prefers), fetched(out_of_range))
    consumer = a_reader(world, client_rack="b")
    assert [record.offset for record in consumer.poll(1)] == [0]
    asked = [asked for asked in world.cluster.asked if asked.api_key is ApiKey.FETCH]
    assert [item.link.address[1] - BASE_PORT for item in asked[:3]] == [1, 2, 1]
    assert asked[0].request.rack_id == "b"
    assert offsets_fetched(world)[:3] == [0, 0, 0]


def test_a_new_leader_named_in_the_answer_is_used_at_once(world: World) -> None:
    world.cluster.produce(T0, b"x")
    moved = PartitionData(
        partition_index=0,
        error_code=ErrorCode.not_leader_or_follower,
        current_leader=LeaderIdAndEpoch(3, 5),
    )

    def answer(_request: FetchRequest) -> FetchResponse:
        world.cluster.hold(ApiKey.METADATA)  # nobody else tells us
        return fetched(moved, node_endpoints=[NodeEndpoint(3, "127.0.0.1", BASE_PORT + 3, None)])

    world.cluster.answer_once(ApiKey.FETCH, answer)
    consumer = a_reader(world)
    assert [record.value for record in consumer.poll(1)] == [b"x"]
    asked = [asked for asked in world.cluster.asked if asked.api_key is ApiKey.FETCH]
    assert asked[1].link.address[1] == BASE_PORT + 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_server_error,
    ],
)
def test_a_partition_that_cannot_be_read_now_is_read_a_little_later(world: World, code: ErrorCode) -> None:
    world.cluster.produce(T0, b"x")
    world.cluster.answer_once(ApiKey.FETCH, fetched(PartitionData(partition_index=0, error_code=code)))
    consumer = a_reader(world)
    assert len(consumer.poll(1)) == 1
    assert len(fetches(world)) >= 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    ],
)
def test_a_session_that_the_broker_does_not_know_begins_anew(world: World, code: ErrorCode) -> None:
    world.cluster.produce(T0, b"x")
    world.cluster.answer_once(ApiKey.FETCH, FetchResponse(error_code=code))
    consumer = a_reader(world)
    assert len(consumer.poll(1)) == 1
    assert fetches(world)[1].session_epoch == 0


def test_other_errors_are_raised_after_the_records_before_them_and_the_position_stays(world: World) -> None:
    world.cluster.produce(T1, b"fine")
    consumer = a_reader(world, T0, T1)

    def both(request: FetchRequest) -> FetchResponse:
        fine = PartitionData(partition_index=1, high_watermark=1, records=world.cluster.log(T1).read(0))
        bad = PartitionData(partition_index=0, error_code=ErrorCode.topic_authorization_failed)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic_id=topic_id("t"), partitions=[fine, bad])]
        )

    world.cluster.answer_once(ApiKey.FETCH, both)
    assert [record.value for record in consumer.poll(1)] == [b"fine"]
    with pytest.raises(TopicAuthorizationError, match="t-0"):
        consumer.poll(1)
    assert consumer.position(T0) == 0


def test_a_code_that_nobody_knows_is_raised(world: World) -> None:
    world.cluster.answer_once(ApiKey.FETCH, fetched(PartitionData(partition_index=0, error_code=999)))
    consumer = a_reader(world)
    with pytest.raises(BrokerError, match="999"):
        consumer.poll(1)


@pytest.mark.parametrize("checks", [True, False])
def test_a_damaged_batch_is_raised_after_the_good_ones(world: World, checks: bool) -> None:
    world.cluster.produce(T0, b"good")
    world.cluster.produce(T0, b"bad!")
    log = world.cluster.log(T0)
    damaged = bytearray(log.batches[1])
    damaged[-3] ^= 0xFF if checks else 0
    damaged[16] = 2 if checks else 9  # a magic that does not exist
    log.batches[1] = bytes(damaged)
    world.cluster.answer_once(
        ApiKey.FETCH,
        *[fetched(PartitionData(partition_index=0, high_watermark=2, records=b"".join(log.batches)))] * 2,
    )
    consumer = a_reader(world, check_crcs=checks)
    assert [record.value for record in consumer.poll(1)] == [b"good"]
    with pytest.raises(ProtocolError, match="damaged"):
        consumer.poll(1)
    assert consumer.position(T0) == 1


def test_a_batch_that_does_not_fit_says_what_to_raise(world: World) -> None:
    world.cluster.produce(T0, b"x" * 100)
    half = world.cluster.log(T0).read(0)[:80]
    world.cluster.answer_once(
        ApiKey.FETCH, fetched(PartitionData(partition_index=0, high_watermark=1, records=half))
    )
    consumer = a_reader(world)
    with pytest.raises(BrokerError, match=r"max\.partition\.fetch\.bytes"):
        consumer.poll(1)


def test_a_broker_that_asks_for_a_pause_gets_it(world: World) -> None:
    world.cluster.answer_once(ApiKey.FETCH, FetchResponse(throttle_time_ms=5_000))
    consumer = a_reader(world)
    consumer.poll(4)
    assert len(fetches(world)) == 1
    world.cluster.produce(T0, b"x")
    assert len(consumer.poll(3)) == 1


def test_one_request_is_in_flight_per_broker(world: World) -> None:
    world.cluster.create("u", 1)
    world.cluster.hold(ApiKey.FETCH)
    consumer = a_reader(world, T0)
    consumer.poll(0.1)
    consumer.assign([T0, TopicPartition("u", 0)])
    consumer.poll(0.1)
    assert len(fetches(world)) == 1


def test_a_lost_connection_fetches_again(world: World) -> None:
    world.cluster.hold(ApiKey.FETCH)
    consumer = a_reader(world)
    consumer.poll(0.1)
    world.cluster.held[ApiKey.FETCH].pop().link.events.lost(None)
    world.cluster.release(ApiKey.FETCH)
    world.cluster.produce(T0, b"x")
    assert len(consumer.poll(2)) == 1


def test_records_come_one_by_one_and_positions_follow(world: World) -> None:
    world.cluster.produce(T0, b"0", b"1", b"2")
    consumer = a_reader(world)
    for record in consumer:
        assert consumer.position(T0) == record.offset + 1
        if record.offset == 2:
            break
    assert consumer.getone(timeout=0) is None


def test_a_commit_in_the_middle_of_an_iteration_takes_only_what_was_handed_out(world: World) -> None:
    world.cluster.produce(T0, b"0", b"1")
    world.cluster.produce(T0, b"2", b"3")
    consumer = a_reader(world, group_id="g")
    values = []
    for record in consumer:
        values.append(record.value)
        consumer.commit()
        assert world.cluster.group.committed[T0][0] == len(values)
        if len(values) == 4:
            break
    assert values == [b"0", b"1", b"2", b"3"]
    assert offsets_fetched(world)[0] == 0


def test_seeking_in_the_middle_of_an_iteration_goes_there(world: World) -> None:
    world.cluster.produce(T0, *[b"%d" % number for number in range(10)])
    consumer = a_reader(world)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 1:
            consumer.seek(T0, 8)
        if record.offset == 9:
            break
    assert seen == [0, 1, 8, 9]


def test_getmany_gives_lists_by_partition_and_can_be_limited_to_some(world: World) -> None:
    world.cluster.produce(T0, b"zero")
    world.cluster.produce(T1, b"one")
    consumer = a_reader(world, T0, T1)
    (only,) = consumer.getmany(T1, timeout_ms=1000).items()
    assert only[0] == T1
    assert consumer.paused() == set()
    rest = consumer.getmany(timeout_ms=1000)
    assert {key: [record.value for record in records] for key, records in rest.items()} == {T0: [b"zero"]}


def test_a_poll_may_ask_for_fewer(world: World) -> None:
    world.cluster.produce(T0, b"0", b"1", b"2")
    consumer = a_reader(world)
    assert len(consumer.poll(1, max_records=2)) == 2
    assert len(consumer.poll(1)) == 1
    with pytest.raises(ValueError, match="max_records"):
        consumer.poll(1, max_records=0)


def test_records_know_where_they_come_from(world: World) -> None:
    world.cluster.produce(T0, b"x")
    consumer = a_reader(world)
    records = consumer.poll(1)
    (record,) = records
    assert record.topic_partition == T0
    assert (record.offset, record.timestamp, record.timestamp_type, record.leader_epoch) == (0, 1000, 0, 0)
    assert records.of(T0) == [record]
    assert records.of(T1) == []
    assert records.by_partition() == {T0: [record]}
    assert repr(records) == "<1 records of t-0>"


def test_closing_ends_the_fetch_sessions(world: World) -> None:
    def answer(_request: FetchRequest) -> FetchResponse:
        world.cluster.hold(ApiKey.FETCH)
        return FetchResponse(session_id=77)

    world.cluster.answer_once(ApiKey.FETCH, answer)
    consumer = a_reader(world)
    consumer.poll(1)
    host = world.hosts[0]
    consumer.close()
    last = host.transport.arriving[-1]
    assert last.api_key is ApiKey.FETCH
    assert (last.request.session_id, last.request.session_epoch) == (77, -1)
