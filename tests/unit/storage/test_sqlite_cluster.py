"""The cluster's memory in a file: what it keeps over restarts and kills."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConfigResourceType,
    LeaderChange,
)
from klamm.storage.engines import sql_cluster
from klamm.storage.engines.sqlite_cluster import FILE_NAME, SqliteCluster
from klamm.storage.engines.sqlite_tables import SCHEMA_VERSION
from unit.storage.cluster_contract import ClusterContract, a_topic, leaders


class TestSqliteCluster(ClusterContract):
    """The contract, on disk."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteCluster]:
        store = SqliteCluster(tmp_path, random=Random(1))
        yield store
        store.close()

    @pytest.fixture
    def other(self, store: SqliteCluster) -> Iterator[SqliteCluster]:
        other = SqliteCluster(store.path, random=Random(2))
        yield other
        other.close()


def test_a_restart_finds_everything_and_leads_at_higher_epochs(tmp_path: Path) -> None:
    # Given a store that was filled and closed
    store = SqliteCluster(tmp_path, random=Random(1))
    cluster_id = store.cluster_id
    registered = store.register(BrokerRegistration(1, "rack", {"PLAINTEXT": ("localhost", 9092)}))
    store.create_topic(a_topic(), {"retention.ms": "5"})
    version = store.version()
    store.close()
    # When it is opened again
    store = SqliteCluster(tmp_path / FILE_NAME, random=Random(2))
    # Then it is the same cluster, and leadership goes on
    assert (store.cluster_id, store.version()) == (cluster_id, version)
    assert list(store.brokers()) == [registered]
    assert store.configs(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "5"}
    store.register(registered)
    assert leaders(store) == [(1, 1), (1, 1)]
    store.close()


def test_producer_ids_are_never_given_twice_over_restarts(tmp_path: Path) -> None:
    seen: set[int] = set()
    for _ in range(5):
        store = SqliteCluster(tmp_path, random=Random(1))
        block = store.allocate_producer_ids(1000)
        store.close()
        assert seen.isdisjoint(block)
        seen.update(block)


def test_what_was_answered_survives_a_killed_process(tmp_path: Path) -> None:
    # Given a process that changes the store, says so, and is killed at once
    script = (
        "import os, random, signal, sys\n"
        "from klamm.storage.engines.sqlite_cluster import SqliteCluster\n"
        "store = SqliteCluster(sys.argv[1], random=random.Random(1))\n"
        "block = store.allocate_producer_ids(1000)\n"
        "store._connection.execute('BEGIN IMMEDIATE')\n"
        'store._connection.execute("UPDATE cluster SET next_producer_id = 7")\n'
        "print(block.stop, store.cluster_id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    stop, cluster_id = killed.stdout.split()
    # When the store is opened afterwards
    store = SqliteCluster(tmp_path, random=Random(1))
    # Then the answered change is there, and the unfinished one is not
    assert store.cluster_id == cluster_id
    assert store.allocate_producer_ids(1).start == int(stop)
    store.close()


def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    first, second = SqliteCluster(tmp_path, random=Random(1)), SqliteCluster(tmp_path, random=Random(1))
    version = first.version()
    assert first.cluster_id == second.cluster_id
    assert set(first.allocate_producer_ids(10)).isdisjoint(second.allocate_producer_ids(10))
    first.create_topic(a_topic(), {})
    assert first.version() == second.version() == version + 1
    first.close()
    second.close()


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    store = SqliteCluster(tmp_path, random=Random(1))
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


# As klamm wrote them: version 2 first, and what version 1 did not have.
_SECOND_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "CREATE TABLE brokers (broker_id INTEGER PRIMARY KEY, rack TEXT, listeners TEXT NOT NULL, "
    "epoch INTEGER NOT NULL DEFAULT -1, state TEXT NOT NULL DEFAULT 'gone')",
    "CREATE TABLE topics (name TEXT PRIMARY KEY, topic_id BLOB NOT NULL UNIQUE) WITHOUT ROWID",
    "CREATE TABLE partitions (topic TEXT NOT NULL REFERENCES topics ON DELETE CASCADE, "
    "partition INTEGER NOT NULL, replicas TEXT NOT NULL, leader_id INTEGER NOT NULL, "
    "leader_epoch INTEGER NOT NULL, moving_to INTEGER NOT NULL DEFAULT -1, "
    "PRIMARY KEY (topic, partition)) WITHOUT ROWID",
    "CREATE TABLE configs (resource_type INTEGER NOT NULL, resource TEXT NOT NULL, name TEXT NOT NULL, "
    "value TEXT NOT NULL, PRIMARY KEY (resource_type, resource, name)) WITHOUT ROWID",
    "CREATE TABLE changes (version INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, "
    "PRIMARY KEY (version, kind, key)) WITHOUT ROWID",
    "INSERT INTO facts VALUES ('schema_version', 2), ('cluster_id', 'Qk9MQmFzZTY0dXJsISEhIQ'), "
    "('version', 3), ('next_producer_id', 7000), "
    '(\'features\', \'{"epoch": 1, "levels": {"group.version": 1}}\')',
    "INSERT INTO brokers VALUES (1, 'rack', '{\"PLAINTEXT\": [\"localhost\", 9092]}', 2, 'running')",
    "INSERT INTO topics VALUES ('orders', x'0102030405060708090a0b0c0d0e0f10')",
    "INSERT INTO partitions VALUES ('orders', 1, '[2, 1]', 1, 4, -1), ('orders', 0, '[1]', 1, 0, 2)",
    "INSERT INTO configs VALUES (2, 'orders', 'retention.ms', '5')",
    "INSERT INTO changes VALUES (1, 'topic', 'orders'), (3, 'features', '')",
)
_TO_THE_FIRST_SCHEMA = (
    "ALTER TABLE brokers DROP COLUMN epoch",
    "ALTER TABLE brokers DROP COLUMN state",
    "ALTER TABLE partitions DROP COLUMN moving_to",
    "DROP TABLE changes",
    "UPDATE facts SET value = 1 WHERE name = 'schema_version'",
)


