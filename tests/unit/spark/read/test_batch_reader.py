"""Batch reads as plain objects against a broker in this process: every option of a batch."""

from __future__ import annotations

import json
import pickle
import traceback
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from klamm.config import ConfigError
from klamm.errors import KlammTimeoutError, NoBrokersError
from klamm.protocol.types import TopicPartition
from klamm.spark.read.lookup import MissingTopicError
from klamm.spark.read.loss import DataLossError
from klamm.spark.source import KlammDataSource
from unit.spark.world import World, ranges_of, rows_of

TEN = [b"%d" % number for number in range(10)]


def test_a_row_has_what_a_record_has(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, [b"value"], partition=1, key=b"key", timestamps_ms=[1_700_000_000_123])
    assert world.rows(subscribe=topic) == [
        {
            "key": b"key",
            "value": b"value",
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
            "timestampType": 0,
        }
    ]


def test_null_keys_and_values_stay_null(world: World) -> None:
    topic = world.topic()
    world.fill(topic, [None, b""], key=None)
    assert [(row["key"], row["value"]) for row in world.rows(subscribe=topic)] == [(None, None), (None, b"")]


def test_headers_come_when_they_are_asked_for_and_are_null_when_there_are_none(world: World) -> None:
    topic = world.topic()
    world.fill(topic, [b"1"], headers=[("a", b"x"), ("b", None)])
    world.fill(topic, [b"2"])
    rows = world.rows(subscribe=topic, includeHeaders="true")
    assert [row["headers"] for row in rows] == [
        [{"key": "a", "value": b"x"}, {"key": "b", "value": None}],
        None,
    ]
    assert "headers" not in world.rows(subscribe=topic)[0]


def test_the_broker_dates_records_of_a_topic_that_wants_it(world: World) -> None:
    topic = world.topic(message_timestamp_type="LogAppendTime")
    world.fill(topic, [b"1"], timestamps_ms=[5])
    (row,) = world.rows(subscribe=topic)
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2000


def test_a_schema_of_the_users_picks_columns(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN[:2])
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    assert world.rows(schema, subscribe=topic) == [{"offset": 0, "value": b"0"}, {"offset": 1, "value": b"1"}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("offset", StringType())], "column offset is bigint, not string"),
        ([("colour", StringType())], "unknown column colour"),
        ([("headers", StringType())], "includeHeaders=true"),
        ([], "has no column"),
    ],
)
def test_a_schema_cannot_invent_or_convert(fields: list[tuple[str, StringType]], said: str) -> None:
    source = KlammDataSource({"kafka.bootstrap.servers": "x:1", "subscribe": "t"})
    with pytest.raises(ConfigError) as refused:
        source.reader(StructType([StructField(*field) for field in fields]))
    assert said in str(refused.value)


def test_topics_are_named_matched_or_taken_by_partition(world: World) -> None:
    first, second = world.topic(2), world.topic()
    world.fill(first, [b"1"], partition=0)
    world.fill(first, [b"2"], partition=1)
    world.fill(second, [b"3"])
    both = f"{first}, {second}"
    assert sorted(world.values(subscribe=both)) == [b"1", b"2", b"3"]
    # Any part of the name will do.
    assert sorted(world.values(subscribePattern=first[1:])) == [b"1", b"2"]
    assert world.values(assign=json.dumps({first: [1], second: [0]})) in ([b"2", b"3"], [b"3", b"2"])


