"""Topics, configurations and offsets, managed by each client library."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop.harness import (
    CLIENTS,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    START_MS,
    TOPIC_EXISTS,
    UNKNOWN_TOPIC,
    ClientError,
    ClientProcess,
    Record,
)
from klamm.testing import wait_until

ClientFactory = Callable[[str], ClientProcess]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_topic_lives_from_creation_to_deletion(client: ClientFactory, topic: str, name: str) -> None:
    under_test = client(name)

    def partitions() -> int | str:
        try:
            found: int = under_test.ask("describe_topic", topic=topic)["partitions"]
        except ClientError as error:
            return str(error)
        return found

    def config(config_name: str) -> str:
        found: str = under_test.ask("describe_config", topic=topic, name=config_name)["value"]
        return found

    under_test.create_topic(topic, 3, retention_ms="3600000", cleanup_policy="compact")
    wait_until(partitions, equals=3)
    assert config("cleanup.policy") == "compact"
    assert config("segment.bytes") == "1073741824"

    under_test.ask("create_partitions", topic=topic, total=5)
    wait_until(partitions, equals=5)

    under_test.ask("alter_config", topic=topic, name="retention.ms", value="7200000")
    wait_until(lambda: config("retention.ms"), equals="7200000")

    under_test.ask("delete_topic", topic=topic)
    wait_until(lambda: client("java").refusal("describe_topic", topic=topic), equals=UNKNOWN_TOPIC)


@pytest.mark.parametrize("name", CLIENTS)
def test_impossible_wishes_are_refused_with_kafkas_codes(
    client: ClientFactory, topic: str, name: str
) -> None:
    under_test = client(name)
    under_test.create_topic(topic, 2)
    assert under_test.refusal("create_topic", topic=topic, partitions=1, configs={}) == TOPIC_EXISTS
    assert under_test.refusal("create_partitions", topic=topic, total=1) == INVALID_PARTITIONS
    assert under_test.refusal("delete_topic", topic=f"{topic}-missing") == UNKNOWN_TOPIC
    bad_config = {"topic": f"{topic}-bad", "partitions": 1, "configs": {"retention.ms": "soon"}}
    assert under_test.refusal("create_topic", **bad_config) == INVALID_CONFIG


@pytest.mark.parametrize("name", CLIENTS)
def test_offsets_are_found_by_time(client: ClientFactory, topic: str, name: str) -> None:
    under_test = client(name)
    client("confluent").create_topic(topic)
    times_ms = [START_MS, START_MS + 10, START_MS + 20, START_MS + 30]
    records = [Record(timestamp_ms=time_ms, key=None, value=b"tick") for time_ms in times_ms]
    client("java").produce(topic, records[:2], compression="zstd")
    client("java").produce(topic, records[2:])

    assert under_test.offset_at(topic, "earliest") == 0
    assert under_test.offset_at(topic, "latest") == 4
    assert [under_test.offset_at(topic, START_MS + after) for after in (0, 1, 10, 11, 30)] == [0, 1, 1, 2, 3]
    # Nothing is that young: some libraries say so, others answer the end of the log.
    assert under_test.offset_at(topic, START_MS + 31) in {-1, 4}


def test_the_youngest_record_is_found_by_its_timestamp(client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic)
    times_ms = [START_MS, START_MS + 30, START_MS + 20]
    client("java").produce(
        topic, [Record(timestamp_ms=time_ms, key=None, value=b"tick") for time_ms in times_ms]
    )
    assert client("java").offset_at(topic, "max_timestamp") == 1


@pytest.mark.parametrize("name", CLIENTS)
def test_records_below_an_offset_can_be_deleted(client: ClientFactory, topic: str, name: str) -> None:
    under_test = client(name)
    client("confluent").create_topic(topic)
    records = [Record(timestamp_ms=START_MS + n, key=None, value=bytes([n])) for n in range(10)]
    client("java").produce(topic, records)

    assert under_test.ask("delete_records", topic=topic, partition=0, before=4) == {"low_watermark": 4}
    assert under_test.offset_at(topic, "earliest") == 4
    assert under_test.consume(topic, 6, offset=4) == records[4:]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_topic_created_again_starts_anew(client: ClientFactory, topic: str, name: str) -> None:
    under_test = client(name)
    record = Record(timestamp_ms=START_MS, key=b"k", value=b"v")
    for _ in range(2):
        under_test.create_topic(topic)
        assert under_test.produce(topic, [record]) == [0]
        under_test.ask("delete_topic", topic=topic)
