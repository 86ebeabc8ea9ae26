"""Streams as plain objects against a broker in this process: every option of a stream, and its promises."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from klamm.clock import ManualClock
from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.read.loss import DataLossError
from klamm.spark.read.positions import INITIAL, from_json, initial_of
from klamm.spark.read.stream_reader import StreamReader
from unit.spark.world import Query, World, ranges_of, rows_of

TEN = [b"%d" % number for number in range(10)]


def values(rows: list[dict[str, Any]] | None) -> list[bytes]:
    return [row["value"] for row in rows or []]


def test_a_stream_starts_at_the_end_by_default_and_reads_what_comes(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, TEN)
    query = Query(world.stream(subscribe=topic))
    assert query.next() is None
    world.fill(topic, [b"new"], partition=1)
    assert values(query.next()) == [b"new"]
    assert query.next() is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, TEN),
        ({"startingOffsets": "TOPIC 7"}, TEN[7:]),
        ({"startingOffsets": "TOPIC -2"}, TEN),
        ({"startingOffsets": "TOPIC -1"}, []),
        ({"startingTimestamp": "8500"}, TEN[8:]),
        ({"startingOffsetsByTimestamp": "TOPIC 9000"}, TEN[8:]),
        ({"startingTimestamp": "99999", "startingOffsetsByTimestampStrategy": "latest"}, []),
    ],
)
def test_a_stream_starts_where_it_is_told(
    world: World, options: dict[str, str], expected: list[bytes]
) -> None:
    topic = world.topic()
    world.fill(topic, TEN, timestamps_ms=[(number + 1) * 1000 for number in range(10)])
    given = {
        name: json.dumps({topic: {"0": int(text.split()[1])}}) if text.startswith("TOPIC") else text
        for name, text in options.items()
    }
    assert values(Query(world.stream(subscribe=topic, **given)).next()) == expected


def test_a_start_that_does_not_fit_is_refused_at_the_start(world: World) -> None:
    topic = world.topic()
    with pytest.raises(ConfigError, match="missing"):
        world.stream(subscribe=topic, startingOffsets="{}").initialOffset()
    with pytest.raises(ConfigError, match="no record at or after 5"):
        world.stream(subscribe=topic, startingTimestamp="5").initialOffset()


def test_the_same_start_is_told_as_often_as_spark_asks(world: World) -> None:
    topic = world.topic()
    reader = world.stream(subscribe=topic)
    first = reader.initialOffset()
    world.fill(topic, TEN)
    assert json.dumps(reader.initialOffset()) == json.dumps(first)


def test_a_crash_in_the_first_batch_does_not_move_its_start(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:3])
    before = world.stream(subscribe=topic)
    start = before.initialOffset()
    world.fill(topic, TEN[3:6])
    end = json.loads(json.dumps(before.latestOffset(start, ReadAllAvailable())))
    # The driver dies; more comes; its successor is asked for the start again and says something else.
    world.fill(topic, TEN[6:])
    after = world.stream(subscribe=topic)
    assert from_json(after.initialOffset()) != from_json(start)
    tasks = after.partitions(after.initialOffset(), end)
    assert values(rows_of(after, tasks)) == TEN[3:6]
    # And it goes on where that batch ended.
    assert values(Query(after, end).next()) == TEN[6:]


def test_only_the_first_batch_carries_its_start(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    query = Query(world.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    assert initial_of(query.at) == {TopicPartition(topic, 0): 0}
    assert values(query.next()) == TEN[:4]
    assert initial_of(query.at) == {TopicPartition(topic, 0): 0}
    assert values(query.next()) == TEN[4:8]
    assert INITIAL not in query.at
    assert json.dumps(query.at) == json.dumps({topic: {"0": 8}})


def test_without_news_the_end_is_the_very_text_of_the_start(world: World) -> None:
    topic = world.topic()
    reader = world.stream(subscribe=topic)
    for start in (reader.initialOffset(), {topic: {"0": 0}}, {INITIAL: {topic: {"0": 0}}, topic: {"0": 0}}):
        assert json.dumps(reader.latestOffset(start, ReadAllAvailable())) == json.dumps(start)


def test_a_limit_is_shared_among_partitions(world: World) -> None:
    topic = world.topic(3)
    world.fill(topic, TEN * 3, partition=0)
    world.fill(topic, TEN, partition=1)
    reader = world.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    assert reader.getDefaultReadLimit() == ReadMaxRows(8)
    query = Query(reader)
    query.next()
    assert from_json(query.at) == {
        TopicPartition(topic, 0): 6,
        TopicPartition(topic, 1): 2,
        TopicPartition(topic, 2): 0,
    }
    assert reader.reportLatestOffset() == {topic: {"0": 30, "1": 10, "2": 0}}
    # `Trigger.Once` asks for everything, whatever the options say.
    assert len(query.everything()) == 32


def test_a_limit_of_zero_reads_nothing(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    query = Query(world.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="0"))
    assert query.next() is None


def test_a_minimum_waits_for_volume_or_for_time(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:2])
    clock = ManualClock()
    made = world.stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1m"
    )
    assert made.getDefaultReadLimit() == ReadMinRows(5)
    query = Query(StreamReader(made.options, made.schema, clock=clock))
    assert values(query.next()) == TEN[:2]  # the first batch of a run does not wait
    world.fill(topic, TEN[2:4])
    assert query.next() is None
    world.fill(topic, TEN[4:7])
    assert values(query.next()) == TEN[2:7]
    world.fill(topic, TEN[7:8])
    assert query.next() is None
    clock.advance(60_000)
    assert values(query.next()) == TEN[7:8]


def test_available_now_ends_where_the_logs_ended_at_its_first_look(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:6])
    reader = world.stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="3"
    )
    reader.prepareForTriggerAvailableNow()
    query = Query(reader)
    assert values(query.next()) == TEN[:4]
    world.fill(topic, TEN[6:])
    assert values(query.next()) == TEN[4:6]  # fewer than the minimum: nothing more will come
    assert query.next() is None


def test_new_partitions_and_topics_are_read_from_their_start(world: World) -> None:
    topic = world.topic(1, name=f"{world.topic()}-grows")
    query = Query(world.stream(subscribePattern=f"^{topic}", startingOffsets="latest"))
    assert query.next() is None
    world.admin.create_partitions({topic: 2}).unwrap()
    world.fill(topic, [b"1"], partition=1)
    other = world.topic(1, name=f"{topic}-too")
    world.fill(other, [b"2"])
    assert sorted(values(query.next())) == [b"1", b"2"]
    assert from_json(query.at).keys() == {
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
        TopicPartition(other, 0),
    }


def test_a_new_partition_that_lost_its_start_is_data_loss(world: World) -> None:
    topic = world.topic()
    reader = world.stream(subscribe=topic, startingOffsets="earliest")
    quiet = world.stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    start = reader.initialOffset()
    world.admin.create_partitions({topic: 2}).unwrap()
    world.fill(topic, TEN, partition=1)
    world.admin.delete_records({TopicPartition(topic, 1): 4}).unwrap()
    with pytest.raises(DataLossError, match=f"{topic}-1 is new and starts at offset 4"):
        Query(reader, start).next()
    assert values(Query(quiet, start).next()) == TEN[4:]


def test_a_topic_that_vanishes_stops_the_query_or_is_left_out(world: World) -> None:
    stays, goes = world.topic(), world.topic()
    both = f"{stays},{goes}"
    strict = Query(world.stream(subscribe=both))
    lenient = Query(world.stream(subscribe=both, failOnDataLoss="false"))
    world.admin.delete_topics([goes]).unwrap()
    world.fill(stays, [b"1"])
    with pytest.raises(DataLossError, match=f"the checkpoint has {goes}-0, not found by subscribe="):
        strict.next()
    assert values(lenient.next()) == [b"1"]
    assert from_json(lenient.at) == {TopicPartition(stays, 0): 1}


def test_a_topic_that_is_made_anew_stops_the_query_or_is_read_on_from_its_end(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    strict, lenient = (
        Query(world.stream(subscribe=topic)),
        Query(world.stream(subscribe=topic, failOnDataLoss="false")),
    )
    world.admin.delete_topics([topic]).unwrap()
    world.topic(name=topic)
    world.fill(topic, TEN[:3])
    with pytest.raises(DataLossError, match="deleted and created again"):
        strict.next()
    # Nothing is repeated if the log was only truncated; the official connector does the same.
    assert values(lenient.next()) == []
    world.fill(topic, TEN[3:4])
    assert values(lenient.next()) == TEN[3:4]


def test_a_checkpoint_ahead_of_the_log_is_data_loss(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:3])
    start = {topic: {"0": 8}}
    with pytest.raises(DataLossError, match=f"{topic}-0 ends at offset 3, before offset 8"):
        Query(world.stream(subscribe=topic), start).next()


def test_a_start_beyond_the_end_that_may_be_lost_waits_for_new_records(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:3])
    beyond = f'{{"{topic}": {{"0": 1000}}}}'
    query = Query(world.stream(subscribe=topic, startingOffsets=beyond, failOnDataLoss="false"))
    assert values(query.next()) == []
    world.fill(topic, TEN[3:5])
    assert values(query.next()) == TEN[3:5]


def test_a_checkpoint_of_another_topic_is_told_apart(world: World) -> None:
    topic, other = world.topic(), world.topic()
    with pytest.raises(DataLossError) as failed:
        Query(world.stream(subscribe=topic), {other: {"0": 0}}).next()
    assert f"the checkpoint has {other}-0, not found by subscribe={topic}" in str(failed.value)
    assert "belongs to another query" in str(failed.value)


def test_planning_again_gives_the_same_tasks(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, TEN, partition=0)
    world.fill(topic, TEN[:5], partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "minPartitions": "5"}
    first, second = world.stream(**options), world.stream(**options)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadAllAvailable())
    assert ranges_of(first.partitions(start, end)) == ranges_of(second.partitions(start, end))
    assert len(first.partitions(start, end)) == 5


def test_a_reader_travels_to_the_tasks_without_its_connections(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    query = Query(world.stream(subscribe=topic, startingOffsets="earliest"))
    start = query.at
    end = query.reader.latestOffset(start, ReadAllAvailable())
    tasks = pickle.loads(pickle.dumps(query.reader.partitions(start, end)))
    assert values(rows_of(pickle.loads(pickle.dumps(query.reader)), tasks)) == TEN
    query.reader.commit(end)
    query.reader.stop()


def test_waiting_inside_the_look_ends_when_something_comes(world: World) -> None:
    topic = world.topic()
    reader = world.stream(subscribe=topic, latestOffset_maxWaitMs="60000")
    start = reader.initialOffset()
    # Not waiting: there is something already.
    world.fill(topic, [b"1"])
    assert values(Query(reader, start).next()) == [b"1"]
    patient = world.stream(subscribe=topic, latestOffset_maxWaitMs="20")
    assert Query(patient).next() is None


def test_a_subscription_to_nothing_waits_without_asking_all_the_time(world: World) -> None:
    naps: list[float] = []
    made = world.stream(subscribePattern="nothing-has-this-name", latestOffset_maxWaitMs="100")
    reader = StreamReader(made.options, made.schema, sleep=naps.append)
    assert Query(reader).next() is None
    assert naps == [0.1]
