"""The tables of the cluster metadata in SQLite: their version, and the steps from one version to the next."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final

from klamm.storage.cluster import FIRST_PRODUCER_ID, ClusterStoreError
from klamm.storage.engines.sql_rows import Execute

SCHEMA_VERSION: Final = 3

# `facts` has the version of the schema alone, where every klamm looks for it.
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE cluster (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    cluster_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    next_producer_id INTEGER NOT NULL,
    features TEXT
);
CREATE TABLE broker (
    broker_id INTEGER PRIMARY KEY,
    broker_epoch INTEGER NOT NULL,
    rack TEXT,
    listeners TEXT NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE topic (topic_id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE partition (
    partition_id INTEGER PRIMARY KEY,
    topic_id BLOB NOT NULL REFERENCES topic ON DELETE CASCADE,
    partition INTEGER NOT NULL,
    preference TEXT NOT NULL,
    leader_id INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    moving_to INTEGER NOT NULL DEFAULT -1,
    UNIQUE (topic_id, partition)
);
CREATE INDEX partition_leader ON partition (leader_id);
CREATE TABLE config (
    resource_type INTEGER NOT NULL,
    resource TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_type, resource, name)
) WITHOUT ROWID;
CREATE TABLE change (
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (version, kind, key)
) WITHOUT ROWID;
"""

# What turns a file of the version before into one of this version.
_MIGRATIONS: Final = {
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
    # The tables and columns of PostgreSQL, so that one statement serves both.
    3: _SCHEMA.replace("CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;", "")
    + """
INSERT INTO cluster SELECT 1, c.value, v.value, p.value, (SELECT value FROM facts WHERE name = 'features')
    FROM facts c, facts v, facts p
    WHERE c.name = 'cluster_id' AND v.name = 'version' AND p.name = 'next_producer_id';
INSERT INTO broker SELECT broker_id, epoch, rack, listeners, state FROM brokers;
INSERT INTO topic SELECT topic_id, name FROM topics;
INSERT INTO partition (topic_id, partition, preference, leader_id, leader_epoch, moving_to)
    SELECT t.topic_id, p.partition, p.replicas, p.leader_id, p.leader_epoch, p.moving_to
    FROM partitions p JOIN topics t ON t.name = p.topic ORDER BY t.name, p.partition;
INSERT INTO config SELECT resource_type, resource, name, value FROM configs;
INSERT INTO change SELECT version, kind, key FROM changes;
DROP TABLE partitions;
DROP TABLE topics;
DROP TABLE brokers;
DROP TABLE configs;
DROP TABLE changes;
DELETE FROM facts WHERE name <> 'schema_version';
""",
}


class SqliteDialect:
    """Numbers and JSON are text, a topic id is a blob, and a list of names is JSON, too."""

    def topic_id(self, topic_id: bytes) -> bytes:
        return topic_id

    def topic_id_of(self, value: bytes) -> bytes:
        return value

    def json(self, value: object) -> str:
        return json.dumps(value)

    def json_of(self, value: str) -> Any:
        return json.loads(value)

    def numbers(self, numbers: Sequence[int]) -> str:
        return json.dumps(list(numbers))

    def numbers_of(self, value: str) -> Sequence[int]:
        return [int(number) for number in json.loads(value)]

    def is_among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(%s))"

    def names(self, names: Collection[str]) -> str:
        return json.dumps(list(names))


def executing(connection: sqlite3.Connection) -> Execute:
    """Run statements whose values are marked as `%s`."""
    execute = connection.execute
    return lambda statement, values: execute(statement.replace("%s", "?"), values)


def prepare_tables(connection: sqlite3.Connection, cluster_id: str) -> str:
    """Create or migrate the tables, in a transaction of the caller; the cluster's id, if new the given one.

    Raises ClusterStoreError when they are of a newer klamm.
    """
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'facts'").fetchone()
    if tables[0] == 0:
        _execute_all(connection, _SCHEMA)
        connection.execute("INSERT INTO cluster VALUES (1, ?, 0, ?, NULL)", (cluster_id, FIRST_PRODUCER_ID))
        connection.execute("INSERT INTO facts VALUES ('schema_version', ?)", (SCHEMA_VERSION,))
    row = connection.execute("SELECT value FROM facts WHERE name = 'schema_version'").fetchone()
    if row is None:
        raise ClusterStoreError("schema_version is missing")
    found = int(row[0])
    if not 1 <= found <= SCHEMA_VERSION:
        raise ClusterStoreError(
            f"schema version is {found}, this klamm supports versions 1 to {SCHEMA_VERSION}: "
            "use a newer klamm"
        )
    for version in range(found + 1, SCHEMA_VERSION + 1):
        _execute_all(connection, _MIGRATIONS[version])
        connection.execute("UPDATE facts SET value = ? WHERE name = 'schema_version'", (version,))
    row = connection.execute("SELECT cluster_id FROM cluster").fetchone()
    if row is None:
        raise ClusterStoreError("cluster_id is missing")
    return str(row[0])


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        connection.execute(statement)
