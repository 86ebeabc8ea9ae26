"""The tables in PostgreSQL, their version, and the steps from one version to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from psycopg import Connection, errors

from klamm.storage.engines.postgresql.connection import Address, StoreUnavailableError

SCHEMA_VERSION: Final = 1
_CREATION_LOCK: Final = (17_240, 0)  # one broker creates or migrates the tables, others wait

_TABLES: Final = """
CREATE TABLE cluster (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster_id text NOT NULL,
    schema_version int NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    next_producer_id bigint NOT NULL DEFAULT 0,
    features jsonb
);
CREATE TABLE broker (
    broker_id int PRIMARY KEY,
    broker_epoch bigint NOT NULL UNIQUE,
    rack text,
    listeners jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('starting', 'running', 'draining', 'gone')),
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE topic (topic_id uuid PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE partition (
    partition_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id uuid NOT NULL REFERENCES topic ON DELETE CASCADE,
    partition int NOT NULL,
    preference int[] NOT NULL,
    leader_id int NOT NULL,
    leader_epoch int NOT NULL,
    moving_to int NOT NULL DEFAULT -1,
    UNIQUE (topic_id, partition)
);
CREATE INDEX partition_leader ON partition (leader_id);
CREATE TABLE config (
    resource_type smallint NOT NULL,
    resource text NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (resource_type, resource, name)
);
CREATE TABLE change (
    version bigint NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    PRIMARY KEY (version, kind, key)
);
CREATE TABLE log (
    partition_id int PRIMARY KEY,
    leader_epoch int NOT NULL,
    start_offset bigint NOT NULL DEFAULT 0,
    end_offset bigint NOT NULL DEFAULT 0,
    size_bytes bigint NOT NULL DEFAULT 0,
    cleaned_offset bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE chunk (
    partition_id int NOT NULL,
    last_offset bigint NOT NULL,
    base_offset bigint NOT NULL,
    leader_epoch int NOT NULL,
    max_timestamp bigint NOT NULL,
    headers bytea NOT NULL,
    records bytea NOT NULL,
    PRIMARY KEY (partition_id, last_offset)
);
ALTER TABLE chunk ALTER records SET STORAGE EXTERNAL;
CREATE TABLE epoch_start (
    partition_id int NOT NULL,
    leader_epoch int NOT NULL,
    start_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, leader_epoch)
);
CREATE TABLE aborted (
    partition_id int NOT NULL,
    last_offset bigint NOT NULL,
    producer_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_stable_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, last_offset, producer_id)
);
CREATE TABLE producer_snapshot (
    partition_id int PRIMARY KEY,
    end_offset bigint NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE deleted_partition (partition_id int PRIMARY KEY);
"""

# What turns a schema of the version before into one of this version.
_MIGRATIONS: Final[Mapping[int, str]] = {}


def prepare_schema(connection: Connection[Any], address: Address, cluster_id: str) -> str:
    """Create or migrate the tables; the id of the cluster, which is the given one if it is new.

    Raises StoreUnavailableError if the tables are of a newer klamm.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", _CREATION_LOCK)
        found = _found_version(connection, address)
        if found is None:
            _execute(connection, _TABLES)
            connection.execute(
                "INSERT INTO cluster (cluster_id, schema_version) VALUES (%s, %s)",
                [cluster_id, SCHEMA_VERSION],
            )
            found = SCHEMA_VERSION
        if found > SCHEMA_VERSION:
            raise StoreUnavailableError(
                f"{address.text}: schema version is {found}, this klamm supports up to {SCHEMA_VERSION}: "
                "use a newer klamm"
            )
        missing = [version for version in range(found + 1, SCHEMA_VERSION + 1) if version not in _MIGRATIONS]
        if missing:
            raise StoreUnavailableError(
                f"{address.text}: schema version {found} is too old: start a klamm that supports version "
                f"{missing[0]} once, then this one"
            )
        for version in range(found + 1, SCHEMA_VERSION + 1):
            _execute(connection, _MIGRATIONS[version])
            connection.execute("UPDATE cluster SET schema_version = %s", [version])
        row = connection.execute("SELECT cluster_id FROM cluster").fetchone()
        assert row is not None
        return cast("str", row[0])


def require_schema(connection: Connection[Any], address: Address) -> str:
    """The id of the cluster whose tables are there; changes nothing.

    Raises StoreUnavailableError if there are none, or if they are of another version.
    """
    found = _found_version(connection, address)
    if found is None:
        raise StoreUnavailableError(f"{address.text} has no tables of klamm: check database and search_path")
    if found != SCHEMA_VERSION:
        raise StoreUnavailableError(
            f"{address.text}: schema version is {found}, this klamm reads {SCHEMA_VERSION}: use the klamm "
            "that its brokers use"
        )
    row = connection.execute("SELECT cluster_id FROM cluster").fetchone()
    assert row is not None
    return cast("str", row[0])


def _found_version(connection: Connection[Any], address: Address) -> int | None:
    (table,) = connection.execute("SELECT to_regclass('cluster')").fetchone() or (None,)
    if table is None:
        return None
    try:
        with connection.transaction():
            row = connection.execute("SELECT schema_version FROM cluster").fetchone()
    except errors.UndefinedColumn:
        row = None
    if row is None:
        raise StoreUnavailableError(
            f"{address.text}: table {table} is not klamm's: name an empty database or schema"
        )
    return int(row[0])


def _execute(connection: Connection[Any], statements: str) -> None:
    connection.execute(statements)
