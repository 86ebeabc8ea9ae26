"""Fetching ahead of the reader: how far, and that nobody waits behind a partition where nothing happens."""

from __future__ import annotations

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.fetch.fetching import fetch_node
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])
BATCH = 10


@pytest.fixture
def world() -> World:
    """T0 has twenty batches of ten records, one for each fetch; T1 has nothing."""
    world = World()
    world.cluster.create("t", 2)
    fill(world, T0)
    return world


def fill(world: World, partition: TopicPartition) -> None:
    world.cluster.log(partition).batches_per_fetch = 1
    for start in range(0, 200, BATCH):
        world.cluster.produce(partition, *[b"%d" % number for number in range(start, start + BATCH)])


def asked(world: World, partition: TopicPartition) -> list[int]:
    return [
        item.fetch_offset
        for request in world.cluster.requests(ApiKey.FETCH)
        for topic in request.topics
        for item in topic.partitions
        if item.partition == partition.partition
    ]


def a_reader(world: World, *assigned: TopicPartition, **settings: object) -> Consumer:
    consumer = world.consumer(**settings)
    consumer.assign(assigned or [T0])
    return consumer


def test_one_fetch_is_read_while_the_next_is_under_way_and_no_more_than_that(world: World) -> None:
    consumer = a_reader(world)
    assert len(consumer.poll(1, max_records=1)) == 1
    world.pass_time(5)
    assert asked(world, T0) == [0, BATCH]
    consumer.poll(1, max_records=BATCH - 2)
    world.pass_time(5)
    assert asked(world, T0) == [0, BATCH], "two are here already"
    consumer.poll(1, max_records=1)
    consumer.poll(1, max_records=1)
    world.pass_time(5)
    assert asked(world, T0) == [0, BATCH, 2 * BATCH]


def test_no_offset_is_fetched_twice_and_every_record_comes_once_in_order(world: World) -> None:
    consumer = a_reader(world, max_poll_records=7)
    values: list[bytes | None] = []
    while len(values) < 200:
        values += [record.value for record in consumer.poll(1)]
    assert values == [b"%d" % number for number in range(200)]
    assert asked(world, T0)[:20] == list(range(0, 200, BATCH))


def test_a_busy_partition_does_not_wait_behind_an_idle_one(world: World) -> None:
    consumer = a_reader(world, T0, T1, max_poll_records=3)
    began_ms = world.clock.now_ms()
    seen = 0
    while seen < 200:
        seen += len(consumer.poll(1))
        # A thread of its own goes on while the caller wakes up: here it gets its turn between two polls.
        consumer._operations.engine.on_poll()
        world.pass_time(1)
    assert world.clock.now_ms() - began_ms < 500, "fetch.max.wait.ms was never waited for"


def test_news_of_the_idle_one_come_while_the_other_is_busy(world: World) -> None:
    consumer = a_reader(world, T0, T1, max_poll_records=3)
    consumer.poll(1)
    world.cluster.produce(T1, b"news")
    seen = 0
    for _ in range(200):
        records = list(consumer.poll(1))
        if any(record.value == b"news" for record in records):
            break
        seen += len(records)
    assert seen < 10 * BATCH


def test_a_paused_partition_with_more_to_come_does_not_keep_the_others_from_waiting_for_news(
    world: World,
) -> None:
    consumer = a_reader(world, T0, T1)
    consumer.poll(1, max_records=1)
    consumer.pause(T0)
    consumer.poll(0)
    world.cluster.produce(T1, b"news")
    assert [record.value for record in consumer.poll(1)] == [b"news"]


def test_a_partition_of_which_nothing_is_known_is_asked_for_at_once(world: World) -> None:
    consumer = a_reader(world)
    consumer.poll(1, max_records=1)
    world.pass_time(5)
    consumer.poll(1, max_records=1)
    consumer.assign([T0, T1])
    consumer.poll(1, max_records=1)
    for _ in range(2):  # its position is looked up first
        consumer._operations.engine.on_poll()
        world.pass_time(5)
    assert asked(world, T0) == [0, BATCH], "two fetches of it are here, and there is more"
    assert asked(world, T1) == [0]


def test_what_waits_is_bounded_in_bytes(world: World) -> None:
    consumer = a_reader(world, fetch_max_bytes=10)
    consumer.poll(1, max_records=1)
    world.pass_time(5)
    assert asked(world, T0) == [0]


def test_a_seek_drops_what_was_fetched_ahead(world: World) -> None:
    consumer = a_reader(world)
    consumer.poll(1, max_records=1)
    world.pass_time(5)
    consumer.seek(T0, 150)
    assert next(iter(consumer.poll(1))).offset == 150
    consumer.seek(T0, 3)
    assert [record.offset for record in consumer.poll(1, max_records=20)] == list(range(3, BATCH))


def test_a_late_answer_does_not_lead_away_from_a_new_position(world: World) -> None:
    consumer = a_reader(world, max_poll_records=BATCH)
    consumer.poll(1, max_records=1)
    world.pass_time(5)
    consumer.seek(T0, 150)
    for _ in range(3):  # the thread goes on before the caller has polled
        consumer._operations.engine.on_poll()
        world.pass_time(1)
    assert 150 in asked(world, T0)
    assert max(asked(world, T0)) <= 160
    assert next(iter(consumer.poll(1))).offset == 150


def test_a_fetch_ahead_that_was_lost_is_asked_for_again(world: World) -> None:
    consumer = a_reader(world, max_poll_records=4)
    consumer.poll(1)
    world.cluster.hold(ApiKey.FETCH)
    world.pass_time(5)
    world.hosts[0].core.network.disconnect(fetch_node(1), "gone")
    world.cluster.release(ApiKey.FETCH)
    seen = [record.offset for record in consumer.poll(1)]
    while len(seen) < 196:
        seen += [record.offset for record in consumer.poll(1)]
    assert seen == list(range(4, 200))
