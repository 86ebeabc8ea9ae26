"""Options: Spark's own connector's names and defaults; what is wrong is refused with what to write."""

from __future__ import annotations

import logging
import pickle

import pytest

from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.limits import AtOffsets, AtTime, AtTimes, Named
from klamm.spark.options.options import sink_options, source_options

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**BASE, "subscribe": "t"}


def test_defaults_are_those_of_sparks_own_connector() -> None:
    stream = source_options(TOPIC, is_streaming=True)
    assert stream.start is Named.LATEST
    assert (stream.fails_on_data_loss, stream.includes_headers, stream.is_read_committed) == (
        True,
        False,
        False,
    )
    assert (stream.max_offsets_per_trigger, stream.min_offsets_per_trigger) == (None, None)
    assert (stream.min_partitions, stream.max_records_per_partition) == (None, None)
    assert (stream.max_trigger_delay_ms, stream.poll_timeout_ms) == (900_000, 120_000)
    assert (stream.lookup_attempts, stream.lookup_retry_ms) == (3, 1000)
    assert (stream.commits_progress, stream.group_id, stream.max_wait_ms) == (False, None, 100)
    batch = source_options(TOPIC, is_streaming=False)
    assert (batch.start, batch.end) == (Named.EARLIEST, Named.LATEST)


def test_names_are_found_in_any_case() -> None:
    options = source_options(
        {"KAFKA.Bootstrap.Servers": "localhost:9092", "SUBSCRIBEpattern": "a.*", "MINPARTITIONS": " 7 "},
        is_streaming=False,
    )
    assert (options.subscription.pattern, options.min_partitions) == ("a.*", 7)


def test_options_travel_to_the_tasks() -> None:
    options = source_options({**TOPIC, "startingOffsets": '{"t": {"0": 3}}'}, is_streaming=True)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "topics", "pattern", "partitions"),
    [
        ({"subscribe": " a, b ,,a"}, ("a", "b"), None, None),
        ({"subscribePattern": " a.* "}, (), "a.*", None),
        ({"assign": '{"a": [1]}'}, (), None, (TopicPartition("a", 1),)),
        ({"assign": "{}"}, (), None, ()),
    ],
)
def test_what_is_read_can_be_said_in_three_ways(
    given: dict[str, str], topics: object, pattern: object, partitions: object
) -> None:
    subscription = source_options({**BASE, **given}, is_streaming=True).subscription
    assert (subscription.topics, subscription.pattern, subscription.partitions) == (
        topics,
        pattern,
        partitions,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": "EARLIEST"}, Named.EARLIEST),
        ({"startingOffsets": "latest"}, Named.LATEST),
        ({"startingOffsets": "group", "kafka.group.id": "g"}, Named.GROUP),
        ({"startingOffsets": '{"t":{"0":-1}}'}, AtOffsets("startingOffsets", {TopicPartition("t", 0): -1})),
        ({"startingTimestamp": "5", "startingOffsets": "earliest"}, AtTime("startingTimestamp", 5)),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "startingOffsets": "earliest"},
            AtTimes("startingOffsetsByTimestamp", {TopicPartition("t", 0): 9}),
        ),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":9}}'},
            AtTime("startingTimestamp", 5),
        ),
    ],
)
def test_a_time_goes_before_times_and_those_before_offsets(given: dict[str, str], expected: object) -> None:
    assert source_options({**TOPIC, **given}, is_streaming=True).start == expected


def test_the_end_of_a_batch_follows_the_same_order() -> None:
    options = source_options(
        {**TOPIC, "endingTimestamp": "7", "endingOffsets": '{"t":{"0":5}}'}, is_streaming=False
    )
    assert options.end == AtTime("endingTimestamp", 7)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("15m", 900_000), ("30s", 30_000), ("2h", 7_200_000), ("250", 250), ("1d", 86_400_000)],
)
def test_a_delay_is_written_as_spark_writes_durations(text: str, expected_ms: int) -> None:
    options = source_options({**TOPIC, "maxTriggerDelay": text}, is_streaming=True)
    assert options.max_trigger_delay_ms == expected_ms


