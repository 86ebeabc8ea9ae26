"""Records find their batch, batches their memory, and failures whoever flushes."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from klamm.client.producer.delivery import Delivery
from klamm.errors import RecordTooLargeError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from unit.client.producer.world import T0, World, values


def keyless(world: World, value: bytes) -> Delivery:
    topic = world.core.metadata.cluster.topics["t"]
    return world.accumulator.append(topic, None, (1000, None, value, ()))


def quickly(world: World, key: bytes | None) -> Delivery | None:
    """A record on the short path: into an open batch, or nowhere."""
    if key is None:
        return world.accumulator.append_keyless("t", 1000, None, b"x")
    return world.accumulator.append_keyed(("t", 0), 1000, key, b"x")


def partition_of(delivery: Delivery) -> TopicPartition:
    return delivery._batch.partition


def test_the_sender_is_woken_once_a_batch_not_once_a_record() -> None:
    world = World(linger_ms=1000)
    before = world.wakes
    for _ in range(50):
        world.send("x", run=False)
    assert world.wakes == before + 1


def test_records_without_a_key_stay_together_until_the_batch_is_full() -> None:
    world = World(linger_ms=1000, batch_size=1000)
    batches = Counter(keyless(world, b"x" * 90)._batch for _ in range(90))
    assert set(batches.values()) == {9}
    assert {batch.partition.partition for batch in batches} == {0, 1}


def test_records_without_a_key_join_a_batch_that_records_with_keys_opened() -> None:
    world = World(linger_ms=1000)
    opened = {world.send("keyed", TopicPartition("t", number), run=False)._batch for number in (0, 1)}
    assert keyless(world, b"x")._batch in opened


def test_memory_that_a_batch_did_not_need_comes_back_when_it_is_sent() -> None:
    world = World(buffer_memory=40_000, batch_size=16_384)
    world.send("small")
    world.answer(world.requests[0])  # the first one goes alone
    for _ in range(5):  # five reservations would be more than there is
        world.send("small")
    assert len(world.requests) == 5


@pytest.mark.parametrize("headers", [(("name", "text"),), ((7, b"x"),)])
def test_a_header_of_the_wrong_kind_is_refused_and_nothing_is_sent(headers: object) -> None:
    world = World()
    topic = world.core.metadata.cluster.topics["t"]
    with pytest.raises((TypeError, AttributeError)):
        world.accumulator.append(topic, 0, (1000, None, b"x", headers))  # type: ignore[arg-type]  # on purpose
    world.run()
    assert world.requests == []
    world.send("good")
    assert values(world.requests[0]) == ["good"]


@pytest.mark.parametrize("limit", ["max.request.size", "buffer.memory"])
def test_a_record_larger_than_a_limit_is_refused_by_name(limit: str) -> None:
    world = World(**{limit.replace(".", "_"): 1000})
    with pytest.raises(RecordTooLargeError, match=limit):
        world.send("x" * 1000)
    assert world.accumulator.begin_flush() == []


def test_a_failure_before_the_flush_is_told_by_the_flush_and_only_once() -> None:
    world = World()
    world.send("a")
    world.answer(world.requests[0], ErrorCode.invalid_record)
    told = world.accumulator.begin_flush()
    assert [len(batch.unseen_failures()) for batch in told] == [1]
    world.accumulator.end_flush(told)
    assert world.accumulator.begin_flush() == []


def test_a_failure_during_the_flush_is_told_once() -> None:
    world = World()
    world.send("a")
    waited_for = world.accumulator.begin_flush()
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert [len(batch.unseen_failures()) for batch in waited_for] == [1]
    world.accumulator.end_flush(waited_for)
    assert world.accumulator.begin_flush() == []


def test_a_failure_that_was_looked_at_is_no_news() -> None:
    world = World(linger_ms=5)
    seen, unseen = world.send("a", run=False), world.send("b", run=False)
    world.advance(5)
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert seen.exception(0) is not None
    [batch] = world.accumulator.begin_flush()
    assert len(batch.unseen_failures()) == 1
    assert unseen.exception(0) is not None
    assert batch.unseen_failures() == []


def test_failures_of_a_split_batch_are_told_but_for_those_looked_at() -> None:
    world = World(linger_ms=5, batch_size=10_000)
    deliveries = [world.send(str(number), run=False) for number in range(10)]
    world.advance(5)
    world.answer(world.requests[0], ErrorCode.message_too_large)
    while world.requests:
        world.answer(world.requests[0], ErrorCode.invalid_record)
    assert deliveries[3].exception(0) is not None
    told = world.accumulator.begin_flush()
    assert sum(len(batch.unseen_failures()) for batch in told) == 9


def test_a_future_keeps_no_bytes_of_its_record() -> None:
    world = World()
    delivery = world.send("x" * 5000)
    world.answer(world.requests[0], base_offset=7)
    assert delivery._batch.builder.size_bytes == 0
    assert delivery.result(0) == ("t", 0, 7, 1000)
    assert partition_of(delivery) == T0


@pytest.mark.parametrize("key", [None, b"key"])
def test_the_short_path_ends_with_the_batch(key: bytes | None) -> None:
    world = World(linger_ms=1000)
    assert quickly(world, key) is None  # nothing is open
    topic = world.core.metadata.cluster.topics["t"]
    first = world.accumulator.append(topic, None if key is None else 0, (1000, key, b"x", ()))
    second = quickly(world, key)
    assert second is not None
    assert (second._batch, second._index) == (first._batch, 1)
    world.accumulator.take(first.partition)
    assert quickly(world, key) is None
    assert first._batch.record_count == 2


def test_records_of_several_threads_each_have_their_own_place() -> None:
    world = World(linger_ms=1000, batch_size=1_000_000)
    first = keyless(world, b"x")
    places: list[int] = []

    def add() -> None:
        found = [quickly(world, None) for _ in range(2000)]
        places.extend(item._index for item in found if item is not None)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(1, 8001))
    assert first._batch.record_count == 8001
