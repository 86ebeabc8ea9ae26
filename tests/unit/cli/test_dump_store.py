"""`klamm dump --store`: partitions in PostgreSQL, printed and exported as segment files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from klamm import Broker, Producer
from klamm.cli.dump import app
from klamm.client.admin.admin import Admin
from klamm.protocol.types import TopicPartition
from postgresql import PostgresServer

RECORDS = 40


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def store(postgres: PostgresServer) -> str:
    """A database with two partitions: many batches below and above the log start, and a transaction."""
    url = postgres.new_schema()
    settings: dict[str, str | int] = {"klamm.store": url, "transaction.state.log.num.partitions": 1}
    with Broker(settings=settings) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        with Admin(client) as admin:
            admin.create_topics({"orders": 2})
            admin.alter_configs("topic", "orders", {"segment.bytes": "16384"})
            with Producer(client) as producer:
                for number in range(RECORDS):
                    producer.send("orders", b"%d" % number + bytes(1000), partition=0)
                    producer.flush()
            admin.delete_records({TopicPartition("orders", 0): 3})
        with Producer({**client, "transactional.id": "x"}) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"whole", partition=1)
    return url


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_batches_of_a_partition_are_printed(store: str) -> None:
    batches = lines(dump("--json", "--store", store, "orders-0"))
    assert [batch["base_offset"] for batch in batches] == list(range(3, RECORDS))
    assert batches[1]["position"] == batches[0]["size_bytes"]
    assert "records" not in batches[0]


def test_the_records_and_the_marker_of_a_transaction_are_printed(store: str) -> None:
    data, marker = lines(dump("--json", "--records", "--store", store, "orders-1"))
    assert data["is_transactional"] is True
    assert [record["value"] for record in data["records"]] == ["whole"]  # type: ignore[attr-defined]
    assert marker["marker"] == "commit"


def test_records_of_a_coordinator_are_decoded(store: str) -> None:
    result = dump("--json", "--records", "--store", store, "__transaction_state-0")
    kinds = {record["record"] for batch in lines(result) for record in batch["records"]}  # type: ignore[attr-defined]
    assert kinds == {"transaction"}


def test_an_export_has_the_same_batches_in_kafka_s_files(store: str, tmp_path: Path) -> None:
    result = dump("--store", store, "--export", tmp_path, "orders-0", "orders-1")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    segments = sorted((tmp_path / "orders-0").glob("*.log"))
    assert len(segments) > 1
    assert segments[0].name == "00000000000000000003.log"
    for suffix in (".index", ".timeindex"):
        assert [each.with_suffix(suffix) for each in segments] == sorted(
            (tmp_path / "orders-0").glob(f"*{suffix}")
        )
    stored = lines(dump("--json", "--store", store, "orders-0"))
    written = lines(dump("--json", *segments))
    assert [batch["crc"] for batch in written] == [batch["crc"] for batch in stored]
    assert [batch["base_offset"] for batch in written] == [batch["base_offset"] for batch in stored]
    (epochs,) = lines(dump("--json", tmp_path / "orders-0" / "leader-epoch-checkpoint"))
    assert (epochs["leader_epoch"], epochs["start_offset"]) == (0, 3), epochs
    assert lines(dump("--json", segments[0].with_suffix(".index"))) != []


def test_an_export_does_not_touch_files_that_are_there(store: str, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    result = dump("--store", store, "--export", tmp_path, "orders-0")
    assert result.exit_code == 1
    assert "exists: name another folder, or delete it" in result.stderr
    assert list((tmp_path / "orders-0").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orders-2", "has no partition orders-2"),
        ("nothing-0", "has no partition nothing-0"),
        ("orders", "orders is not a partition: expected TOPIC-PARTITION, as in orders-0"),
    ],
)
def test_a_partition_that_does_not_exist_is_an_error(store: str, name: str, message: str) -> None:
    result = dump("--store", store, name)
    assert result.exit_code == 1
    assert message in result.stderr


def test_without_a_partition_all_are_listed(store: str) -> None:
    result = dump("--store", store, "--json")
    assert result.exit_code == 0
    found = {each["partition"]: each for each in map(json.loads, result.stdout.splitlines())}
    assert {"orders-0", "orders-1"} <= found.keys()
    assert found["orders-0"]["end_offset"] > 0
    assert found["orders-0"]["size_bytes"] > 0
    assert "partition orders-0" in dump("--store", store).stdout
    assert dump().exit_code == 2
    refused = dump("--store", store, "--export", "folder")
    assert (refused.exit_code, "needs the partitions" in refused.stderr) == (2, True)


def test_a_database_without_klamm_s_tables_is_an_error_and_stays_empty(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    result = dump("--store", url, "orders-0")
    assert result.exit_code == 1
    assert "has no tables of klamm: check database and search_path" in result.stderr
    assert "has no tables of klamm" in dump("--store", url, "orders-0").stderr


def test_tables_of_another_version_are_an_error(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_schema()
    with Broker(settings={"klamm.store": url}):
        pass
    schema = url.rpartition("%3D")[2]
    postgres.execute(f"UPDATE {schema}.cluster SET schema_version = 99")
    result = dump("--store", url, "orders-0")
    assert "schema version is 99, this klamm reads 1: use the klamm that its brokers use" in result.stderr


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = dump("--store", f"postgresql:///klamm?host={tmp_path}", "orders-0")
    assert result.exit_code == 1
    assert "check that PostgreSQL runs and that klamm.store has its address" in result.stderr


def test_an_export_of_files_is_refused(tmp_path: Path) -> None:
    result = dump("--export", tmp_path, "00000000000000000000.log")
    assert result.exit_code == 2
    assert "--export needs --store" in result.stderr
