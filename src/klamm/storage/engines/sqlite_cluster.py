"""Cluster metadata in one SQLite file beside the logs.

Each change is one transaction, durable when the call returns; a killed process leaves the last one complete
or absent. Threads and processes may share the file: a writer locks it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Final

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import BrokerRegistration, ClusterStoreError, new_topic_id
from klamm.storage.engines.sql_cluster import SqlCluster
from klamm.storage.engines.sql_rows import SqlChange, SqlRows
from klamm.storage.engines.sqlite_tables import SqliteDialect, executing, prepare_tables

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

FILE_NAME: Final = "klamm.sqlite3"
_BUSY_TIMEOUT_S: Final = 30.0  # how long a writer waits for another process
_DIALECT: Final = SqliteDialect()


class SqliteCluster(SqlCluster):
    """A ClusterStore in a file; `path` is the file, or the folder for `klamm.sqlite3`."""

    def __init__(
        self, path: str | Path, *, random: Random, make_room: Callable[[], None] = lambda: None
    ) -> None:
        """`make_room` is called before each transaction that writes: on a full disk there must be some."""
        super().__init__()
        self._make_room = make_room
        self.path = os.path.join(path, FILE_NAME) if os.path.isdir(path) else os.fspath(path)
        self._lock = Lock()
        self._version_connection: sqlite3.Connection | None = None
        self._data_version = -1
        is_new = not os.path.exists(self.path)
        try:
            _make_private(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as error:
            raise ClusterStoreError(f"cannot open {self.path}: {error}") from error
        self._execute = executing(self._connection)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
            self._connection.execute("PRAGMA foreign_keys = ON")
            with self._transaction():
                self._cluster_id = prepare_tables(self._connection, id_to_text(new_topic_id(random)))
        except (sqlite3.Error, ClusterStoreError) as error:
            self._connection.close()
            raise ClusterStoreError(f"cannot use {self.path}: {error}") from error
        if is_new:
            _sync_directory(os.path.dirname(self.path) or ".")

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

    def _put_broker(self, change: SqlChange, broker: BrokerRegistration) -> None:
        listeners = json.dumps({name: list(address) for name, address in broker.listeners.items()})
        change.execute(
            "INSERT INTO broker (broker_id, broker_epoch, rack, listeners, state) "
            "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (broker_id) "
            "DO UPDATE SET broker_epoch = excluded.broker_epoch, rack = excluded.rack, "
            "listeners = excluded.listeners, state = excluded.state",
            [broker.broker_id, broker.epoch, broker.rack, listeners, str(broker.state)],
        )

    def _declare_gone(self, change: SqlChange, broker: BrokerRegistration) -> bool:
        declared = change.execute(
            "UPDATE broker SET state = 'gone' WHERE broker_id = %s AND broker_epoch = %s AND state <> 'gone'",
            [broker.broker_id, broker.epoch],
        ).rowcount
        return bool(declared == 1)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._version_connection is not None:
                self._version_connection.close()

    # --- transactions ----------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[SqlRows]:
        with self._wrapped_errors(), self._lock, self._in_transaction("BEGIN"):
            yield SqlRows(self._execute, _DIALECT)

    @contextmanager
    def _writing(self) -> Iterator[SqlRows]:
        with self._wrapped_errors(), self._transaction():
            yield SqlRows(self._execute, _DIALECT)

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[SqlChange]:
        with self._writing() as rows:
            version = rows.version() + 1
            self._begin_change(rows, version, is_registration=is_registration)
            rows.execute("UPDATE cluster SET version = %s", [version])
            yield SqlChange(self._execute, _DIALECT, version)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """An exclusive transaction: everything inside is durable at the end, or nothing is."""
        self._make_room()
        with self._lock, self._in_transaction("BEGIN IMMEDIATE"):
            yield

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


def _make_private(path: str) -> None:
    """Credentials are in the file: other users must not read it. SQLite's files beside it get its mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077 and os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _sync_directory(path: str) -> None:
    """Make a new file's name as durable as its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
