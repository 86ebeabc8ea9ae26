"""The tables of the cluster metadata in SQLite: schema, migrations, reading and changing rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConfigResourceType,
    ConflictError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
)

SCHEMA_VERSION: Final = 2
KEPT_VERSIONS: Final = 10_000  # a broker that is further behind reads everything

SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE brokers (
    broker_id INTEGER PRIMARY KEY,
    rack TEXT,
    listeners TEXT NOT NULL,
    epoch INTEGER NOT NULL DEFAULT -1,
    state TEXT NOT NULL DEFAULT 'gone'
);
CREATE TABLE topics (name TEXT PRIMARY KEY, topic_id BLOB NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE partitions (
    topic TEXT NOT NULL REFERENCES topics ON DELETE CASCADE,
    partition INTEGER NOT NULL,
    replicas TEXT NOT NULL,
    leader_id INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    moving_to INTEGER NOT NULL DEFAULT -1,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE configs (
    resource_type INTEGER NOT NULL,
    resource TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_type, resource, name)
) WITHOUT ROWID;
CREATE TABLE changes (
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (version, kind, key)
) WITHOUT ROWID;
"""

# What turns a file of the version before into one of this version.
MIGRATIONS: Final[Mapping[int, str]] = {
    2: """
ALTER TABLE brokers ADD COLUMN epoch INTEGER NOT NULL DEFAULT -1;
ALTER TABLE brokers ADD COLUMN state TEXT NOT NULL DEFAULT 'gone';
ALTER TABLE partitions ADD COLUMN moving_to INTEGER NOT NULL DEFAULT -1;
CREATE TABLE changes (
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (version, kind, key)
) WITHOUT ROWID;
""",
}

BROKER: Final = "broker"  # the kinds of changes
TOPIC: Final = "topic"
CONFIG: Final = "config"  # key: type/name
FEATURES: Final = "features"


class SqliteChange:
    """The transaction of one change."""

    __slots__ = ("connection", "execute", "version")

    def __init__(self, connection: sqlite3.Connection, version: int) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.version = version

    def touch(self, kind: str, key: str) -> None:
        """List something as changed, for other brokers."""
        self.execute("INSERT OR IGNORE INTO changes VALUES (?, ?, ?)", (self.version, kind, key))

    def move(self, change: LeaderChange, assignment: str, *values: int) -> bool:
        """Change a partition whose leader and epoch are as expected; whether they were."""
        is_expected = self.execute(
            f"UPDATE partitions SET {assignment} "
            "WHERE topic = ? AND partition = ? AND leader_id = ? AND leader_epoch = ?",
            (*values, change.topic, change.partition, change.leader_id, change.leader_epoch),
        ).rowcount
        if is_expected:
            self.touch(TOPIC, change.topic)
        return bool(is_expected)

    def hand_over(self, change: LeaderChange) -> bool:
        return self.move(
            change,
            "leader_id = ?, leader_epoch = ?, moving_to = -1",
            change.next_leader_id,
            change.leader_epoch + 1,
        )

    def insert_partitions(self, topic: str, added: Sequence[PartitionRegistration]) -> None:
        self.connection.executemany(
            "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    topic,
                    state.partition,
                    json.dumps(state.replicas),
                    state.leader_id,
                    state.leader_epoch,
                    state.moving_to,
                )
                for state in added
            ],
        )
        self.touch(TOPIC, topic)

    def set_configs(self, resource_type: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        self.execute("DELETE FROM configs WHERE resource_type = ? AND resource = ?", (resource_type, name))
        self.connection.executemany(
            "INSERT INTO configs VALUES (?, ?, ?, ?)",
            [(resource_type, name, config, value) for config, value in configs.items()],
        )
        self.touch(CONFIG, f"{int(resource_type)}/{name}")


def execute_all(connection: sqlite3.Connection, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        connection.execute(statement)


def read_fact(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise ClusterStoreError(f"{name} is missing")
    return str(row[0])


def set_fact(connection: sqlite3.Connection, name: str, value: str | int) -> None:
    connection.execute(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value)
    )


def read_brokers(connection: sqlite3.Connection) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(
            broker_id,
            rack,
            {name: (host, port) for name, (host, port) in json.loads(listeners).items()},
            epoch,
            BrokerState(state),
        )
        for broker_id, rack, listeners, epoch, state in connection.execute(
            "SELECT * FROM brokers ORDER BY broker_id"
        )
    ]


def read_topics(
    connection: sqlite3.Connection, names: Collection[str] | None = None
) -> dict[str, TopicState]:
    """All topics, or those of these names that exist."""
    of_names = ""
    values: tuple[str, ...] = ()
    if names is not None:
        of_names = " WHERE {} IN (SELECT value FROM json_each(?))"
        values = (json.dumps(list(names)),)
    ids = dict(connection.execute("SELECT name, topic_id FROM topics" + of_names.format("name"), values))
    partitions: dict[str, list[PartitionRegistration]] = {name: [] for name in ids}
    for topic, partition, replicas, *leader in connection.execute(
        "SELECT * FROM partitions" + of_names.format("topic") + " ORDER BY topic, partition", values
    ):
        partitions[topic].append(PartitionRegistration(partition, tuple(json.loads(replicas)), *leader))
    return {name: TopicState(name, ids[name], tuple(states)) for name, states in partitions.items()}


def read_all_configs(connection: sqlite3.Connection) -> dict[tuple[ConfigResourceType, str], dict[str, str]]:
    found: dict[tuple[ConfigResourceType, str], dict[str, str]] = {}
    for resource_type, resource, name, value in connection.execute("SELECT * FROM configs"):
        found.setdefault((ConfigResourceType(resource_type), resource), {})[name] = value
    return found


def read_features(connection: sqlite3.Connection) -> FinalizedFeatures:
    # Files of earlier versions do not have this fact.
    row = connection.execute("SELECT value FROM facts WHERE name = 'features'").fetchone()
    return FinalizedFeatures() if row is None else FinalizedFeatures(**json.loads(row[0]))


def require_topic(connection: sqlite3.Connection, name: str, topic_id: bytes) -> None:
    row = connection.execute("SELECT topic_id FROM topics WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] != topic_id:
        raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")


def read_configs(
    connection: sqlite3.Connection, resource_type: ConfigResourceType, name: str
) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, value FROM configs WHERE resource_type = ? AND resource = ?", (resource_type, name)
    )
    return dict(rows.fetchall())
