"""Batches reach their leader once and in order, or their futures say why not."""

from __future__ import annotations

from functools import partial

import pytest

from klamm.client.producer.batch import Batch
from klamm.client.producer.delivery import Delivery
from klamm.errors import BrokerError, BufferExhaustedError, KlammTimeoutError, RecordTooLargeError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.produce import BatchIndexAndErrorMessage
from unit.client.producer.world import T0, T1, World, header, values


def test_a_record_is_sent_at_once_and_its_future_tells_where_it_went() -> None:
    world = World()
    delivery = world.send("a")
    assert not delivery.done()
    world.answer(world.requests[0], base_offset=42)
    assert delivery.result(0).offset == 42
    assert delivery.result(0).timestamp_ms == 1000


def test_records_linger_and_share_a_batch() -> None:
    world = World(linger_ms=10)
    for value in "abc":
        world.send(value)
    assert world.requests == []
    world.advance(10)
    assert values(world.requests[0]) == ["a", "b", "c"]


def test_a_full_batch_does_not_linger() -> None:
    world = World(linger_ms=1000, batch_size=300)
    world.send("x" * 150)
    world.send("y" * 150)
    assert [values(item)[0][0] for item in world.requests] == ["x"]


def test_flushing_ends_the_linger() -> None:
    world = World(linger_ms=1000)
    world.send("a")
    world.accumulator.begin_flush()
    world.run()
    assert values(world.requests[0]) == ["a"]


def test_one_request_takes_one_batch_of_each_partition() -> None:
    world = World(linger_ms=5)
    world.send("a", T0)
    world.send("b", T1)
    world.advance(5)
    assert len(world.requests) == 1
    assert (values(world.requests[0], 0), values(world.requests[0], 1)) == (["a"], ["b"])


def introduced(world: World) -> World:
    """The leader of t-0 has acknowledged a record: it knows the producer, and several batches may follow."""
    world.send("hello")
    world.answer(world.requests[0])
    return world


def test_at_most_five_requests_are_in_flight() -> None:
    world = introduced(World(batch_size=0))
    for number in range(8):
        world.send(str(number))
    assert len(world.requests) == 5
    world.answer(world.requests[0])
    assert len(world.requests) == 5
    assert values(world.requests[-1]) == ["5"]


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    # A leader that does not know the producer would accept the second one if it has to refuse the first.
    world = World(batch_size=0)
    for number in range(3):
        world.send(str(number))
    (first,) = world.requests
    world.answer(first, ErrorCode.not_leader_or_follower)
    assert world.requests == []
    world.advance(1000)
    (again,) = world.requests
    assert (values(again), header(again).base_sequence) == (["0"], 0)
    world.answer(again)
    assert [(values(item), header(item).base_sequence) for item in world.requests] == [(["1"], 1), (["2"], 2)]


def test_the_first_batch_of_a_partition_goes_alone_again_after_an_error() -> None:
    # The topic may have been created again, and its leader does not know the producer.
    world = introduced(World(batch_size=0))
    world.send("a")
    world.answer(world.requests[0], ErrorCode.unknown_topic_or_partition)
    world.send("b")
    world.send("c")
    world.advance(1000)
    assert [values(item) for item in world.requests] == [["a"]]
    world.answer(world.requests[0])
    assert [values(item) for item in world.requests] == [["b"], ["c"]]


def test_batches_without_a_sequence_do_not_wait_for_the_first() -> None:
    world = World(batch_size=0, enable_idempotence=False)
    for number in range(3):
        world.send(str(number))
    assert len(world.requests) == 3


def test_sequences_follow_each_other_within_a_partition() -> None:
    world = introduced(World(batch_size=2000))
    for turn in range(3):
        world.send(f"{turn}a", run=False)
        world.send(f"{turn}b", run=False)
        world.advance(1)
    assert [header(item).base_sequence for item in world.requests] == [1, 3, 5]
    assert {header(item).producer_id for item in world.requests} == {4001}


