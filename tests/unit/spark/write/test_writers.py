"""Writers as plain objects against a broker in this process: columns, partitions, options, failures."""

from __future__ import annotations

import json
import pickle
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from klamm.client.producer.encoded import EncodedProducer
from klamm.client.producer.partitioner import partition_for_key
from klamm.clock import SystemClock
from klamm.config import ConfigError
from klamm.errors import KlammTimeoutError, RecordTooLargeError, UnknownTopicError
from klamm.records.arrow import BinaryInput
from klamm.records.columns import encode_columns
from klamm.spark.schema import HEADERS_TYPE, check_sink_schema
from klamm.spark.source import KlammDataSource
from klamm.spark.write.writers import BatchWriter, StreamWriter
from klamm.spark.write.writing import RowError, Written, by_topic, encoded
from unit.spark.world import World, table

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": HEADERS_TYPE,
}


def schema_of(*names: str) -> StructType:
    return StructType([StructField(name, TYPES[name]) for name in names])


def write(world: World, *batches: pa.RecordBatch, **options: str) -> Written:
    given = {name.replace("_", "."): value for name, value in options.items()}
    source = KlammDataSource({"kafka.bootstrap.servers": world.bootstrap, **given})
    writer = source.writer(schema_of(*batches[0].schema.names), False)
    assert isinstance(writer, BatchWriter)
    copy: BatchWriter = pickle.loads(pickle.dumps(writer))
    return copy.write(iter(batches))


def test_rows_become_records_and_come_back(world: World) -> None:
    topic = world.topic()
    headers = [[{"key": "a", "value": b"x"}, {"key": "b", "value": None}], None, []]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = table(key=[b"k", None, b""], value=[b"v", b"", None], headers=pa.array(headers, kind))
    assert write(world, batch, topic=topic) == Written(3)
    rows = world.rows(subscribe=topic, includeHeaders="true")
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        (b"k", b"v", headers[0]),
        (None, b"", None),
        (b"", None, None),
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_texts_and_bytes_of_any_layout_are_written(world: World, kind: pa.DataType) -> None:
    topic = world.topic()
    texts = [b"a", b"bb", None, b"d"]
    plain = pa.array([None if text is None else text.decode() for text in texts], pa.string()).cast(kind)
    # A slice of a larger column, as Spark hands them over.
    write(world, pa.record_batch([plain, plain], names=["key", "value"]).slice(1), topic=topic)
    assert world.values(subscribe=topic) == texts[1:]


def test_keys_go_where_javas_producer_puts_them(world: World) -> None:
    topic = world.topic(5)
    keys = [f"key-{number}".encode() for number in range(200)]
    write(world, table(key=keys, value=keys), topic=topic)
    for row in world.rows(subscribe=topic):
        assert row["partition"] == partition_for_key(row["key"], 5)


def test_a_partition_that_is_asked_for_goes_before_the_key(world: World) -> None:
    topic = world.topic(3)
    batch = table(
        key=[b"a", b"a", b"a"], value=[b"0", b"1", b"2"], partition=pa.array([2, None, 0], pa.int32())
    )
    write(world, batch, topic=topic)
    placed = {row["value"]: row["partition"] for row in world.rows(subscribe=topic)}
    assert placed == {b"0": 2, b"1": partition_for_key(b"a", 3), b"2": 0}
    with pytest.raises(RowError, match="column partition has 3 to 3, the topic has 0 to 2"):
        write(world, table(value=[b"x"], partition=pa.array([3], pa.int32())), topic=topic)


def test_rows_without_a_key_stay_together_for_a_while_and_spread_over_time(world: World) -> None:
    topic = world.topic(4)
    write(world, *[table(value=[b"x"] * 10) for _ in range(40)], topic=topic)
    counts: dict[int, int] = {}
    for row in world.rows(subscribe=topic):
        counts[row["partition"]] = counts.get(row["partition"], 0) + 1
    assert sum(counts.values()) == 400
    assert len(counts) == 4
    assert all(count % 10 == 0 for count in counts.values())


