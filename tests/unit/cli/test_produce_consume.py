"""`klamm produce` and `klamm consume`, against a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

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
    command = [topic, "--create-topic", "--bootstrap", bootstrap, *options]
    return CliRunner().invoke(produce.app, command, input=lines)


def read(bootstrap: str, topic: str, *options: str) -> Result:
    return CliRunner().invoke(consume.app, [topic, "--bootstrap", bootstrap, *options])


def test_lines_go_in_and_come_out(bootstrap: str, topic: str) -> None:
    assert send(bootstrap, topic, "one\ntwo\n\nthree").exit_code == 0
    result = read(bootstrap, topic, "--from-beginning", "-n", "4")
    assert result.stdout == "one\ntwo\n\nthree\n"


def test_a_topic_that_does_not_exist_is_asked_for_or_created(bootstrap: str, topic: str) -> None:
    def sent(name: str, *options: str) -> Result:
        return CliRunner().invoke(produce.app, [name, "--bootstrap", bootstrap, *options], input="a line\n")

    assert send(bootstrap, topic, "one\n", "--partitions", "3").exit_code == 0
    misspelt = sent(f"{topic}x")
    assert (misspelt.exit_code, misspelt.stdout) == (1, "")
    assert f"topic {topic}x does not exist: did you mean {topic}? Else add --create-topic" in misspelt.stderr
    assert sent(topic).exit_code == 0
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([topic])[topic].partitions) == 3
        assert f"{topic}x" not in admin.list_topics()


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
        ("{", ["--json"], "line 1: invalid JSON"),
        ("[]", ["--json"], "expected an object"),
        ('{"vlaue": 1}', ["--json"], "unknown field 'vlaue'"),
        ('{"value": 1, "partition": -1}', ["--json"], "partition is a number"),
        ('{"value_base64": "?"}', ["--json"], "not base64"),
        ('{"value": 1, "headers": 3}', ["--json"], "headers are"),
        ("x", ["--acks", "2"], "acks"),
        ("x", ["--whole", "-D", ";", __file__], "--whole cannot be combined with --delimiter"),
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
        (["-o", "9"], 2, "no partition has offset 9: topic-"),
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
    assert f"unknown topic {topic}" in result.stderr


def test_reading_ends_at_the_end_of_what_was_there(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, "0\n1\n")
    result = read(bootstrap, topic, "--from-beginning", "-e")
    assert (result.stdout, result.exit_code) == ("0\n1\n", 0)


def test_a_group_reads_to_the_end_and_goes_on_where_it_was(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, "0\n1\n")
    options = ("--from-beginning", "-e", "--group", f"group-of-{topic}")
    assert read(bootstrap, topic, *options).stdout == "0\n1\n"
    send(bootstrap, topic, "2\n")
    assert read(bootstrap, topic, *options).stdout == "2\n"


def test_the_time_of_a_rebalance_does_not_count_as_silence(topic: str) -> None:
    settings = {"group.initial.rebalance.delay.ms": "1500"}
    with klamm.Broker(settings=settings) as broker:
        send(broker.bootstrap, topic, "0\n")
        result = read(broker.bootstrap, topic, "--from-beginning", "--group", "g", "--timeout", "1")
    assert (result.stdout, result.exit_code) == ("0\n", 0)


@pytest.mark.parametrize("options", [[], ["--group", "g"], ["--group", "g", "--timeout", "1"]])
def test_a_broker_that_is_away_is_an_error(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "DEFAULT_TIMEOUT", 0.3)
    with klamm.Broker() as broker:
        gone = broker.bootstrap
    result = read(gone, "orders", *options)
    assert result.exit_code == 1
    assert gone in result.stderr


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", "0\n1\n2\n"),
        ("end", ""),
        ("1", "1\n2\n"),
        ("-1", "2\n"),
        ("@2000", "1\n2\n"),
        ("@1970-01-01T00:00:02.5", "2\n"),
        ("@9000", ""),
        ("@P10000W", "0\n1\n2\n"),
    ],
)
def test_where_reading_starts_can_be_said_in_words_and_times(topic: str, start: str, expected: str) -> None:
    with klamm.Broker(settings={"log.retention.ms": "-1"}) as broker:
        lines = [f'{{"value": "{n}", "timestamp_ms": {1000 * (n + 1)}}}' for n in range(3)]
        send(broker.bootstrap, topic, "\n".join(lines), "--json")
        assert read(broker.bootstrap, topic, "-o", start, "-e").stdout == expected


def test_topics_can_be_chosen_by_a_pattern(bootstrap: str, topic: str) -> None:
    send(bootstrap, f"{topic}.a", "a\n")
    send(bootstrap, f"{topic}.b", "b\n")
    for options in ([], ["--group", f"group-of-{topic}"]):
        result = read(bootstrap, rf"^{topic}\..*", "--from-beginning", "-e", *options)
        assert sorted(result.stdout.split()) == ["a", "b"]
    assert "no topic matches" in read(bootstrap, "^nothing-like-this", "-e").stderr


def test_values_come_out_byte_for_byte(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, b"\xff\x00\xe4\x1eab\n\x1e", "-D", "\\x1e")
    result = read(bootstrap, topic, "--from-beginning", "-e", "--delimiter", "\\x1e")
    assert result.stdout_bytes == b"\xff\x00\xe4\x1eab\n\x1e"


def test_columns_and_formats_show_what_belongs_to_a_record(topic: str) -> None:
    line = '{"key": "k", "value": "v", "headers": {"a": "1", "b": null}, "timestamp_ms": 1700000000000}'
    with klamm.Broker(settings={"log.retention.ms": "-1"}) as broker:
        send(broker.bootstrap, topic, line, "--json")
        options = ("--from-beginning", "-e")
        columns = read(broker.bootstrap, topic, *options, "--keys", "--headers", "--timestamps").stdout
        assert columns == "1700000000000\ta=1,b=\tk\tv\n"
        text = r"%t-%p@%o %T %k(%K)=%s(%S) %h %%\n"
        shown = read(broker.bootstrap, topic, *options, "-f", text, "--null", "NULL")
        assert shown.stdout == f"{topic}-0@0 1700000000000 k(1)=v(1) a=1,b=NULL %\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-f", "%q"], "unknown format code %q"),
        (["-f", "50%"], "ends in a lone %"),
        (["-D", "\\q"], "unknown escape"),
        (["-o", "soon"], "invalid offset 'soon'"),
        (["-o", "@soon"], "expected a time"),
        (["-o", "5", "--from-beginning"], "--from-beginning cannot be combined with --offset"),
        (["--json", "--keys", "-D", ";"], "--json cannot be combined with --keys, --delimiter"),
        (["-f", "%s", "--timestamps"], "--format cannot be combined with --timestamps"),
        (["-f", "%s", "--json"], "--format cannot be combined with --json"),
        (["-f", "kafka", "--null", "-"], "--format cannot be combined with --null"),
        (["--decode", "--headers"], "--decode cannot be combined with --headers"),
    ],
)
def test_words_that_make_no_sense_are_refused(options: list[str], complaint: str) -> None:
    result = read("127.0.0.1:1", "orders", *options)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_null_values_keys_and_files_can_be_sent(bootstrap: str, topic: str, tmp_path: Path) -> None:
    assert send(bootstrap, topic, "anna:NULL\nNULL:1\n", "-k", ":", "--null", "NULL").exit_code == 0
    lines, picture = tmp_path / "lines", tmp_path / "picture"
    lines.write_bytes(b"x\ny\n")
    picture.write_bytes(b"\n\xff\n")
    assert send(bootstrap, topic, "", str(lines)).exit_code == 0
    assert send(bootstrap, topic, "", str(picture), "--whole", "--key", "logo").exit_code == 0
    printed = read(bootstrap, topic, "--from-beginning", "-e", "--json").stdout
    facts = [json.loads(line) for line in printed.splitlines()]
    assert [(fact["key"], fact.get("value")) for fact in facts] == [
        ("anna", None),
        (None, "1"),
        (None, "x"),
        (None, "y"),
        ("logo", None),
    ]
    assert facts[4]["value_base64"] == "Cv8K"
    missing = send(bootstrap, topic, "", str(tmp_path / "missing"))
    assert (missing.exit_code, "cannot read" in missing.stderr) == (1, True)


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