def test_five_in_flight_and_the_first_fails_retriably_keep_their_order() -> None:
    world = introduced(World(batch_size=0))
    deliveries = [world.send(str(number)) for number in range(5)]
    first = world.requests[0]
    world.answer(first, ErrorCode.not_leader_or_follower)
    # What was in flight behind it is out of order for the broker, and comes back too.
    for _ in range(4):
        world.answer(world.requests[0], ErrorCode.out_of_order_sequence_number)
    log: list[str] = []
    for _ in range(20):
        if not world.requests:
            world.advance(1000)
        if len(log) == 5:
            break
        assert len(world.requests) == 1, "after a failure one batch goes at a time"
        assert header(world.requests[0]).base_sequence == 1 + len(log)
        log += values(world.requests[0])
        world.answer(world.requests[0], base_offset=len(log) - 1)
    assert log == ["0", "1", "2", "3", "4"]
    assert [delivery.result(0).offset for delivery in deliveries] == [0, 1, 2, 3, 4]


def test_a_new_leader_gets_nothing_before_the_former_one_has_answered() -> None:
    world = World(batch_size=0)
    world.send("a")
    (first,) = world.requests
    world.core.metadata.learn_brokers({2: ("127.0.0.1", 9093, None)})
    assert world.core.metadata.learn_leader(T0, 2, 1)
    world.send("b")
    assert world.requests == [first]
    world.answer(first)
    (second,) = world.requests
    assert second.link.address == ("127.0.0.1", 9093)
    assert (values(second), header(second).base_sequence) == (["b"], 1)


def test_a_lost_batch_goes_to_a_new_leader_before_the_next_one() -> None:
    world = World(batch_size=0)
    world.send("a")
    (lost,) = world.requests
    world.core.metadata.learn_brokers({2: ("127.0.0.1", 9093, None)})
    assert world.core.metadata.learn_leader(T0, 2, 1)
    world.send("b")
    world.transport.asked.remove(lost)
    lost.link.events.lost(None)
    log: list[str] = []
    for _ in range(20):
        if not world.requests:
            world.advance(1000)
            continue
        log += values(world.requests[0])
        world.answer(world.requests[0])
    assert log == ["a", "b"]


def test_an_answer_lost_after_the_append_is_a_duplicate_and_a_success() -> None:
    world = World()
    delivery = world.send("a")
    lost = world.requests[0]
    sent = header(lost)
    world.transport.asked.remove(lost)
    lost.link.events.lost(None)
    world.advance(1000)
    again = world.requests[0]
    assert (header(again).producer_id, header(again).base_sequence) == (sent.producer_id, sent.base_sequence)
    world.answer(again, ErrorCode.duplicate_sequence_number)
    assert delivery.result(0).offset == -1


def test_a_batch_that_the_broker_finds_too_large_is_split_in_order() -> None:
    world = World(linger_ms=5, batch_size=10_000)
    deliveries = [world.send(str(number), run=False) for number in range(10)]
    world.advance(5)
    world.answer(world.requests[0], ErrorCode.message_too_large)
    seen: list[str] = []
    while len(seen) < 10:
        request = world.requests[0]
        assert header(request).base_sequence == len(seen)
        base_offset = len(seen)
        seen += values(request)
        world.answer(request, base_offset=base_offset)
    assert seen == [str(number) for number in range(10)]
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(10))


def test_a_single_record_too_large_fails_with_its_error() -> None:
    world = World()
    delivery = world.send("a")
    world.answer(world.requests[0], ErrorCode.message_too_large)
    with pytest.raises(RecordTooLargeError):
        delivery.result(0)


def test_a_broker_down_longer_than_the_delivery_timeout_fails_the_future() -> None:
    world = World(delivery_timeout_ms=40_000)
    delivery = world.send("a")
    for _ in range(45):
        for asked in world.requests:
            world.transport.asked.remove(asked)
            asked.link.events.lost(ConnectionResetError(104, "reset"))
        world.advance(1000)
    assert isinstance(delivery.exception(0), KlammTimeoutError)
    assert "delivery.timeout.ms" in str(delivery.exception(0))


def test_after_a_lost_batch_the_partition_goes_on_with_a_new_epoch_from_zero() -> None:
    world = World(retries=1)
    lost = world.send("a")
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert isinstance(lost.exception(0), BrokerError)
    world.send("b", T1)
    world.send("c", T0)
    by_partition = {
        index: header(item, index)
        for item in world.requests
        for index in [part.index for topic in item.request.topic_data for part in topic.partition_data]
    }
    assert (by_partition[0].producer_epoch, by_partition[0].base_sequence) == (1, 0)
    assert (by_partition[1].producer_epoch, by_partition[1].base_sequence) == (0, 0)