def test_the_topic_comes_from_the_option_or_from_its_column(world: World) -> None:
    first, second = world.topic(), world.topic()
    batch = table(topic=[first, second, first], value=[b"1", b"2", b"3"])
    write(world, batch)
    assert (world.values(subscribe=first), world.values(subscribe=second)) == ([b"1", b"3"], [b"2"])
    write(world, batch, topic=f" {second} ")
    assert world.values(subscribe=second) == [b"2", b"1", b"2", b"3"]
    with pytest.raises(RowError, match="column topic is null"):
        write(world, table(topic=[first, None], value=[b"1", b"2"]))


def test_order_within_a_key_is_kept(world: World) -> None:
    topic = world.topic(3)
    for start in range(0, 3000, 1000):
        rows = [(f"k{number % 7}".encode(), b"%d" % number) for number in range(start, start + 1000)]
        write(
            world,
            table(key=[key for key, _ in rows], value=[value for _, value in rows]),
            topic=topic,
            kafka_batch_size="400",
        )
    seen: dict[bytes, int] = {}
    for row in world.rows(subscribe=topic):
        assert int(row["value"]) > seen.get(row["key"], -1)
        seen[row["key"]] = int(row["value"])
    assert len(seen) == 7


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(world: World, codec: str) -> None:
    topic = world.topic()
    write(world, table(value=[b"the same again"] * 500), topic=topic, kafka_compression_type=codec)
    assert world.values(subscribe=topic) == [b"the same again"] * 500


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acknowledgements_are_the_users_choice(world: World, acks: str) -> None:
    topic = world.topic()
    assert write(world, table(value=[b"1"]), topic=topic, kafka_acks=acks).row_count == 1
    if acks != "0":
        assert world.values(subscribe=topic) == [b"1"]


def test_a_batch_that_the_topic_finds_too_large_is_split(world: World) -> None:
    topic = world.topic(max_message_bytes="2000")
    values = [b"%05d" % number * 20 for number in range(200)]
    write(world, table(value=values), topic=topic)
    assert world.values(subscribe=topic) == values


def test_a_record_that_is_too_large_is_an_error(world: World) -> None:
    topic = world.topic(max_message_bytes="2000")
    with pytest.raises(RecordTooLargeError):
        write(world, table(value=[b"x" * 5000]), topic=topic)
    with pytest.raises(RecordTooLargeError, match=r"max\.request\.size"):
        write(world, table(value=[b"x" * 2000]), topic=topic, kafka_max_request_size="1000")


def test_a_topic_that_is_not_there_is_an_error_that_names_it(world: World) -> None:
    with pytest.raises((KlammTimeoutError, Exception), match="in valid"):
        write(world, table(value=[b"x"]), topic="in valid", kafka_max_block_ms="200")


def test_a_broker_that_is_down_is_named() -> None:
    source = KlammDataSource(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "kafka.max.block.ms": "100"}
    )
    with pytest.raises(KlammTimeoutError, match=r"127\.0\.0\.1:1"):
        source.writer(schema_of("value"), False)


@pytest.mark.parametrize("given", ["option", "column"])
def test_a_topic_that_does_not_exist_is_asked_for_or_created(world: World, given: str) -> None:
    near, topic = world.topic(), f"new-{world.topic()}"
    rows = table(value=[b"x"]) if given == "option" else table(value=[b"x"], topic=[topic])
    options = {"kafka_bootstrap_servers": world.bootstrap, **({"topic": topic} if given == "option" else {})}
    with pytest.raises(UnknownTopicError, match=f"{topic} does not exist: .*createTopics"):
        write(world, rows, **options)
    with pytest.raises(UnknownTopicError, match=rf"did you mean {near}\? Else"):
        write(world, table(value=[b"x"]), topic=f"{near}x")
    assert write(world, rows, **options, createTopics="3").row_count == 1
    assert len(world.admin.describe_topics([topic])[topic].partitions) == 3
    with pytest.raises(ConfigError, match="expected true, false, or a number of partitions"):
        write(world, rows, **options, createTopics="some")


def test_a_stream_is_written_the_same_way(world: World) -> None:
    topic = world.topic()
    source = KlammDataSource(
        {
            "kafka.bootstrap.servers": world.bootstrap,
            "topic": topic,
            "checkpointLocation": "/c",
            "queryName": "q",
        }
    )
    for overwrite in (False, True):  # output mode `complete` asks to overwrite
        writer = source.streamWriter(schema_of("value"), overwrite)
        assert isinstance(writer, StreamWriter)
        message = writer.write(iter([table(value=[b"1"])]))
        writer.commit([message, None], 0)
        writer.abort([message, None], 0)
    assert world.values(subscribe=topic) == [b"1", b"1"]


