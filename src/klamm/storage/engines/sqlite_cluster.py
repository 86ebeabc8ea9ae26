"""Cluster metadata in one SQLite file beside the logs.

Each change is one transaction, durable when the call returns; a killed process leaves the last one complete
or absent. Threads and processes may share the file: a writer locks it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Lock
from typing import Final

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    FIRST_PRODUCER_ID,
    LAST_PRODUCER_ID,
    BrokerRegistration,
    ClusterStoreError,
    ConflictError,
    FinalizedFeatures,
    PartitionRegistration,
    ResourceType,
    TopicState,
    follow_on,
    new_topic_id,
    set_levels,
)

FILE_NAME: Final = "klamm.sqlite3"
SCHEMA_VERSION: Final = 1
_BUSY_TIMEOUT_S: Final = 30.0  # how long a writer waits for another process

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE brokers (broker_id INTEGER PRIMARY KEY, rack TEXT, listeners TEXT NOT NULL);
CREATE TABLE topics (name TEXT PRIMARY KEY, topic_id BLOB NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE partitions (
    topic TEXT NOT NULL REFERENCES topics ON DELETE CASCADE,
    partition INTEGER NOT NULL,
    replicas TEXT NOT NULL,
    leader_id INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE configs (
    resource_type INTEGER NOT NULL,
    resource TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_type, resource, name)
) WITHOUT ROWID;
"""


