"""A query's progress as a consumer group's: committed after Spark's own log, and never ahead of it."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from unit.spark.world import Query, World

TEN = [b"%d" % number for number in range(10)]


def committed(world: World, group: str) -> dict[TopicPartition, int]:
    return {key: found.offset for key, found in world.admin.list_group_offsets(group).items()}


def test_a_group_hears_of_a_batch_when_spark_asks_for_the_next_one(world: World) -> None:
    topic = world.topic(2)
    group = f"{topic}-group"
    options = {"subscribe": topic, "commitOffsets": "progress", "kafka_group_id": group}
    query = Query(world.stream(**options, startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    world.fill(topic, TEN)
    query.next()
    # The batch ran, and Spark has not logged it as done: nobody may say so.
    assert committed(world, group) == {}
    query.next()
    assert committed(world, group) == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}
    query.next()
    assert query.next() is None
    assert committed(world, group) == {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 0}


def test_a_restarted_query_repeats_what_its_checkpoint_says(world: World) -> None:
    topic = world.topic()
    group = f"{topic}-group"
    world.fill(topic, TEN)
    reader = world.stream(subscribe=topic, commitOffsets="progress", kafka_group_id=group)
    reader.latestOffset({topic: {"0": 6}}, ReadAllAvailable())
    assert committed(world, group) == {TopicPartition(topic, 0): 6}


def test_without_the_option_nothing_is_committed(world: World) -> None:
    topic = world.topic()
    group = f"{topic}-group"
    world.fill(topic, TEN)
    reader = world.stream(subscribe=topic, kafka_group_id=group)
    reader.latestOffset({topic: {"0": 6}}, ReadAllAvailable())
    assert committed(world, group) == {}


def test_a_query_starts_where_a_group_stands(world: World) -> None:
    topic = world.topic(2)
    group = f"{topic}-group"
    world.fill(topic, TEN)
    world.fill(topic, TEN[:3], partition=1)
    world.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 7}).unwrap()
    options = {"subscribe": topic, "startingOffsets": "group", "kafka_group_id": group}
    rows = Query(world.stream(**options)).everything()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (0, 7),
        (0, 8),
        (0, 9),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert len(world.rows(**options)) == 6
    assert len(world.rows(**options, groupMissing="latest")) == 3


def test_a_group_in_use_refuses_and_the_query_goes_on_or_stops(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    from klamm.client.consumer.consumer import Consumer

    topic = world.topic()
    group = f"{topic}-group"
    world.fill(topic, TEN)
    options = {"subscribe": topic, "commitOffsets": "progress", "kafka_group_id": group}
    settings = {"bootstrap.servers": world.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    with Consumer(topic, {**settings, "enable.auto.commit": False}) as member:
        while not member.assignment():
            member.poll(0.1)
        lenient, strict = world.stream(**options), world.stream(**options, commitOffsets_onError="fail")
        with caplog.at_level(logging.WARNING):
            lenient.latestOffset({topic: {"0": 6}}, ReadAllAvailable())
        assert f"committing to group {group} failed" in caplog.text
        with pytest.raises(KlammError, match="the group is in use"):
            strict.latestOffset({topic: {"0": 6}}, ReadAllAvailable())
        assert committed(world, group) == {}
    # Its members are gone: the next trigger does it.
    lenient.latestOffset({topic: {"0": 6}}, ReadAllAvailable())
    assert committed(world, group) == {TopicPartition(topic, 0): 6}