def test_a_batch_is_neither_overwritten_nor_taken_back(world: World) -> None:
    topic = world.topic()
    source = KlammDataSource({"kafka.bootstrap.servers": world.bootstrap, "topic": topic})
    with pytest.raises(ConfigError, match="append"):
        source.writer(schema_of("value"), True)
    writer = source.writer(schema_of("value"), False)
    message = writer.write(iter([table(value=[b"1"])]))
    writer.commit([message])
    writer.abort([message, None])
    assert world.values(subscribe=topic) == [b"1"]


@pytest.mark.parametrize(
    ("fields", "topic", "said"),
    [
        ([("key", StringType())], "t", "column value is missing, found key"),
        ([("Value", StringType())], "t", "column value is missing"),
        ([("value", LongType())], "t", "column value is bigint: cast it to string or binary"),
        ([("value", StringType()), ("key", LongType())], "t", "column key is bigint"),
        (
            [("value", StringType()), ("partition", LongType())],
            "t",
            "column partition is bigint: cast it to int",
        ),
        ([("value", StringType()), ("headers", StringType())], "t", "column headers is string"),
        (
            [("value", StringType()), ("headers", ArrayType(MapType(StringType(), BinaryType())))],
            "t",
            "column headers",
        ),
        ([("value", StringType())], None, "set option topic"),
        (
            [("value", StringType()), ("topic", BinaryType())],
            None,
            "column topic is binary: cast it to string",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_anything_runs(
    fields: list[tuple[str, DataType]], topic: str | None, said: str
) -> None:
    options = {"kafka.bootstrap.servers": "x:1", **({"topic": topic} if topic else {})}
    schema = StructType([StructField(*field) for field in fields])
    for make in ("writer", "streamWriter"):
        with pytest.raises(ConfigError) as refused:
            getattr(KlammDataSource(options), make)(schema, False)
        assert said in str(refused.value)


def test_other_columns_are_left_alone() -> None:
    fields = [
        StructField("value", StringType()),
        StructField("topic", LongType()),
        StructField("x", LongType()),
    ]
    check_sink_schema(StructType(fields), "t")


rows = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=9), st.none() | st.integers(0, 3)
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60)
@given(rows, st.integers(0, 2**32))
def test_no_row_is_lost_or_doubled_on_the_way_to_its_partition(
    found: list[tuple[bytes | None, bytes | None, int | None]], seed: int
) -> None:
    batch = pa.record_batch(
        [
            pa.array([row[0] for row in found], pa.binary()),
            pa.array([row[1] for row in found], pa.binary()),
            pa.array([row[2] for row in found], pa.int32()),
        ],
        names=["key", "value", "partition"],
    )
    regions = encoded(batch, 4, random=Random(seed), timestamp_ms=5, max_region_bytes=100)
    assert sum(region.record_count for region in regions) == len(found)
    assert {region.base_timestamp_ms for region in regions} == {5}
    asked = {row[2] for row in found if row[2] is not None}
    assert asked <= {region.partition for region in regions}


def test_topics_of_a_batch_are_told_apart_in_the_order_they_come() -> None:
    batch = table(topic=["b", "a", "b"], value=[b"1", b"2", b"3"])
    parts = [(name, part.column("value").to_pylist()) for name, part in by_topic(batch, None)]
    assert parts == [("b", [b"1", b"3"]), ("a", [b"2"])]
    assert list(by_topic(table(topic=pa.array([], pa.string()), value=pa.array([], pa.binary())), None)) == []


def test_a_split_region_keeps_its_records_and_their_times(world: World) -> None:
    topic = world.topic()
    partitions = (0).to_bytes(4, "little") * 3
    values = BinaryInput(*pa.array([b"a", b"b", b"c"]).buffers())
    now_ms = SystemClock().timestamp_ms()
    (region,) = encode_columns(3, partitions, None, values, None, None, now_ms, 1000)
    with EncodedProducer(bootstrap_servers=world.bootstrap) as producer:
        (batch,) = producer.send_regions(topic, [region])
        producer.wait([batch])
        halves = batch.split(0)
    assert [half.record_count for half in halves] == [1, 2]
    assert json.dumps(world.end_offset(topic)) == "3"