def test_what_is_not_there_is_no_row_unless_it_is_a_topic_by_name(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    assert world.rows(assign="{}") == []
    assert world.rows(assign=json.dumps({topic: [7]})) == []
    assert world.rows(subscribePattern="no-topic-has-this-name") == []
    with pytest.raises(MissingTopicError, match="unknown topic nowhere"):
        world.rows(subscribe=f"{topic},nowhere")


def test_spark_has_a_task_for_a_query_that_found_nothing(world: World) -> None:
    reader = world.batch(subscribe=world.topic())
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_pattern_leaves_the_clusters_own_topics_alone_and_a_name_does_not(world: World) -> None:
    found = world.admin.describe_topics().unwrap()
    internal = sorted(name for name, topic in found.items() if topic.is_internal)
    planned = ranges_of(world.batch(subscribePattern=".*").partitions())
    assert not {item.partition.topic for item in planned} & set(internal)
    for name in internal[:1]:
        world.rows(subscribe=name)


def test_offsets_say_where_to_start_and_to_end(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, TEN, partition=0)
    world.fill(topic, TEN[:3], partition=1)

    def read(start: object, end: object) -> list[tuple[int, int]]:
        rows = world.rows(
            subscribe=topic,
            startingOffsets=json.dumps({topic: start}),
            endingOffsets=json.dumps({topic: end}),
        )
        return [(row["partition"], row["offset"]) for row in rows]

    assert read({"0": 3, "1": -2}, {"0": 5, "1": -1}) == [(0, 3), (0, 4), (1, 0), (1, 1), (1, 2)]
    assert read({"0": 9, "1": 1}, {"0": 9, "1": 2}) == [(1, 1)]
    with pytest.raises(ConfigError, match=f"{topic}-1 missing"):
        read({"0": 3}, {"0": 5})
    with pytest.raises(ConfigError, match=f"{topic}-2 not read"):
        read({"0": 3, "1": 0, "2": 0}, {"0": 5, "1": 0, "2": 0})


def test_an_end_before_the_start_is_an_error(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN, timestamps_ms=[(number + 1) * 1000 for number in range(10)])
    with pytest.raises(ConfigError, match="would end at 2, before its start at 5"):
        world.rows(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 5}}), endingTimestamp="3000")


def test_times_say_where_to_start_and_to_end(world: World) -> None:
    topic = world.topic(2)
    times_ms = [(number + 1) * 1000 for number in range(10)]
    world.fill(topic, TEN, partition=0, timestamps_ms=times_ms)
    world.fill(topic, TEN[:3], partition=1, timestamps_ms=times_ms[:3])

    def read(**options: str) -> list[tuple[int, int]]:
        return [(row["partition"], row["offset"]) for row in world.rows(subscribe=topic, **options)]

    assert read(startingTimestamp="2500", endingTimestamp="4000") == [(0, 2), (1, 2)]
    by_partition = json.dumps({topic: {"0": 9001, "1": 1}})
    assert read(startingOffsetsByTimestamp=by_partition) == [(0, 9), (1, 0), (1, 1), (1, 2)]
    assert read(endingOffsetsByTimestamp=json.dumps({topic: {"0": 1500, "1": 99_999}})) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    # As with offsets, and as brokers take them: -1 is the end of the log, -2 its start.
    assert read(startingOffsetsByTimestamp=json.dumps({topic: {"0": -1, "1": 2500}})) == [(1, 2)]
    assert read(endingOffsetsByTimestamp=json.dumps({topic: {"0": -2, "1": -1}})) == [(1, 0), (1, 1), (1, 2)]
    assert read(startingTimestamp="-1") == []


def test_an_error_that_explains_itself_has_one_frame_of_a_traceback(world: World) -> None:
    source = world.source(subscribe="nowhere")
    schema = source.schema()
    for attempt in (
        world.source(subscribe="nowhere", minPartitions="0").schema,
        world.source().schema,
        lambda: source.reader(StructType([])),
        lambda: source.reader(schema).partitions(),
        lambda: world.source(subscribe="nowhere").streamReader(schema).initialOffset(),
        lambda: source.writer(schema, True),
    ):
        with pytest.raises((ConfigError, MissingTopicError)) as refused:
            attempt()
        here, *below = traceback.extract_tb(refused.value.__traceback__)
        assert here.filename == __file__
        assert [frame.name for frame in below if frame.filename != __file__] == ["call"]
        assert refused.value.__cause__ is None


def test_a_start_after_the_last_record_is_an_error_or_the_end(world: World) -> None:
    topic = world.topic(2)
    world.fill(topic, TEN, partition=0, timestamps_ms=[1000] * 10)
    with pytest.raises(ConfigError, match="no record at or after 500"):
        world.rows(subscribe=topic, startingTimestamp="500")
    rows = world.rows(subscribe=topic, startingTimestamp="500", startingOffsetsByTimestampStrategy="latest")
    assert len(rows) == 10


