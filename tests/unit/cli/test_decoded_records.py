"""`klamm consume --decode` and `--format kafka`: the coordinators' topics, read live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.cli.decoded_records import as_kafka, decoded
from klamm.client.consumer.records import ConsumerRecord

# tests/interop/test_groups_tools.py compares the lines with those of Kafka's own formatters.
OFFSET_KEY = bytes.fromhex("0001000167000174") + bytes(4)
SEEN = [
    (
        "__consumer_offsets",
        OFFSET_KEY,
        # version 1: offset, metadata, commit and expire timestamp
        bytes.fromhex("0001") + (7).to_bytes(8) + b"\0\1m" + (1000).to_bytes(8) + (2000).to_bytes(8),
        '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":1,"data":'
        '{"offset":7,"metadata":"m","commitTimestamp":1000,"expireTimestamp":2000}}}',
    ),
    (
        "__consumer_offsets",
        OFFSET_KEY,
        None,
        '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":null}',
    ),
    (
        "__transaction_state",
        b"\0\0\0\1x",
        None,
        '{"key":{"type":0,"data":{"transactionalId":"x"}},"value":null}',
    ),
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with klamm.Broker(settings={"num.partitions": "2"}) as broker:
        address = broker.bootstrap
        with klamm.Producer(bootstrap_servers=address, transactional_id="x") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("t", b"v", partition=0)
                producer.send_offsets_to_transaction({klamm.TopicPartition("t", 1): 7}, "in-transactions")
            producer.begin_transaction()
            producer.send_offsets_to_transaction({klamm.TopicPartition("t", 1): 8}, "in-transactions")
            producer.abort_transaction()
        consumer = klamm.Consumer(
            "t",
            bootstrap_servers=address,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        with consumer:
            assert consumer.poll(30)
            consumer.commit({klamm.TopicPartition("t", 0): 2})
        yield address


def consume(bootstrap: str, *arguments: str) -> Result:
    options = ("--from-beginning", "--exit", "--bootstrap", bootstrap)
    return CliRunner().invoke(app, ["consume", *arguments, *options])


def lines(bootstrap: str, *arguments: str) -> list[Any]:
    done = consume(bootstrap, *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def a_record(topic: str, key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord(
        topic=topic,
        partition=3,
        offset=5,
        timestamp_ms=9,
        timestamp_type=0,
        key=key,
        value=value,
        headers=(),
        leader_epoch=0,
    )


def test_offsets_and_registrations_are_printed_decoded(bootstrap: str) -> None:
    found = lines(bootstrap, "__consumer_offsets", "--decode")
    commits = [each for each in found if each["record"] == "offset_commit"]
    assert {(each["group"], each["topic"], each["committed_offset"]) for each in commits} >= {("g", "t", 2)}
    stable = [each for each in found if each["record"] == "group_metadata" and each["members"]]
    assert stable[0]["members"][0]["assignment"] == ["t-0", "t-1"]
    assert all(each["log"].startswith("__consumer_offsets-") for each in found)
    assert {"log_offset", "log_timestamp_ms"} <= commits[0].keys()


def test_transactions_are_printed_decoded(bootstrap: str) -> None:
    found = lines(bootstrap, "__transaction_state", "--decode")
    states = [each["state"] for each in found]
    assert states[:3] == ["Empty", "Ongoing", "Ongoing"]
    assert [each for each in states if each.startswith("Complete")] == ["CompleteCommit", "CompleteAbort"]


@pytest.mark.parametrize("more", [(), ("--committed",)])
def test_markers_are_printed_with_their_producer_and_their_coordinators_epoch(
    bootstrap: str, more: tuple[str, ...]
) -> None:
    found = lines(bootstrap, "__consumer_offsets", "--decode", *more)
    markers = [each for each in found if each["record"] == "marker"]
    assert [each["marker"] for each in markers] == ["commit", "abort"]
    assert {each["coordinator_epoch"] for each in markers} == {0}
    assert len({each["producer_id"] for each in markers}) == 1
    offsets = [each["log_offset"] for each in found if each["log"] == markers[0]["log"]]
    assert offsets == sorted(offsets)
    commits = [each["committed_offset"] for each in found if each.get("group") == "in-transactions"]
    assert commits == ([7] if more else [7, 8])


def test_a_consumer_is_given_no_markers(bootstrap: str) -> None:
    with klamm.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0)])
        assert [(record.offset, record.headers) for record in consumer.poll(30)] == [(0, ())]


def test_kafkas_form_has_key_and_value_with_their_versions(bootstrap: str) -> None:
    found = lines(bootstrap, "__consumer_offsets", "--format", "kafka")
    commits = [each for each in found if each["key"]["type"] == 1]
    assert list(commits[0]["value"]["data"]) == [
        "offset", "leaderEpoch", "metadata", "commitTimestamp", "topicId",
    ]  # fmt: skip
    groups = [each for each in found if each["key"]["type"] == 2]
    assert groups[0]["value"]["data"]["members"][0]["assignment"] == "AAMAAAABAAF0AAAAAgAAAAAAAAAB/////w=="
    states = lines(bootstrap, "__transaction_state", "--format", "kafka")
    assert {each["value"]["data"]["transactionStatus"] for each in states} >= {0, 1, 2, 4}
    assert [each["value"]["data"]["transactionPartitions"] for each in states[:2]] == [
        None,
        [{"topic": "t", "partitionIds": [0]}],
    ]


@pytest.mark.parametrize(("topic", "key", "value", "line"), SEEN)
def test_a_record_is_printed_as_kafkas_formatter_does(
    topic: str, key: bytes, value: bytes | None, line: str
) -> None:
    assert as_kafka(a_record(topic, key, value)) == f"{line}\n".encode()


def test_what_cannot_be_decoded_is_shown_as_bytes_with_the_reason() -> None:
    broken = a_record("__consumer_offsets", OFFSET_KEY, b"\0\1")
    found = json.loads(decoded(broken))
    assert found["error"]
    assert (found["log"], found["log_offset"]) == ("__consumer_offsets-3", 5)
    assert as_kafka(broken) == b""
    unknown = json.loads(decoded(a_record("__consumer_offsets", b"\x7f\x7f", b"v")))
    assert (unknown["record"], unknown["value"]) == ("unknown", "v")


@pytest.mark.parametrize("option", ["--decode", "--format=kafka"])
def test_topics_of_users_are_refused(bootstrap: str, option: str) -> None:
    done = consume(bootstrap, "t", option)
    assert done.exit_code == 2
    assert "t cannot be decoded" in done.stderr