def test_a_record_that_the_broker_names_fails_with_its_own_message() -> None:
    world = World(linger_ms=5)
    good, bad = world.send("a", run=False), world.send("b", run=False)
    world.advance(5)
    world.answer(
        world.requests[0],
        ErrorCode.invalid_record,
        record_errors=[BatchIndexAndErrorMessage(1, "no key")],
    )
    assert "no key" in str(bad.exception(0))
    assert "other records" in str(good.exception(0))


def test_without_acks_a_record_is_done_when_it_is_written() -> None:
    world = World(acks="0")
    assert world.send("a").result(0).offset == -1


def test_retries_run_out() -> None:
    world = World(retries=2)
    delivery = world.send("a")
    for _ in range(3):
        world.answer(world.requests[0], ErrorCode.not_enough_replicas)
        world.advance(1000)
    assert delivery.done()
    assert "NOT_ENOUGH_REPLICAS" in str(delivery.exception(0))


def test_a_full_buffer_blocks_and_then_says_so() -> None:
    world = World(buffer_memory=300, linger_ms=1000)
    world.send("x" * 200)
    with pytest.raises(BufferExhaustedError, match=r"buffer\.memory"):
        world.send("y" * 200)


def test_memory_comes_back_when_a_batch_is_settled() -> None:
    world = World(buffer_memory=300)
    for _ in range(5):
        delivery = world.send("x" * 200)
        world.answer(world.requests[0])
        assert delivery.exception(0) is None


def test_callbacks_run_in_send_order_and_one_that_raises_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(linger_ms=5)
    seen: list[str] = []

    def note(name: str, _delivery: Delivery) -> None:
        seen.append(name)
        if name == "a":
            raise RuntimeError("callback")

    for name in "abc":
        world.send(name, run=False).add_done_callback(partial(note, name))
    world.advance(5)
    world.answer(world.requests[0])
    assert seen == ["a", "b", "c"]
    assert ".note raised" in caplog.text


def test_a_producer_id_is_asked_for_only_when_there_is_something_to_send() -> None:
    world = World()
    assert world.next_producer_id == 4001
    world.send("a")
    assert world.next_producer_id == 4002


def test_a_record_that_arrives_while_its_batch_is_numbered_goes_into_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else the batch would be longer than its sequence says, and the next one's would be refused.
    world = introduced(World(batch_size=1_000_000))
    number = world.sender._sequences.number
    arrivals = ["b"]

    def with_an_arrival(batch: Batch, *, has_in_flight: bool) -> bool:
        numbered = number(batch, has_in_flight=has_in_flight)
        while arrivals:
            world.send(arrivals.pop(), run=False)
        return numbered

    monkeypatch.setattr(world.sender._sequences, "number", with_an_arrival)
    world.send("a")
    world.send("c")
    sent = [(header(item).base_sequence, values(item)) for item in world.requests]
    assert sent == [(1, ["a"]), (2, ["b"]), (3, ["c"])]


def test_a_record_is_late_on_time_while_the_producer_id_is_still_asked_for() -> None:
    world = World(delivery_timeout_ms=1000, request_timeout_ms=600, linger_ms=0)
    delivery = world.send("a", run=False)  # and nobody answers
    due_ms = world.core.tick(world.clock.now_ms())
    while due_ms is not None and not delivery.done() and world.clock.now_ms() < 100_000:
        world.clock.advance(max(1, due_ms - world.clock.now_ms()))
        due_ms = world.core.tick(world.clock.now_ms())
    assert isinstance(delivery.exception(0), KlammTimeoutError)
    assert world.clock.now_ms() <= 1100


def test_a_batch_is_not_opened_after_everything_has_failed() -> None:
    world = World()
    world.sender.die(BrokerError("no more", ErrorCode.cluster_authorization_failed))
    with pytest.raises(BrokerError, match="no more"):
        world.send("a")
    assert world.accumulator.record_count == 0