@pytest.mark.parametrize("schema_version", [1, 2])
def test_files_of_earlier_schemas_are_migrated(tmp_path: Path, schema_version: int) -> None:
    # Given a file as an earlier version wrote it
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    with connection:
        for statement in _SECOND_SCHEMA if schema_version == 2 else _SECOND_SCHEMA + _TO_THE_FIRST_SCHEMA:
            connection.execute(statement)
    connection.close()
    # When it is opened
    store = SqliteCluster(tmp_path, random=Random(1))
    # Then everything is there; a broker without a state is not running
    (broker,) = store.brokers()
    known = (2, BrokerState.RUNNING) if schema_version == 2 else (-1, BrokerState.GONE)
    assert (broker.rack, broker.epoch, broker.state) == ("rack", *known)
    assert broker.listeners == {"PLAINTEXT": ("localhost", 9092)}
    assert (store.cluster_id, store.version()) == ("Qk9MQmFzZTY0dXJsISEhIQ", 3)
    topic = store.topics()["orders"]
    assert topic.topic_id == bytes(range(1, 17))
    assert [(each.replicas, each.leader_epoch) for each in topic.partitions] == [((1,), 0), ((2, 1), 4)]
    assert [each.moving_to for each in topic.partitions] == ([2, -1] if schema_version == 2 else [-1, -1])
    assert store.configs(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "5"}
    assert store.features().levels == {"group.version": 1}
    assert store.allocate_producer_ids(10) == range(7000, 7010)
    # And it goes on, for this process and for one that opens it next
    store.register(broker)
    store.close()
    store = SqliteCluster(tmp_path, random=Random(1))
    assert leaders(store) == [(1, 1), (1, 5)]
    assert [each.broker_id for each in store.changes(3).brokers] == [1]
    store.delete_topic("orders", topic.topic_id)
    assert store.topics() == {}
    store.close()


def test_an_earlier_klamm_finds_that_the_file_is_of_a_newer_one(tmp_path: Path) -> None:
    SqliteCluster(tmp_path, random=Random(1)).close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    found = connection.execute("SELECT value FROM facts WHERE name = 'schema_version'").fetchone()
    connection.close()
    assert found == (SCHEMA_VERSION,)


