"""Subscribing, assigning, and what makes no sense."""

from __future__ import annotations

import re
from typing import Any

import pytest

from klamm.client.consumer.group.listener import RebalanceListener
from klamm.errors import IllegalStateError, InvalidGroupIdError
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.world import Heard, World

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


def test_partitions_cannot_be_assigned_to_a_subscriber_and_nothing_changes(world: World) -> None:
    heard = Heard()
    consumer = world.consumer(group_id="g")
    consumer.subscribe(["t"], heard)
    with pytest.raises(IllegalStateError, match=r"unsubscribe\(\)"):
        consumer.assign([T0])
    assert consumer.subscription() == {"t"}
    consumer.poll(1)
    assert heard.calls == [("assigned", [T0, TopicPartition("t", 1)])]


def test_subscribing_to_nothing_leaves_the_group(world: World) -> None:
    heard = Heard()
    consumer = world.consumer(group_id="g")
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    heard.take()
    consumer.subscribe([])
    assert heard.take() == [("revoked", [T0, TopicPartition("t", 1)])]
    assert len(world.cluster.requests(ApiKey.LEAVE_GROUP)) == 1
    assert consumer.assignment() == set()
    consumer.assign([T0])


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ("t", TypeError),
        (None, ValueError),
        ([""], ValueError),
        (["  "], ValueError),
        ([None], TypeError),
        ([7], TypeError),
    ],
)
def test_topics_are_a_list_of_names(world: World, topics: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        world.consumer(group_id="g").subscribe(topics)


def test_a_pattern_stands_alone_and_is_not_empty(world: World) -> None:
    consumer = world.consumer(group_id="g")
    for arguments in ({"topics": ["t"], "pattern": "t"}, {"pattern": ""}, {}):
        with pytest.raises(ValueError, match=r"pattern"):
            consumer.subscribe(**arguments)
    with pytest.raises(TypeError):
        consumer.subscribe(pattern=re.compile(b"t"))
    with pytest.raises(TypeError):
        consumer.subscribe(["t"], object())  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("partitions", [None, "t", [("t",)], [("t", "0")], [3]])
def test_partitions_are_a_list_of_topic_partitions(world: World, partitions: Any) -> None:
    with pytest.raises(TypeError):
        world.consumer().assign(partitions)


def test_without_a_group_one_can_assign_but_not_subscribe(world: World) -> None:
    world.cluster.produce(T0, b"one")
    consumer = world.consumer()
    for call in (
        lambda: consumer.subscribe(["t"]),
        consumer.commit_sync,
        consumer.commit_async,
        lambda: consumer.committed([T0]),
        consumer.group_metadata,
    ):
        with pytest.raises(InvalidGroupIdError):
            call()
    consumer.assign([T0])
    assert [record.value for record in consumer.poll(1)] == [b"one"]
    assert world.cluster.requests(ApiKey.FIND_COORDINATOR) == []


def test_polling_nothing_is_an_error(world: World) -> None:
    with pytest.raises(IllegalStateError, match="subscribe"):
        world.consumer().poll(0)


def test_an_unassigned_partition_is_named_together_with_what_is_assigned(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0])
    stranger = TopicPartition("u", 3)
    for call in (
        lambda: consumer.position(stranger),
        lambda: consumer.seek(stranger, 0),
        lambda: consumer.seek_to_end(stranger),
        lambda: consumer.pause(stranger),
        lambda: consumer.resume(stranger),
    ):
        with pytest.raises(IllegalStateError, match=r"u-3.*t-0"):
            call()


def test_negative_offsets_times_and_timeouts_are_refused(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0])
    for call in (
        lambda: consumer.seek(T0, -1),
        lambda: consumer.offsets_for_times({T0: -1}),
        lambda: consumer.poll(-1),
    ):
        with pytest.raises(ValueError, match="-1"):
            call()


def test_assigning_again_keeps_the_position_and_the_pause_of_what_stays(world: World) -> None:
    world.cluster.produce(T0, b"one", b"two")
    consumer = world.consumer()
    consumer.assign([T0])
    consumer.poll(1)
    consumer.pause(T0)
    consumer.assign([T0, TopicPartition("t", 1)])
    assert consumer.position(T0) == 2
    assert consumer.paused() == {T0}


def test_an_empty_list_of_assignors_cannot_subscribe(world: World) -> None:
    consumer = world.consumer(group_id="g", partition_assignment_strategy=[])
    with pytest.raises(IllegalStateError, match=r"partition\.assignment\.strategy"):
        consumer.subscribe(["t"])


def test_a_closed_consumer_refuses_everything_but_closing(world: World) -> None:
    consumer = world.consumer(group_id="g")
    consumer.subscribe(["t"])
    consumer.poll(1)
    consumer.close()
    consumer.close()
    for call in (
        lambda: consumer.poll(0),
        consumer.assignment,
        lambda: consumer.subscribe(["t"]),
        lambda: next(iter(consumer)),
        consumer.getone,
    ):
        with pytest.raises(IllegalStateError, match="closed"):
            call()


def test_a_listener_may_be_plain_functions(world: World) -> None:
    got: list[Any] = []
    consumer = world.consumer(group_id="g")
    consumer.subscribe(["t"], on_assign=got.append)
    consumer.poll(1)
    assert got == [[T0, TopicPartition("t", 1)]]
    with pytest.raises(ValueError, match="not both"):
        consumer.subscribe(["t"], RebalanceListener(), on_assign=got.append)


def test_asking_what_is_assigned_takes_no_records_back(world: World) -> None:
    world.cluster.produce(T0, b"0", b"1", b"2")
    consumer = world.consumer("t", group_id="g", auto_offset_reset="earliest")
    assert next(iter(consumer)).value == b"0"
    handed_out = consumer._handout.records
    assert consumer.assignment() == {T0, TopicPartition("t", 1)}
    assert consumer.subscription() == {"t"}
    record = consumer.getone(0)
    assert record is not None
    assert record.value == b"1"
    assert consumer._handout.records is handed_out
