"""Calls that programs for other clients make, and what they are told where klamm differs."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.aio.consumer import Consumer as AsyncConsumer
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.foreign_names import INSTEAD
from klamm.client.consumer.records import Records
from klamm.errors import IllegalStateError, InvalidTopicError
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(T0, b"0", b"1", b"2")
    return world


def a_member(world: World, **settings: Any) -> Consumer:
    return world.consumer("t", group_id="g", **settings)


def test_consume_waits_for_that_many_records_or_the_time(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    assert [record.value for record in consumer.consume(2, timeout=5)] == [b"0", b"1"]
    began_ms = world.clock.now_ms()
    assert [record.value for record in consumer.consume(num_messages=2, timeout=0.5)] == [b"2"]
    assert 500 <= world.clock.now_ms() - began_ms < 1_500
    world.cluster.produce(T1, b"3")
    assert [record.value for record in consumer.consume(1, -1)] == [b"3"]
    with pytest.raises(ValueError, match="num_messages=0"):
        consumer.consume(0, 1)


def test_a_name_that_begins_with_a_caret_is_a_pattern_of_beginnings(world: World) -> None:
    for name in ("orders", "orders-eu", "my-orders", "plain"):
        world.cluster.create(name)
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.subscribe(["^orders", "plain"])
    world.settle(consumer, rounds=20)
    assert consumer.subscription() == {"orders", "orders-eu", "plain"}
    consumer.unsubscribe()
    consumer.subscribe(["^orders$"])
    world.settle(consumer, rounds=20)
    assert consumer.subscription() == {"orders"}
    consumer.unsubscribe()
    with pytest.raises(ValueError, match="not a regular expression"):
        consumer.subscribe(["^("])
    with pytest.raises(InvalidTopicError):
        consumer.subscribe(["^orders", "no name"])


def test_callbacks_may_take_the_consumer_too(world: World) -> None:
    heard: list[Any] = []
    consumer = world.consumer(group_id="g", enable_auto_commit=False)

    def on_assign(given: Consumer, assigned: list[TopicPartition]) -> None:
        heard.append((given is consumer, assigned))

    consumer.subscribe(["t"], on_assign=on_assign, on_revoke=heard.append)
    consumer.poll(1)
    consumer.close()
    assert heard == [(True, [T0, T1]), [T0, T1]]


@pytest.mark.parametrize("callback", [3, lambda: None, lambda a, b, c: None])
def test_a_callback_of_the_wrong_shape_is_refused_at_once(world: World, callback: Any) -> None:
    consumer = world.consumer(group_id="g")
    with pytest.raises(TypeError, match="on_assign"):
        consumer.subscribe(["t"], on_assign=callback)


@pytest.mark.parametrize(
    ("name", "says"),
    [("error", "for record in"), ("value", r"record\.value"), ("items", "by_partition"), ("get", "getmany")],
)
def test_records_say_how_they_differ_from_a_message_and_a_dictionary(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(Records(), name)
    assert not hasattr(Records(), "anything_else")


def test_a_message_is_committed_with_the_offset_after_it(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    first, *_ = consumer.poll(1)
    consumer.commit(message=first)
    assert world.cluster.group.committed == {T0: (1, -1, "")}
    with pytest.raises(ValueError, match="not both"):
        consumer.commit({T0: 1}, message=first)
    with pytest.raises(TypeError, match=r"a record that poll\(\) returned"):
        consumer.commit(message=b"no record")  # type: ignore[arg-type]  # what a user may do


def test_stored_offsets_are_what_an_automatic_commit_takes(world: World) -> None:
    consumer = a_member(world, enable_auto_offset_store=False)
    first, second, _ = consumer.poll(1)
    world.settle(consumer, rounds=60)
    assert world.cluster.group.committed == {}
    consumer.store_offsets(first)
    consumer.store_offsets(message=second)
    world.settle(consumer, rounds=60)
    assert world.cluster.group.committed == {T0: (2, -1, "")}
    consumer.store_offsets(offsets={T0: 3})
    consumer.close()
    assert world.cluster.group.committed == {T0: (3, -1, "")}


def test_storing_offsets_says_what_it_needs(world: World) -> None:
    consumer = a_member(world)
    (record, *_) = consumer.poll(1)
    with pytest.raises(IllegalStateError, match=r"enable\.auto\.offset\.store=false"):
        consumer.store_offsets(record)
    other = a_member(world, enable_auto_offset_store=False)
    with pytest.raises(IllegalStateError, match="not assigned"):
        other.store_offsets(record)
    with pytest.raises(ValueError, match="needs a message or offsets"):
        other.store_offsets()


def test_partitions_are_assigned_one_after_the_other(world: World) -> None:
    consumer = world.consumer(enable_auto_commit=False)
    consumer.incremental_assign([T0])
    assert len(consumer.poll(1)) == 3
    consumer.incremental_assign([T1])
    assert consumer.assignment() == {T0, T1}
    assert consumer.position(T0) == 3
    consumer.incremental_unassign([T0])
    assert consumer.assignment() == {T1}
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.incremental_unassign([T0])
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        a_member(world).incremental_assign([T0])


def test_topics_are_listed_and_none_is_created(world: World) -> None:
    world.cluster.create("u", 3)
    consumer = world.consumer()
    assert consumer.topics() == {"t", "u"}
    assert sorted(consumer.list_topics("u")["u"].partitions) == [0, 1, 2]
    assert consumer.list_topics("missing") == {}
    asked = [item for item in world.cluster.requests(ApiKey.METADATA) if item.topics is None or item.topics]
    assert not any(item.allow_auto_topic_creation for item in asked)


def test_iterating_ends_when_no_record_came_for_the_time_given(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False, consumer_timeout_ms=700)
    assert [record.value for record in consumer] == [b"0", b"1", b"2"]
    began_ms = world.clock.now_ms()
    with pytest.raises(StopIteration):
        next(consumer)
    assert list(consumer) == []
    assert 1_400 <= world.clock.now_ms() - began_ms < 2_500


def test_a_consumer_describes_itself(world: World) -> None:
    consumer = a_member(world, client_id="me", enable_auto_commit=False)
    assert repr(consumer) == "<klamm.Consumer me: group g unjoined, 0 partitions>"
    consumer.poll(1)
    assert repr(consumer) == "<klamm.Consumer me: group g stable, 2 partitions>"
    consumer.close()
    assert repr(consumer) == "<klamm.Consumer me: closed>"


def test_names_of_other_libraries_say_what_to_write(world: World) -> None:
    consumer: Any = a_member(world)
    for name, instead in (
        ("partitions_for_topic", "partitions_for"),
        ("get_watermark_offsets", "beginning_offsets"),
        ("memberid", "group_metadata"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': write {instead}"):
            getattr(consumer, name)
    with pytest.raises(AttributeError, match=r"no attribute 'other'$"):
        _ = consumer.other
    with pytest.raises(TypeError, match=r"write poll\(0\.5\), or getmany\(timeout_ms=500\)"):
        consumer.poll(timeout_ms=500, max_records=5)


def test_what_is_to_be_written_instead_exists() -> None:
    for instead in INSTEAD.values():
        for consumer in (Consumer, AsyncConsumer):
            assert hasattr(consumer, instead.split("(")[0])