def test_ranges_are_split_into_tasks(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    reader = world.batch(subscribe=topic, minPartitions="3")
    tasks = reader.partitions()
    assert [(item.start_offset, item.next_offset) for item in ranges_of(tasks)] == [(0, 3), (3, 6), (6, 10)]
    assert [row["value"] for row in rows_of(reader, tasks)] == TEN
    assert len(world.batch(subscribe=topic, maxRecordsPerPartition="4").partitions()) == 3


def test_a_reader_and_its_tasks_travel_as_bytes(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    reader = world.batch(subscribe=topic)
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    assert [row["value"] for row in rows_of(pickle.loads(pickle.dumps(reader)), tasks)] == TEN


def test_offsets_that_are_gone_are_an_error_or_a_gap(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    world.admin.delete_records({TopicPartition(topic, 0): 4}).unwrap()
    from_start = json.dumps({topic: {"0": 0}})
    with pytest.raises(DataLossError) as failed:
        world.rows(subscribe=topic, startingOffsets=from_start)
    assert f"{topic}-0: offsets 0 to 3 are not in the log" in str(failed.value)
    assert "failOnDataLoss=false" in str(failed.value)
    left = world.values(subscribe=topic, startingOffsets=from_start, failOnDataLoss="false")
    assert left == TEN[4:]
    gone = json.dumps({topic: {"0": 3}})
    nothing = world.values(
        subscribe=topic, startingOffsets=from_start, endingOffsets=gone, failOnDataLoss="false"
    )
    assert nothing == []


def test_offsets_that_never_were_are_an_error_or_nothing(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    beyond = {
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": 8}}),
        "endingOffsets": json.dumps({topic: {"0": 20}}),
        "kafkaConsumer_pollTimeoutMs": "1000",
    }
    with pytest.raises(DataLossError, match="offsets 10 to 19 cannot be read"):
        world.rows(**beyond)
    assert world.values(**beyond, failOnDataLoss="false") == TEN[8:]
    outside = {**beyond, "startingOffsets": json.dumps({topic: {"0": 15}})}
    with pytest.raises(DataLossError, match="offsets 15 to 19 are not in the log"):
        world.rows(**outside)
    assert world.values(**outside, failOnDataLoss="false") == []


def test_a_topic_that_is_made_anew_between_plan_and_task_is_noticed(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    reader = world.batch(subscribe=topic)
    tasks = reader.partitions()
    world.admin.delete_topics([topic]).unwrap()
    world.topic(name=topic)
    world.fill(topic, TEN)
    with pytest.raises(DataLossError, match="deleted and created again"):
        rows_of(reader, tasks)


def test_a_topic_that_vanishes_between_plan_and_task_is_noticed(world: World) -> None:
    topic = world.topic()
    world.fill(topic, TEN)
    for fails, expected in (("true", None), ("false", [])):
        reader = world.batch(subscribe=topic, failOnDataLoss=fails)
        if expected is None:
            tasks = reader.partitions()
            world.admin.delete_topics([topic]).unwrap()
            with pytest.raises(DataLossError, match="no longer exists"):
                rows_of(reader, tasks)
        else:
            quiet = world.batch(assign=json.dumps({topic: [0]}), failOnDataLoss=fails)
            assert rows_of(quiet, tasks) == expected


def test_a_broker_that_is_down_is_named() -> None:
    source = KlammDataSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": "t",
            "kafka.default.api.timeout.ms": "150",
            "kafka.request.timeout.ms": "100",
        }
    )
    reader = source.reader(source.schema())
    with pytest.raises((KlammTimeoutError, NoBrokersError), match=r"127\.0\.0\.1:1"):
        reader.partitions()


def test_many_rows_come_in_batches_that_suit_spark(world: World) -> None:
    topic = world.topic()
    world.fill(topic, [b"x" * 10] * 5000)
    schema = StructType([StructField("offset", LongType()), StructField("partition", IntegerType())])
    reader = world.batch(schema, subscribe=topic, kafka_max_partition_fetch_bytes="20000")
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert len(batches) > 1
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(5000))
