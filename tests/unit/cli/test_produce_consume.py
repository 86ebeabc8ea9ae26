"""`klamm produce` and `klamm consume`, against a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli import consume, produce
from klamm.cli.record_json import NewRecord, from_line, to_line
from klamm.client.consumer.records import ConsumerRecord

_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with klamm.Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def send(bootstrap: str, topic: str, lines: str | bytes, *options: str) -> Result:
    return CliRunner().invoke(produce.app, [topic, "--bootstrap", bootstrap, *options], input=lines)


def read(bootstrap: str, topic: str, *options: str) -> Result:
    return CliRunner().invoke(consume.app, [topic, "--bootstrap", bootstrap, *options])


def test_lines_go_in_and_come_out(bootstrap: str, topic: str) -> None:
    assert send(bootstrap, topic, "one\ntwo\n\nthree").exit_code == 0
    result = read(bootstrap, topic, "--from-beginning", "-n", "4")
    assert result.stdout == "one\ntwo\n\nthree\n"


def test_keys_headers_and_a_partition_can_be_given(bootstrap: str, topic: str) -> None:
    sent = send(bootstrap, topic, "anna:1\nbert:2:3\n", "--key-separator", ":", "-H", "from=test", "-p", "0")
    assert sent.exit_code == 0
    result = read(bootstrap, topic, "--from-beginning", "-n", "2", "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["key"], first["value"], first["partition"], first["offset"]) == ("anna", "1", 0, 0)
    assert second["value"] == "2:3"
    assert first["headers"] == [{"name": "from", "value": "test"}]
    assert read(bootstrap, topic, "--from-beginning", "-n", "1", "--keys").stdout == "anna\t1\n"


def test_what_is_printed_as_json_can_be_sent_as_json(bootstrap: str, topic: str) -> None:
    lines = [
        '{"key": "k", "value": {"a": 1}, "headers": {"x": null}, "timestamp_ms": 5}',
        '{"value": null}',
        '{"value_base64": "/wA="}',
    ]
    assert send(bootstrap, topic, "\n".join(lines), "--json").exit_code == 0
    printed = read(bootstrap, topic, "--from-beginning", "-n", "3", "--json").stdout
    facts = [json.loads(line) for line in printed.splitlines()]
    assert (facts[0]["value"], facts[0]["timestamp_ms"]) == ('{"a":1}', 5)
    assert (facts[1]["value"], facts[2]["value_base64"]) == (None, "/wA=")
    copy = topic + "-copy"
    assert send(bootstrap, copy, printed, "--json").exit_code == 0
    again = read(bootstrap, copy, "--from-beginning", "-n", "3", "--json").stdout
    assert [{**json.loads(line), "topic": topic} for line in again.splitlines()] == facts


def test_reading_starts_at_an_offset_or_so_many_before_the_end(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, "0\n1\n2\n3\n")
    assert read(bootstrap, topic, "-o", "2", "-n", "2").stdout == "2\n3\n"
    assert read(bootstrap, topic, "-o", "-1", "-n", "1").stdout == "3\n"
    assert read(bootstrap, topic, "-o", "-99", "-n", "1").stdout == "0\n"


def test_reading_stops_when_nothing_has_come_for_a_while(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, "0\n")
    result = read(bootstrap, topic, "--from-beginning", "--timeout", "0.3")
    assert (result.stdout, result.exit_code) == ("0\n", 0)


@pytest.mark.parametrize(
    ("lines", "options", "complaint"),
    [
        ("no key here", ["-k", ":"], "line 1 has no ':'"),
        ("{", ["--json"], "line 1: not JSON"),
        ("[]", ["--json"], "a record is an object"),
        ('{"vlaue": 1}', ["--json"], "unknown field 'vlaue'"),
        ('{"value": 1, "partition": -1}', ["--json"], "partition is a number"),
        ('{"value_base64": "?"}', ["--json"], "not base64"),
        ('{"value": 1, "headers": 3}', ["--json"], "headers are"),
        ("x", ["--acks", "2"], "acks"),
        ("x", ["--set", "nosuch=1"], "nosuch"),
    ],
)
def test_what_cannot_be_sent_is_said_in_one_line(
    bootstrap: str, topic: str, lines: str, options: list[str], complaint: str
) -> None:
    result = send(bootstrap, topic, lines, *options)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "exit_code", "complaint"),
    [
        (["-p", "7"], 1, "no 7"),
        (["-g", "g", "-o", "0"], 2, "--group"),
        (["--set", "isolation.level=none"], 2, "isolation.level"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    bootstrap: str, topic: str, options: list[str], exit_code: int, complaint: str
) -> None:
    send(bootstrap, topic, "x\n")
    result = read(bootstrap, topic, *options)
    assert result.exit_code == exit_code
    assert complaint in result.stderr


def test_a_topic_that_is_not_there_is_not_made_by_reading_it(bootstrap: str, topic: str) -> None:
    result = read(bootstrap, topic)
    assert result.exit_code == 1
    assert f"there is no topic {topic}" in result.stderr


def test_bytes_that_are_no_text_stay_readable() -> None:
    record = ConsumerRecord("t", 0, 3, 9, 0, b"\xff", b"text", (("h", None),), 0)
    assert json.loads(to_line(record)) == {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "timestamp_ms": 9,
        "key_base64": "/w==",
        "value": "text",
        "headers": [{"name": "h", "value": None}],
    }
    assert from_line(to_line(record)) == NewRecord(b"text", b"\xff", (("h", None),), 0, 9)
