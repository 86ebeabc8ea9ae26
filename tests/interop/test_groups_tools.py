"""Kafka's group tools and consumers against the coordinator."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interop.groups import Member
from interop.harness import START_MS, ClientProcess, Record
from interop.kafka_tools import run_kafka_tool
from klamm.cli.app import app

pytestmark = pytest.mark.groups

ClientFactory = Callable[[str], ClientProcess]


def output(done: subprocess.CompletedProcess[str]) -> str:
    """What a tool printed, if it went well."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def groups_tool(bootstrap: str, *arguments: str) -> str:
    command = ("consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap)
    return output(run_kafka_tool(*command, *arguments))


def klamm(bootstrap: str, *arguments: str) -> str:
    """What a command of klamm's own prints."""
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", bootstrap])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(table: str, *columns: str) -> list[tuple[str, ...]]:
    """Some columns of a table as the groups tool prints it."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    start = next(index for index, line in enumerate(lines) if columns[0] in line)
    positions = [lines[start].index(column) for column in columns]
    return [tuple(line[position] for position in positions) for line in lines[start + 1 :]]


def fill(client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic, 2)
    records = [Record(timestamp_ms=START_MS + n, key=b"k%d" % n, value=b"v%d" % n) for n in range(10)]
    for partition in range(2):
        client("confluent").produce(topic, records, partition=partition)


def read_with_console_consumer(bootstrap: str, topic: str, group: str, count: int) -> str:
    return output(
        run_kafka_tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
            *("--max-messages", str(count), "--timeout-ms", "20000"),
        )
    )


def test_a_group_that_has_gone_is_listed_described_reset_and_deleted(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    group = f"readers-of-{topic}"
    fill(client, topic)
    assert len(read_with_console_consumer(bootstrap, topic, group, 20).splitlines()) == 20

    listed = groups_tool(bootstrap, "--list", "--state")
    assert (group, "Empty") in rows(listed, "GROUP", "STATE")
    columns = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    described = groups_tool(bootstrap, "--describe", "--group", group)
    assert sorted(rows(described, *columns)) == [
        (group, topic, "0", "10", "10", "0"),
        (group, topic, "1", "10", "10", "0"),
    ]

    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    planned = groups_tool(bootstrap, *reset, "--to-earliest", "--dry-run")
    assert sorted(rows(planned, "PARTITION", "NEW-OFFSET")) == [("0", "0"), ("1", "0")]
    groups_tool(bootstrap, *reset, "--shift-by", "-3", "--execute")
    described = groups_tool(bootstrap, "--describe", "--group", group)
    assert sorted(rows(described, "PARTITION", "CURRENT-OFFSET", "LAG")) == [("0", "7", "3"), ("1", "7", "3")]

    deleted = groups_tool(bootstrap, "--delete", "--group", group)
    assert "successful" in deleted
    assert group not in groups_tool(bootstrap, "--list").splitlines()


@pytest.mark.parametrize(
    "target",
    [
        ("--to-current",),
        ("--to-offset", "500"),
        ("--to-datetime", "2020-01-31T08:00:00.000"),
        ("--by-duration", "PT30M"),
        ("--from-file", "offsets.csv"),
    ],
    ids=lambda target: target[0].removeprefix("--"),
)
def test_klamm_offsets_reset_plans_what_kafkas_tool_plans(
    bootstrap: str,
    client: ClientFactory,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: tuple[str, ...],
) -> None:
    group = f"movers-of-{topic}"
    fill(client, topic)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "committed.csv").write_text(f"{topic},1,4\n")  # and nothing for the other partition
    (tmp_path / "offsets.csv").write_text(f"{topic},0,3\n{topic},1,30\n")
    klamm(bootstrap, "offsets", "import", group, "committed.csv", "--execute")

    which = () if target[0] == "--from-file" else ("--topic", topic)
    theirs = groups_tool(bootstrap, "--reset-offsets", "--group", group, "--dry-run", *which, *target)
    ours = json.loads(klamm(bootstrap, "offsets", "reset", group, "--json", *which, *target))
    assert sorted(rows(theirs, "TOPIC", "PARTITION", "NEW-OFFSET")) == [
        (row["topic"], str(row["partition"]), str(row["to"])) for row in ours
    ]


def test_a_living_group_is_described_with_its_members(
    bootstrap: str, client: ClientFactory, topic: str, tmp_path: Path
) -> None:
    group = f"readers-of-{topic}"
    fill(client, topic)
    member = Member("confluent", bootstrap, group=group, topic=topic, stderr_path=tmp_path / "member.log")
    try:
        while len(member.records) < 20:
            member.catch_up()
        state = groups_tool(bootstrap, "--describe", "--group", group, "--state")
        assert rows(state, "GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS") == [
            (group, "range", "Stable", "1")
        ]
        members = groups_tool(bootstrap, "--describe", "--group", group, "--members", "--verbose")
        assert rows(members, "GROUP", "CLIENT-ID", "#PARTITIONS") == [(group, "rdkafka", "2")]
        assert f"{topic}:0,1" in members

        reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        refused = run_kafka_tool(
            "consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *reset
        )
        assert "Stable" in refused.stdout + refused.stderr, "a living group is not reset"
    finally:
        member.close()


def test_the_offsets_formatter_prints_what_was_committed(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    group = f"readers-of-{topic}"
    fill(client, topic)
    read_with_console_consumer(bootstrap, topic, group, 20)
    printed = run_kafka_tool(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter", "--timeout-ms", "3000"),
    ).stdout
    committed = [line for line in printed.splitlines() if f'"{group}"' in line and f'"{topic}"' in line]
    assert any('"partition":1' in line and '"offset":10' in line for line in committed), printed[-2000:]


def test_klamm_consume_prints_what_kafkas_formatters_print(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    group = f"readers-of-{topic}"
    fill(client, topic)
    read_with_console_consumer(bootstrap, topic, group, 20)
    delete = ("--delete-offsets", "--group", group, "--topic", topic)
    output(run_kafka_tool("consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *delete))
    for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
        printed = run_kafka_tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "3000"),
        ).stdout
        theirs = {
            line for line in printed.replace('}{"key"', '}\n{"key"').splitlines() if f'"{group}"' in line
        }
        done = CliRunner().invoke(
            app,
            ["consume", "__consumer_offsets", "--format", "kafka", "-b", bootstrap, "--from-beginning", "-e"],
        )
        assert theirs
        assert theirs <= set(done.stdout.splitlines()), formatter
        assert any('"value":null' in line for line in theirs) is (formatter == "OffsetsMessageFormatter")


def test_kafka_consumer_perf_reads_every_record(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic, 2)
    records = [Record(timestamp_ms=START_MS + n, key=None, value=bytes(100)) for n in range(1000)]
    for partition in range(2):
        client("confluent").produce(topic, records, partition=partition)
    command = ("ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--hide-header")
    figures = output(run_kafka_tool(*command, "--num-records", "2000", "--timeout", "20000"))
    assert re.split(r",\s*", figures.strip())[4] == "2000"