class SqliteCluster:
    """A ClusterStore in a file; `path` is the file, or the folder for `klamm.sqlite3`."""

    def __init__(self, path: str | Path, *, random: Random) -> None:
        path = Path(path)
        self.path = path / FILE_NAME if path.is_dir() else path
        self._lock = Lock()
        is_new = not self.path.exists()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ClusterStoreError(f"cannot open {self.path}: {error}") from error
        try:
            self._cluster_id = self._prepare(random)
        except (sqlite3.Error, ClusterStoreError) as error:
            self._connection.close()
            raise ClusterStoreError(f"cannot use {self.path}: {error}") from error
        if is_new:
            _sync_directory(self.path.parent)

    def _prepare(self, random: Random) -> str:
        """Create the tables unless they exist; the cluster id."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
        self._connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction() as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'facts'").fetchone()
            if tables[0] == 0:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    connection.execute(statement)
                facts = {
                    "schema_version": SCHEMA_VERSION,
                    "cluster_id": id_to_text(new_topic_id(random)),
                    "version": 0,
                    "next_producer_id": FIRST_PRODUCER_ID,
                }
                connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            found = int(_fact(connection, "schema_version"))
            if found != SCHEMA_VERSION:
                raise ClusterStoreError(
                    f"schema version is {found}, this klamm supports version {SCHEMA_VERSION}"
                )
            return _fact(connection, "cluster_id")

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def version(self) -> int:
        with self._reading() as connection:
            return int(_fact(connection, "version"))

    def register_broker(self, registration: BrokerRegistration) -> None:
        listeners = json.dumps({name: list(address) for name, address in registration.listeners.items()})
        with self._changing() as connection:
            connection.execute(
                "INSERT INTO brokers VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET rack = excluded.rack, listeners = excluded.listeners",
                (registration.broker_id, registration.rack, listeners),
            )

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._reading() as connection:
            rows = connection.execute("SELECT * FROM brokers ORDER BY broker_id").fetchall()
        return [
            BrokerRegistration(
                broker_id, rack, {name: (host, port) for name, (host, port) in json.loads(listeners).items()}
            )
            for broker_id, rack, listeners in rows
        ]

    def topics(self) -> Mapping[str, TopicState]:
        with self._reading() as connection:
            topics = connection.execute("SELECT name, topic_id FROM topics").fetchall()
            rows = connection.execute("SELECT * FROM partitions ORDER BY topic, partition").fetchall()
        partitions: dict[str, list[PartitionRegistration]] = {name: [] for name, _ in topics}
        for topic, *state in rows:
            partitions[topic].append(_partition_state(*state))
        return {name: TopicState(name, topic_id, tuple(partitions[name])) for name, topic_id in topics}

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._changing() as connection:
            try:
                connection.execute("INSERT INTO topics VALUES (?, ?)", (topic.name, topic.topic_id))
            except sqlite3.IntegrityError as error:
                raise ConflictError(f"topic {topic.name} or its topic id already exists") from error
            _insert_partitions(connection, topic.name, topic.partitions)
            _set_configs(connection, ResourceType.TOPIC, topic.name, configs)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._changing() as connection:
            _require_topic(connection, name, topic_id)
            connection.execute("DELETE FROM topics WHERE name = ?", (name,))
            _set_configs(connection, ResourceType.TOPIC, name, {})

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._changing() as connection:
            _require_topic(connection, name, topic_id)
            (present,) = connection.execute(
                "SELECT count(*) FROM partitions WHERE topic = ?", (name,)
            ).fetchone()
            if not follow_on(present, added):
                raise ConflictError(f"topic {name} now has {present} partitions")
            _insert_partitions(connection, name, added)

    def lead(
        self, broker_id: int, partitions: Sequence[tuple[str, int]] | None = None
    ) -> Mapping[tuple[str, int], int]:
        with self._changing() as connection:
            rows = connection.execute("SELECT * FROM partitions").fetchall()
            kept = {
                (topic, state.partition): state
                for topic, *columns in rows
                if broker_id in (state := _partition_state(*columns)).replicas
            }
            wanted = kept if partitions is None else {(topic, partition) for topic, partition in partitions}
            for key in wanted:
                if key not in kept:
                    raise ConflictError(f"broker {broker_id} is not a replica of {key[0]}-{key[1]}")
            epochs = {key: kept[key].leader_epoch + 1 for key in wanted}
            connection.executemany(
                "UPDATE partitions SET leader_id = ?, leader_epoch = ? WHERE topic = ? AND partition = ?",
                [(broker_id, epoch, *key) for key, epoch in epochs.items()],
            )
            return epochs

    def configs(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        with self._reading() as connection:
            return _configs(connection, resource_type, name)

    def all_configs(self) -> Mapping[tuple[ResourceType, str], Mapping[str, str]]:
        with self._reading() as connection:
            rows = connection.execute("SELECT * FROM configs").fetchall()
        found: dict[tuple[ResourceType, str], dict[str, str]] = {}
        for resource_type, resource, name, value in rows:
            found.setdefault((ResourceType(resource_type), resource), {})[name] = value
        return found

    def replace_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        with self._changing() as connection:
            if resource_type is ResourceType.TOPIC:
                found = connection.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone()
                if found is None:
                    raise ConflictError(f"topic {name} does not exist")
            if expected is not None and _configs(connection, resource_type, name) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            _set_configs(connection, resource_type, name, configs)

    def features(self) -> FinalizedFeatures:
        with self._reading() as connection:
            return _features(connection)

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        finalized = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
        with self._changing() as connection:
            if _features(connection).epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            connection.execute(
                "INSERT INTO facts VALUES ('features', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (json.dumps({"epoch": finalized.epoch, "levels": finalized.levels}),),
            )
        return finalized

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        with self._changing() as connection:
            first = int(_fact(connection, "next_producer_id"))
            # One past the last id must still fit SQLite's 64 bits.
            if first + count > LAST_PRODUCER_ID:
                raise OverflowError("producer ids are exhausted")
            connection.execute("UPDATE facts SET value = ? WHERE name = 'next_producer_id'", (first + count,))
            return range(first, first + count)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view over several statements."""
        with self._wrapped_errors(), self._lock, self._in_transaction("BEGIN"):
            yield self._connection

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that increments the version."""
        with self._wrapped_errors(), self._transaction() as connection:
            yield connection
            connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'version'")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """An exclusive transaction: everything inside is durable at the end, or nothing is."""
        with self._lock, self._in_transaction("BEGIN IMMEDIATE"):
            yield self._connection

    @contextmanager
    def _in_transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _wrapped_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise ClusterStoreError(f"{self.path}: {error}") from error


def _fact(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise ClusterStoreError(f"{name} is missing")
    return str(row[0])


def _features(connection: sqlite3.Connection) -> FinalizedFeatures:
    # Files of earlier versions do not have this fact.
    row = connection.execute("SELECT value FROM facts WHERE name = 'features'").fetchone()
    return FinalizedFeatures() if row is None else FinalizedFeatures(**json.loads(row[0]))


def _partition_state(
    partition: int, replicas: str, leader_id: int, leader_epoch: int
) -> PartitionRegistration:
    return PartitionRegistration(partition, tuple(json.loads(replicas)), leader_id, leader_epoch)


def _insert_partitions(
    connection: sqlite3.Connection, topic: str, added: Sequence[PartitionRegistration]
) -> None:
    connection.executemany(
        "INSERT INTO partitions VALUES (?, ?, ?, ?, ?)",
        [
            (topic, state.partition, json.dumps(state.replicas), state.leader_id, state.leader_epoch)
            for state in added
        ],
    )


def _require_topic(connection: sqlite3.Connection, name: str, topic_id: bytes) -> None:
    row = connection.execute("SELECT topic_id FROM topics WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] != topic_id:
        raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")


def _configs(connection: sqlite3.Connection, resource_type: ResourceType, name: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, value FROM configs WHERE resource_type = ? AND resource = ?", (resource_type, name)
    )
    return dict(rows.fetchall())


def _set_configs(
    connection: sqlite3.Connection, resource_type: ResourceType, name: str, configs: Mapping[str, str]
) -> None:
    connection.execute("DELETE FROM configs WHERE resource_type = ? AND resource = ?", (resource_type, name))
    connection.executemany(
        "INSERT INTO configs VALUES (?, ?, ?, ?)",
        [(resource_type, name, config, value) for config, value in configs.items()],
    )


def _sync_directory(path: Path) -> None:
    """Make a new file's name as durable as its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
