"""`klamm move` between real brokers: records, configurations, committed offsets, resuming, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.cli.move import copying
from klamm.client.admin.model import NewTopic


@pytest.fixture
def source() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def fill(
    broker: klamm.Broker, topic: str = "orders", *, start: int = 0, count: int = 50, has_keys: bool = False
) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(start, start + count):
            producer.send(
                topic,
                None if number % 7 == 0 else b"value %d" % number,
                key=b"key %d" % number if number % 3 or has_keys else None,
                headers=[("n", b"%d" % number), ("none", None)] if number % 5 == 0 else None,
                partition=number % 2,
                timestamp_ms=1_000 + number,
            )
        producer.flush(30)


def create(broker: klamm.Broker, topic: str = "orders", **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, configs={"retention.ms": "-1", **settings})])


def read(broker: klamm.Broker, topic: str = "orders") -> list[list[tuple[Any, ...]]]:
    partitions = [klamm.TopicPartition(topic, each) for each in range(2)]
    found: list[list[tuple[Any, ...]]] = [[], []]
    with klamm.Consumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for record in consumer.poll(1):
                found[record.partition].append(
                    (record.timestamp_ms, record.timestamp_type, record.key, record.value, record.headers)
                )
    return found


def move(source: str, target: str, state: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["move", source, target, "--state", str(state), *more])


def moved(source: str, target: str, state: Path, *more: str) -> Any:
    done = move(source, target, state, "--json", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def test_records_configurations_and_offsets_arrive(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source, message_timestamp_type="CreateTime", cleanup_policy="compact")
    fill(source, has_keys=True)
    with klamm.Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 7, ("orders", 1): 25})
    done = moved(source.bootstrap, target.bootstrap, tmp_path / "state")
    assert done == {"topics": 1, "records": 50, "groups": 1, "checked": True}
    assert read(target) == read(source)
    with klamm.Admin(bootstrap_servers=target.bootstrap) as admin:
        offsets = {key: each.offset for key, each in admin.list_group_offsets("billing").items()}
        assert offsets == {("orders", 0): 7, ("orders", 1): 25}
        configs = admin.describe_configs("topic", "orders")["topic", "orders"]
        own = {name: entry.value for name, entry in configs.items() if entry.source == 1}
    assert own == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "compact",
        "retention.ms": "-1",
    }


def test_gaps_shift_offsets_and_committed_offsets_follow(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source)
    with klamm.Producer(bootstrap_servers=source.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        for turn in range(6):  # each has two records and a marker; every other one is aborted
            producer.begin_transaction()
            for number in range(2):
                producer.send("orders", b"%d/%d" % (turn, number), partition=0)
            producer.flush(30)
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    with klamm.Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 7})  # behind the first record of turn 2
    assert moved(source.bootstrap, target.bootstrap, tmp_path / "state")["records"] == 6
    assert [each[3] for each in read(target)[0]] == [b"0/0", b"0/1", b"2/0", b"2/1", b"4/0", b"4/1"]
    with klamm.Admin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.list_group_offsets("billing")[klamm.TopicPartition("orders", 0)].offset == 3


def test_a_second_run_copies_what_was_added(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source)
    fill(source)
    state = tmp_path / "state"
    assert moved(source.bootstrap, target.bootstrap, state)["records"] == 50
    assert moved(source.bootstrap, target.bootstrap, state)["records"] == 0
    fill(source, start=50, count=10)
    assert moved(source.bootstrap, target.bootstrap, state)["records"] == 10
    assert read(target) == read(source)


def test_a_run_that_was_killed_before_it_saved_is_resumed_without_a_second_copy(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source)
    fill(source)
    state = tmp_path / "state"
    moved(source.bootstrap, target.bootstrap, state, "--no-check")
    old = state.read_text()
    fill(source, start=50, count=30)
    moved(source.bootstrap, target.bootstrap, state)
    state.write_text(old)  # as if the second run had been killed between its records and its state
    assert moved(source.bootstrap, target.bootstrap, state)["records"] == 30
    assert read(target) == read(source)


def test_a_data_folder_is_moved_to_a_cluster_and_back(target: klamm.Broker, tmp_path: Path) -> None:
    with klamm.Broker(tmp_path / "data") as broker:
        create(broker)
        fill(broker)
        expected = read(broker)
    assert moved(str(tmp_path / "data"), target.bootstrap, tmp_path / "there")["records"] == 50
    assert moved(target.bootstrap, str(tmp_path / "copy"), tmp_path / "back")["records"] == 50
    with klamm.Broker(tmp_path / "copy") as broker:
        assert read(broker) == expected


def test_patterns_choose_topics_and_a_dry_run_copies_nothing(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    for topic in ("orders", "orders-old", "payments"):
        create(source, topic)
        fill(source, topic, count=4)
    state = tmp_path / "state"
    plan = moved(
        source.bootstrap, target.bootstrap, state, "--topic", "orders*", "--exclude", "*-old", "--dry-run"
    )
    assert [(each["topic"], each["offsets"]) for each in plan["topics"]] == [("orders", 4)]
    with klamm.Admin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.list_topics() == []
    done = move(source.bootstrap, target.bootstrap, state, "--topic", "nothing*")
    assert (done.exit_code, "no topic of the source matches nothing*" in done.stderr) == (1, True)


def test_what_is_there_already_is_not_touched(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    for broker in (source, target):
        create(broker)
        fill(broker, count=3)
    done = move(source.bootstrap, target.bootstrap, tmp_path / "state")
    assert done.exit_code == 1
    assert "topic orders exists at" in done.stderr
    assert "--exclude orders" in done.stderr
    assert [len(each) for each in read(target)] == [2, 1]


def test_another_producer_at_the_target_is_found(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source)
    fill(source)
    state = tmp_path / "state"
    moved(source.bootstrap, target.bootstrap, state)
    fill(target, count=2)
    done = move(source.bootstrap, target.bootstrap, state)
    assert (done.exit_code, "that are not of this move" in done.stderr) == (1, True), done.output
    fill(source, start=50, count=10)
    done = move(source.bootstrap, target.bootstrap, state)
    assert (done.exit_code, "the copies differ" in done.stderr) == (1, True), done.output


def test_a_wrong_state_file_and_the_same_cluster_are_refused(
    source: klamm.Broker, target: klamm.Broker, tmp_path: Path
) -> None:
    create(source)
    state = tmp_path / "state"
    state.write_text("[]")
    assert "is not a state file" in move(source.bootstrap, target.bootstrap, state).stderr
    state.unlink()
    moved(source.bootstrap, target.bootstrap, state)
    with klamm.Broker() as other:
        assert "is of a move from cluster" in move(source.bootstrap, other.bootstrap, state).stderr
    host, port = source.bootstrap.split(":")
    assert "same cluster" in move(source.bootstrap, f"localhost:{port}", tmp_path / "new").stderr, host
    assert move("a:1", "a:1", state).exit_code == 2
    assert "there is no folder" in move(str(tmp_path / "none"), target.bootstrap, state).stderr


def test_a_checksum_depends_on_every_part_of_a_record() -> None:
    parts: list[dict[str, Any]] = [
        {},
        {"timestamp_ms": 2},
        {"key": None},
        {"key": b""},
        {"value": None},
        {"headers": ()},
        {"headers": (("h", None),)},
        {"headers": (("g", b"x"),)},
    ]
    fields = {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 1,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"v",
        "headers": (("h", b"x"),),
        "leader_epoch": 0,
    }
    sums = [copying.checksum(copying.Record(**{**fields, **each}), 0) for each in parts]
    assert len(set(sums)) == len(sums)


@pytest.mark.parametrize("is_source", [True, False])
def test_a_cluster_that_is_away_is_one_clear_line(
    source: klamm.Broker, tmp_path: Path, is_source: bool
) -> None:
    ends = ("127.0.0.1:1", source.bootstrap) if is_source else (source.bootstrap, "127.0.0.1:1")
    done = move(*ends, tmp_path / "state", "--timeout", "3")
    assert (done.exit_code, done.stderr.count("\n"), "127.0.0.1:1" in done.stderr) == (1, 1, True)