def test_a_broker_that_is_far_behind_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_cluster, "KEPT_VERSIONS", 3)
    store = SqliteCluster(tmp_path, random=Random(1))
    store.create_topic(a_topic(), {"retention.ms": "5"})
    for value in "1234":
        store.replace_configs(ConfigResourceType.BROKER, "", {"log.retention.ms": value})
    changes = store.changes(0)
    assert (changes.version, set(changes.topics), len(changes.configs)) == (5, {"orders"}, 2)
    assert changes.is_complete
    kept = store._connection.execute("SELECT min(version), max(version) FROM change").fetchone()
    assert kept == (3, 5)
    assert store.changes(2).topics == {}
    store.close()


def test_a_path_may_be_a_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SqliteCluster("cluster.db", random=Random(1)).close()
    assert (tmp_path / "cluster.db").exists()


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    SqliteCluster(tmp_path, random=Random(1)).close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    with connection:
        connection.execute("UPDATE facts SET value = 99 WHERE name = 'schema_version'")
    connection.close()
    with pytest.raises(ClusterStoreError, match="schema version is 99"):
        SqliteCluster(tmp_path, random=Random(1))


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(ClusterStoreError, match=FILE_NAME):
        SqliteCluster(tmp_path, random=Random(1))
    with pytest.raises(ClusterStoreError, match="absent"):
        SqliteCluster(tmp_path / "absent" / FILE_NAME, random=Random(1))


def test_a_store_that_fails_says_which_file(tmp_path: Path) -> None:
    store = SqliteCluster(tmp_path, random=Random(1))
    store.close()
    with pytest.raises(ClusterStoreError, match=FILE_NAME):
        store.topics()


def test_a_take_over_of_many_partitions_is_one_change(tmp_path: Path) -> None:
    # scenario 69
    count = 10_000
    store, other = (SqliteCluster(tmp_path, random=Random(seed)) for seed in (1, 2))
    gone = other.register(BrokerRegistration(1, None, {}))
    store.register(BrokerRegistration(2, None, {}))
    store.create_topic(a_topic(partitions=count), {})
    before = store.version()
    store.take_over(gone, [LeaderChange("orders", each, 1, 0, 2) for each in range(count)])
    assert store.version() == before + 1
    changes = other.changes(before)
    assert changes.version == before + 1
    taken = changes.topics["orders"]
    assert taken is not None
    assert {(each.leader_id, each.leader_epoch) for each in taken.partitions} == {(2, 1)}
    assert leaders(store) == [(2, 1)] * count
    store.close()
    other.close()


def test_of_two_writers_one_waits_and_none_fails(tmp_path: Path) -> None:
    # scenario 72
    stores = [SqliteCluster(tmp_path, random=Random(seed)) for seed in (1, 2)]
    for number, store in enumerate(stores, start=1):
        store.register(BrokerRegistration(number, None, {}))
    before = stores[0].version()

    def write(number: int) -> None:
        for each in range(50):
            name = f"topic-{number}-{each}"
            topic_id = f"{number}-{each}".encode().ljust(16, b"-")
            stores[number].create_topic(a_topic(name, topic_id=topic_id), {})

    with ThreadPoolExecutor(2) as threads:
        for written in [threads.submit(write, number) for number in (0, 1)]:
            written.result()
    names = {f"topic-{number}-{each}" for number in (0, 1) for each in range(50)}
    for store in stores:
        assert store.topics().keys() == names
        assert store.version() == before + 100
        store.close()


def test_credentials_are_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    store = SqliteCluster(tmp_path, random=Random(1))
    store.replace_configs(ConfigResourceType.USER, '"ann"', {"SCRAM-SHA-256": "4096:x:y:z"})
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert len(modes) >= 2  # what is not in the file yet is beside it
    assert set(modes.values()) == {0o600}
    store.close()


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    SqliteCluster(tmp_path, random=Random(1)).close()
    (tmp_path / "klamm.sqlite3").chmod(0o644)
    SqliteCluster(tmp_path, random=Random(1)).close()
    assert (tmp_path / "klamm.sqlite3").stat().st_mode & 0o777 == 0o600
