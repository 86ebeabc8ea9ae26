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
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Final

from klamm.protocol.lazy_dataclass import replace
from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    FIRST_PRODUCER_ID,
    LAST_PRODUCER_ID,
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ClusterStoreError,
    ConfigResourceType,
    ConflictError,
    FencedError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
    follow_on,
    new_topic_id,
    set_levels,
)
from klamm.storage.engines.sqlite_rows import (
    BROKER,
    CONFIG,
    FEATURES,
    KEPT_VERSIONS,
    MIGRATIONS,
    SCHEMA,
    SCHEMA_VERSION,
    TOPIC,
    SqliteChange,
    execute_all,
    read_all_configs,
    read_brokers,
    read_configs,
    read_fact,
    read_features,
    read_topics,
    require_topic,
    set_fact,
)

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

FILE_NAME: Final = "klamm.sqlite3"
_BUSY_TIMEOUT_S: Final = 30.0  # how long a writer waits for another process


class SqliteCluster:
    """A ClusterStore in a file; `path` is the file, or the folder for `klamm.sqlite3`."""

    def __init__(self, path: str | Path, *, random: Random) -> None:
        self.path = os.path.join(path, FILE_NAME) if os.path.isdir(path) else os.fspath(path)
        self._lock = Lock()
        self._me: BrokerRegistration | None = None
        self._version_connection: sqlite3.Connection | None = None
        self._data_version = -1
        is_new = not os.path.exists(self.path)
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
            _sync_directory(os.path.dirname(self.path) or ".")

    def _prepare(self, random: Random) -> str:
        """Create the tables unless they exist; the cluster id."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
        self._connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction() as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'facts'").fetchone()
            if tables[0] == 0:
                execute_all(connection, SCHEMA)
                facts = {
                    "schema_version": SCHEMA_VERSION,
                    "cluster_id": id_to_text(new_topic_id(random)),
                    "version": 0,
                    "next_producer_id": FIRST_PRODUCER_ID,
                }
                connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            found = int(read_fact(connection, "schema_version"))
            if not 1 <= found <= SCHEMA_VERSION:
                raise ClusterStoreError(
                    f"schema version is {found}, this klamm supports versions 1 to {SCHEMA_VERSION}: "
                    "use a newer klamm"
                )
            for version in range(found + 1, SCHEMA_VERSION + 1):
                execute_all(connection, MIGRATIONS[version])
                set_fact(connection, "schema_version", version)
            return read_fact(connection, "cluster_id")

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def version(self) -> int:
        with self._reading() as connection:
            return int(read_fact(connection, "version"))

    def changed(self) -> bool:
        # The counter moves when another connection commits: for all writers, one that never writes.
        with self._wrapped_errors():
            if self._version_connection is None:
                self._version_connection = sqlite3.connect(
                    self.path, isolation_level=None, check_same_thread=False
                )
            seen = self._data_version
            (self._data_version,) = self._version_connection.execute("PRAGMA data_version").fetchone()
            return self._data_version != seen

    def changes(self, since_version: int) -> ClusterChanges:
        with self._reading() as connection:
            version = int(read_fact(connection, "version"))
            if since_version == 0 or version - since_version > KEPT_VERSIONS:
                return ClusterChanges(
                    version,
                    tuple(read_brokers(connection)),
                    dict(read_topics(connection)),
                    read_all_configs(connection),
                    read_features(connection),
                    is_complete=True,
                )
            touched: dict[str, set[str]] = {BROKER: set(), TOPIC: set(), CONFIG: set(), FEATURES: set()}
            for kind, key in connection.execute(
                "SELECT DISTINCT kind, key FROM changes WHERE version > ?", (since_version,)
            ):
                touched[kind].add(key)
            broker_ids = {int(key) for key in touched[BROKER]}
            resources = [key.split("/", 1) for key in touched[CONFIG]]
            present = read_topics(connection, touched[TOPIC])
            return ClusterChanges(
                version,
                tuple(each for each in read_brokers(connection) if each.broker_id in broker_ids),
                {name: present.get(name) for name in touched[TOPIC]},
                {
                    (ConfigResourceType(int(kind)), name): read_configs(
                        connection, ConfigResourceType(int(kind)), name
                    )
                    for kind, name in resources
                },
                read_features(connection) if touched[FEATURES] else None,
            )

    # --- brokers and leaders ---------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> BrokerRegistration:
        listeners = json.dumps({name: list(address) for name, address in registration.listeners.items()})
        with self._changing(is_registration=True) as change:
            registered = replace(registration, listeners=dict(registration.listeners), epoch=change.version)
            change.execute(
                "INSERT INTO brokers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET rack = excluded.rack, "
                "listeners = excluded.listeners, epoch = excluded.epoch, state = excluded.state",
                (registered.broker_id, registered.rack, listeners, registered.epoch, registered.state),
            )
            change.touch(BROKER, str(registered.broker_id))
            for (topic,) in change.execute(
                "SELECT DISTINCT topic FROM partitions WHERE leader_id = ?", (registered.broker_id,)
            ).fetchall():
                change.touch(TOPIC, topic)
            change.execute(
                "UPDATE partitions SET leader_epoch = leader_epoch + 1, moving_to = -1 WHERE leader_id = ?",
                (registered.broker_id,),
            )
        self._me = registered
        return registered

    def set_state(self, state: BrokerState) -> None:
        me = self._me
        assert me is not None, "no broker has registered with this store"
        with self._changing() as change:
            change.execute("UPDATE brokers SET state = ? WHERE broker_id = ?", (state, me.broker_id))
            change.touch(BROKER, str(me.broker_id))

    def take_over(self, gone: BrokerRegistration, leaders: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            declared = change.execute(
                "UPDATE brokers SET state = 'gone' WHERE broker_id = ? AND epoch = ? AND state <> 'gone'",
                (gone.broker_id, gone.epoch),
            ).rowcount
            if declared != 1:
                raise ConflictError(f"broker {gone.broker_id} is gone already, or back")
            change.touch(BROKER, str(gone.broker_id))
            led = change.execute(
                "SELECT topic, partition FROM partitions WHERE leader_id = ?", (gone.broker_id,)
            ).fetchall()
            if set(led) != {(each.topic, each.partition) for each in leaders}:
                raise ConflictError(f"broker {gone.broker_id} leads other partitions")
            for each in leaders:
                change.hand_over(each)

    def start_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            running = {
                broker_id
                for (broker_id,) in change.execute("SELECT broker_id FROM brokers WHERE state = 'running'")
            }
            return [
                each
                for each in moves
                if each.next_leader_id in running and change.move(each, "moving_to = ?", each.next_leader_id)
            ]

    def finish_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            return [each for each in moves if change.hand_over(each)]

    def cancel_moves(self, moves: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            for each in moves:
                change.move(each, "moving_to = ?", -1)

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        with self._changing() as change:
            found = change.execute(
                "UPDATE partitions SET replicas = ? WHERE topic = ? AND partition = ?",
                (json.dumps(list(replicas)), topic, partition),
            ).rowcount
            if found != 1:
                raise ConflictError(f"partition {topic}-{partition} does not exist")
            change.touch(TOPIC, topic)

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._reading() as connection:
            return read_brokers(connection)

    # --- topics ----------------------------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicState]:
        with self._reading() as connection:
            return read_topics(connection)

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._changing() as change:
            try:
                change.execute("INSERT INTO topics VALUES (?, ?)", (topic.name, topic.topic_id))
            except sqlite3.IntegrityError as error:
                raise ConflictError(f"topic {topic.name} or its topic id already exists") from error
            change.insert_partitions(topic.name, topic.partitions)
            change.set_configs(ConfigResourceType.TOPIC, topic.name, configs)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._changing() as change:
            require_topic(change.connection, name, topic_id)
            change.execute("DELETE FROM topics WHERE name = ?", (name,))
            change.touch(TOPIC, name)
            change.set_configs(ConfigResourceType.TOPIC, name, {})

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._changing() as change:
            require_topic(change.connection, name, topic_id)
            (present,) = change.execute("SELECT count(*) FROM partitions WHERE topic = ?", (name,)).fetchone()
            if not follow_on(present, added):
                raise ConflictError(f"topic {name} now has {present} partitions")
            change.insert_partitions(name, added)

    # --- configurations, features, producer ids --------------------------------------------------------

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        with self._reading() as connection:
            return read_configs(connection, resource_type, name)

    def all_configs(self) -> Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]:
        with self._reading() as connection:
            return read_all_configs(connection)

    def replace_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        with self._changing() as change:
            if resource_type is ConfigResourceType.TOPIC:
                found = change.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone()
                if found is None:
                    raise ConflictError(f"topic {name} does not exist")
            if expected is not None and read_configs(change.connection, resource_type, name) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            change.set_configs(resource_type, name, configs)

    def features(self) -> FinalizedFeatures:
        with self._reading() as connection:
            return read_features(connection)

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        finalized = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
        with self._changing() as change:
            if read_features(change.connection).epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            features = json.dumps({"epoch": finalized.epoch, "levels": finalized.levels})
            set_fact(change.connection, "features", features)
            change.touch(FEATURES, "")
        return finalized

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        with self._wrapped_errors(), self._transaction() as connection:
            first = int(read_fact(connection, "next_producer_id"))
            # One past the last id must still fit SQLite's 64 bits.
            if first + count > LAST_PRODUCER_ID:
                raise OverflowError("producer ids are exhausted")
            set_fact(connection, "next_producer_id", first + count)
            return range(first, first + count)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._version_connection is not None:
                self._version_connection.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view over several statements."""
        with self._wrapped_errors(), self._lock, self._in_transaction("BEGIN"):
            yield self._connection

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[SqliteChange]:
        """A transaction that increments the version; FencedError when another process is this broker now.

        Until a registration is complete, what other threads change is that of the former one.
        """
        with self._wrapped_errors(), self._transaction() as connection:
            me = self._me
            if me is not None and not is_registration:
                row = connection.execute(
                    "SELECT 1 FROM brokers WHERE broker_id = ? AND epoch = ? AND state <> 'gone'",
                    (me.broker_id, me.epoch),
                ).fetchone()
                if row is None:
                    raise FencedError(f"broker {me.broker_id} was replaced or declared dead")
            version = int(read_fact(connection, "version")) + 1
            set_fact(connection, "version", version)
            connection.execute("DELETE FROM changes WHERE version <= ?", (version - KEPT_VERSIONS,))
            yield SqliteChange(connection, version)

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


def _sync_directory(path: str) -> None:
    """Make a new file's name as durable as its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