BOTH = (True, False)


@pytest.mark.parametrize(
    ("streaming", "given", "said"),
    [
        (BOTH, {"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers is missing"),
        (BOTH, {"kafka.bootstrap.servers": "nowhere"}, "host:port"),
        (BOTH, {"subscribe": None}, "exactly one of assign, subscribe, subscribePattern"),
        (BOTH, {"subscribePattern": "a"}, "has subscribe and subscribePattern"),
        (BOTH, {"subscribe": " , "}, "subscribe is empty"),
        (BOTH, {"subscribe": None, "subscribePattern": ""}, "is empty"),
        (BOTH, {"subscribe": None, "subscribePattern": "a["}, "not a regular expression"),
        (BOTH, {"subscribe": None, "assign": "t"}, "is not JSON"),
        (BOTH, {"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        (BOTH, {"colour": "blue"}, "unknown option colour"),
        (BOTH, {"startingOffsets": "earlyest"}, "expected earliest, latest, group"),
        (BOTH, {"startingOffsets": '{"t": 1}'}, "needs its partitions"),
        (BOTH, {"startingTimestamp": "today"}, "milliseconds since 1970"),
        (BOTH, {"startingOffsetsByTimestampStrategy": "earliest"}, "expected error or latest"),
        (BOTH, {"failOnDataLoss": "yes"}, "expected true or false"),
        (BOTH, {"includeHeaders": "1"}, "expected true or false"),
        (BOTH, {"minPartitions": "0"}, "1 or more"),
        (BOTH, {"minPartitions": "many"}, "whole number"),
        (BOTH, {"maxRecordsPerPartition": "0"}, "1 or more"),
        (BOTH, {"maxOffsetsPerTrigger": "-1"}, "0 or more"),
        (BOTH, {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}, "lower it"),
        (BOTH, {"maxTriggerDelay": "soon"}, "expected a duration"),
        (BOTH, {"fetchOffset.numRetries": "0"}, "1 or more"),
        (BOTH, {"kafka.auto.offset.reset": "earliest"}, "startingOffsets=earliest"),
        (BOTH, {"kafka.enable.auto.commit": "true"}, "commitOffsets=progress"),
        (BOTH, {"kafka.interceptor.classes": "x"}, "not supported"),
        (BOTH, {"kafka.key.deserializer": "x"}, "cast"),
        (BOTH, {"kafka.value.deserializer": "x"}, "cast"),
        (BOTH, {"kafka.isolation.level": "committed"}, "committed for kafka.isolation.level"),
        (BOTH, {"kafka.security.protocol": "TLS"}, "TLS for kafka.security.protocol"),
        (BOTH, {"startingOffsets": "group"}, "set kafka.group.id"),
        (BOTH, {"groupMissing": "latest"}, "requires startingOffsets=group"),
        ((False,), {"commitOffsets": "transaction"}, "is for streams"),
        (BOTH, {"commitOffsets": "always"}, "expected none or progress or transaction"),
        (BOTH, {"decode": "consumer_offsets"}, "needs option table"),
        (BOTH, {"table": "lag"}, "table needs option decode"),
        ((True,), {"commitOffsets": "progress"}, "set kafka.group.id"),
        ((True,), {"endingOffsets": "latest"}, "no end"),
        ((True,), {"endingTimestamp": "1"}, "no end"),
        ((True,), {"endingOffsetsByTimestamp": '{"t":{"0":1}}'}, "no end"),
        ((True,), {"filterPushdown": "true"}, "batches only"),
        ((True,), {"latestOffset.maxWaitMs": "-1"}, "0 or more"),
        ((False,), {"commitOffsets": "progress", "kafka.group.id": "g"}, "stream"),
        ((False,), {"startingOffsets": "latest"}, "expected earliest, or JSON"),
        ((False,), {"startingOffsets": '{"t":{"0":-1}}'}, "cannot start at latest"),
        ((False,), {"endingOffsets": "earliest"}, "expected latest"),
        ((False,), {"endingOffsets": '{"t":{"0":-2}}'}, "cannot end at earliest"),
        (
            (False,),
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "before its start at 5",
        ),
        (
            (False,),
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":7}}'},
            "must name the same partitions",
        ),
        ((False,), {"startingTimestamp": "5", "endingTimestamp": "4"}, "swap them"),
        (
            (False,),
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
            "before its start at 5",
        ),
    ],
)
def test_a_wrong_source_option_says_what_to_write(
    streaming: tuple[bool, ...], given: dict[str, str | None], said: str
) -> None:
    options = {name: text for name, text in {**TOPIC, **given}.items() if text is not None}
    for is_streaming in streaming:
        with pytest.raises(ConfigError) as refused:
            source_options(options, is_streaming=is_streaming)
        assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka.bootstrap.servers": None}, "is missing"),
        ({"topic": "  "}, "option topic is empty"),
        ({"delivery": "exactly-once"}, "needs option transactionalId"),
        (
            {"delivery": "exactly-once", "transactionalId": "x", "txn.mode": "each"},
            "expected shared or per-task",
        ),
        ({"delivery": "exactly-once", "transactionalId": "x", "commitGroup": " "}, "commitGroup is empty"),
        (
            {"delivery": "exactly-once", "transactionalId": "x", "kafka.acks": "1"},
            "kafka.",
        ),
        ({"kafka.transaction.timeout.ms": "5"}, "requires delivery=exactly-once"),
        ({"delivery": "once"}, "expected at-least-once or exactly-once"),
        ({"transactionalId": "x"}, "requires delivery=exactly-once"),
        ({"txn.mode": "shared"}, "requires delivery=exactly-once"),
        ({"commitGroup": "g"}, "requires delivery=exactly-once"),
        ({"batchToken": "b"}, "requires delivery=exactly-once"),
        ({"kafka.transactional.id": "x"}, "transactionalId=NAME"),
        ({"kafka.key.serializer": "x"}, "STRING or BINARY"),
        ({"kafka.acks": "2"}, "2 for kafka.acks"),
        ({"kafka.compression.type": "rar"}, "rar for kafka.compression.type"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "kafka.acks=1 and idempotence"),
        ({"topics": "t"}, "did you mean topic?"),
    ],
)
def test_a_wrong_sink_option_says_what_to_write(given: dict[str, str | None], said: str) -> None:
    options = {name: text for name, text in {**BASE, **given}.items() if text is not None}
    with pytest.raises(ConfigError) as refused:
        sink_options(options)
    assert said in str(refused.value)


def test_an_option_of_the_other_side_is_told_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        sink_options({**BASE, "topic": " t ", "includeHeaders": "true", "checkpointLocation": "/c"})
        source_options({**TOPIC, "topic": "t"}, is_streaming=True)
    assert "includeHeaders has no effect on a sink" in caplog.text
    assert "topic has no effect on a source" in caplog.text


def test_a_setting_of_another_client_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    options = {**TOPIC, "kafka.receive.buffer.bytes.test": "1", "kafka.fetch.max.bytes": "100"}
    with caplog.at_level(logging.WARNING):
        first = source_options(options, is_streaming=True)
        source_options(options, is_streaming=True)
    assert caplog.text.count("kafka.receive.buffer.bytes.test has no effect") == 1
    assert first.client == {"bootstrap.servers": "localhost:9092", "fetch.max.bytes": "100"}


def test_the_schema_needs_one_option_only() -> None:
    assert source_options({**TOPIC, "INCLUDEHEADERS": "True"}, is_streaming=True).includes_headers
    assert not source_options(TOPIC, is_streaming=True).includes_headers
    with pytest.raises(ConfigError, match="expected true or false"):
        source_options({**TOPIC, "includeHeaders": "on"}, is_streaming=True)


def test_an_exactly_once_sink_has_a_long_transaction_by_default() -> None:
    options = sink_options({**BASE, "topic": "t", "delivery": "exactly-once", "transactionalId": "x"})
    assert options.is_exactly_once
    assert options.client["transaction.timeout.ms"] == "900000"
    assert options.client["transactional.id"] == "x"
    assert not sink_options({**BASE, "topic": "t"}).is_exactly_once
