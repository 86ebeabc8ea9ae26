"""Connections to PostgreSQL: the settings that klamm relies on, and errors that say what to do.

Everything here blocks, and runs on worker threads, but for what `Session.take` gives.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import POLLIN, poll
from threading import Lock
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict

MIN_SERVER_VERSION: Final = 130_000
CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_MS: Final = 30_000
# A broker that stands still between two statements of a transaction keeps its locks: those of a change would
# keep all others from taking its partitions over. The server ends its session, and the transaction with it.
IDLE_TRANSACTION_TIMEOUT_MS: Final = 3_000
_PROBE_AFTER_S: Final = 1.0
# A peer that vanished is noticed within some 10 seconds, while a statement runs and between statements. So it
# is by the server, which would keep the locks of a machine that lost its power.
_KEEPALIVE: Final[dict[str, Any]] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SERVER_KEEPALIVE: Final = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# Neither was done: the statement can be repeated as it is.
RETRIABLE: Final = (errors.DeadlockDetected, errors.LockNotAvailable, errors.SerializationFailure)

_logger = logging.getLogger(__name__)


class StoreUnavailableError(Exception):
    """PostgreSQL cannot be used; the message has the address, the cause and the next step."""


class ConnectionLostError(Exception):
    """The connection broke during a statement: whether it took effect is unknown."""


class Address:
    """Where the database is, with and without what must not be logged."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            scheme = urlsplit(url).scheme
            if scheme not in ("postgresql", "postgres"):
                raise StoreUnavailableError(f"invalid PostgreSQL URL: its scheme is {scheme!r}; {_EXAMPLE}")
            if not url.startswith(f"{scheme}://"):
                # libpq would take it for a list of settings, and repeat it in its message.
                raise StoreUnavailableError(f"invalid PostgreSQL URL: {scheme}: without //; {_EXAMPLE}")
            before, at, _ = url.partition("://")[2].partition("?")[0].rpartition("@")
            if at and set("@/") & set(before):
                # libpq would take the rest of the password for a host or a database, and repeat it.
                raise StoreUnavailableError(
                    "invalid PostgreSQL URL: @ or / in user or password; write @ as %40 and / as %2F"
                )
            parts = conninfo_to_dict(url)
        except (ValueError, psycopg.Error) as error:
            raise StoreUnavailableError(f"invalid PostgreSQL URL: {one_line(error)}; {_EXAMPLE}") from error
        host = parts.get("host") or "local socket"
        port = f":{parts['port']}" if parts.get("port") else ""
        self.database = str(parts.get("dbname") or "")
        self.text = f"postgresql://{host}{port}/{self.database}"  # without user and password

    def connect(self, purpose: str, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Connection[Any]:
        """A new connection in autocommit mode. Raises StoreUnavailableError."""
        try:
            connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"klamm {purpose}",
                **_KEEPALIVE,
            )
        except psycopg.Error as error:
            raise unavailable(self, error) from error
        try:
            settings = {
                "default_transaction_isolation": "read committed",
                "statement_timeout": str(statement_timeout_ms),
                "lock_timeout": str(statement_timeout_ms),
                "idle_in_transaction_session_timeout": str(IDLE_TRANSACTION_TIMEOUT_MS),
                **_SERVER_KEEPALIVE,
            }
            connection.execute(
                "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) s(name, value)",
                [list(settings), list(settings.values())],
            )
        except psycopg.Error as error:
            connection.close()
            raise unavailable(self, error) from error
        return connection


_EXAMPLE: Final = "write postgresql://user:password@host:5432/database"
_POINTER: Final = re.compile(r"LINE \d+:|\^$")


def check_server(connection: Connection[Any], address: Address, *, must_be_durable: bool) -> None:
    """Whether the server can keep klamm's promises. Raises StoreUnavailableError."""
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise StoreUnavailableError(
            f"{address.text}: PostgreSQL {version // 10_000} is too old: use version 13 or newer"
        )
    row = connection.execute(
        "SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), "
        "current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only')"
    ).fetchone()
    assert row is not None
    problem = server_problem(*row, must_be_durable=must_be_durable)
    if problem:
        raise StoreUnavailableError(f"{address.text}: {problem}")


def server_problem(
    synchronous_commit: str,
    standbys: str,
    encoding: str,
    is_standby: bool,
    read_only: str,
    *,
    must_be_durable: bool,
) -> str:
    """Why a server with these settings is refused; empty if it is not."""
    if is_standby or read_only == "on":
        return "the server is read-only (a standby?): name the primary server"
    if encoding != "UTF8":
        return f"the database has encoding {encoding}: create one with ENCODING 'UTF8'"
    if must_be_durable and synchronous_commit == "off":
        return (
            "synchronous_commit is off, so a crash of PostgreSQL can lose acknowledged records: "
            "set it to on (ALTER ROLE ... SET synchronous_commit = on), or accept that with klamm.flush=os"
        )
    if must_be_durable and synchronous_commit == "local" and standbys:
        return (
            "synchronous_commit is local although standbys are configured, so a failover can lose "
            "acknowledged records: set it to on, or accept the loss with klamm.flush=os"
        )
    return ""


def check_not_pooled(connection: Connection[Any], address: Address) -> None:
    """Refuse a pooler that gives a session's server connection to others between transactions.

    Session state (advisory locks, LISTEN) would then be another session's. Behind a pooler the process id
    that the client was given differs from the server's; one that shares gives the connection that this
    session has just used to the next client.
    """
    (server_pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    if server_pid == connection.info.backend_pid:
        return
    with address.connect("pooler check") as other:
        (other_pid,) = other.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    if other_pid == server_pid:
        raise StoreUnavailableError(
            f"{address.text} is a connection pooler in transaction mode: name PostgreSQL's own address, or a "
            "pool in session mode"
        )


def unavailable(address: Address, error: psycopg.Error) -> StoreUnavailableError:
    """What an error means for the operator."""
    hint = _HINTS.get(error.sqlstate or _sqlstate_in(str(error)), "")
    return StoreUnavailableError(f"{address.text}: {one_line(error)}{hint}")


_HINTS: Final = {
    "28P01": "; check user and password in klamm.store",
    "28000": "; check the user in klamm.store, and pg_hba.conf on the server",
    "3D000": "; create it (CREATE DATABASE ...), or correct the name in klamm.store",
    "3F000": "; create the schema that search_path names",
    "42501": "; the role of klamm.store needs CREATE on the schema and must own klamm's tables",
    "53300": "; raise max_connections: a broker uses up to 6 connections",
    "53100": "; free disk space on the database server",
    "25006": "; name the primary server",
    "08P01": "; correct sslmode in klamm.store, or set up SSL on the server",
    "": "; check that PostgreSQL runs and that klamm.store has its address",
}


def _sqlstate_in(message: str) -> str:
    """Errors while connecting have no code, but the server's message."""
    if "database" in message and "does not exist" in message:
        return "3D000"
    if "role" in message and "does not exist" in message:
        return "28000"
    if "password authentication failed" in message or "no password supplied" in message:
        return "28P01"
    if "pg_hba.conf" in message:
        return "28000"
    if "SSL was required" in message:
        return "08P01"
    if "too many clients" in message or "remaining connection slots" in message:
        return "53300"
    return ""


def one_line(error: BaseException) -> str:
    """The message and its detail, without the line of the statement that PostgreSQL points at."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    said = [line for line in lines if not _POINTER.match(line)]
    return "; ".join(said[:2]) or type(error).__name__


class Session:
    """A connection that is made when it is needed, and made again after it broke. One user at a time."""

    def __init__(
        self,
        address: Address,
        purpose: str,
        *,
        statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
        prepare: Callable[[Connection[Any]], None] = lambda _: None,
    ) -> None:
        """`prepare` is called with each new connection, and may refuse it."""
        self._address = address
        self._purpose = purpose
        self._statement_timeout_ms = statement_timeout_ms
        self._prepare = prepare
        self._connection: Connection[Any] | None = None
        self._lock = Lock()
        self._is_closed = False
        self._used_at_s = 0.0

    def take(self) -> Connection[Any] | None:
        """The connection, until `give_back`, if it can be used at once: nothing here waits."""
        if not self._lock.acquire(blocking=False):
            return None
        connection = self._connection
        if connection is None or self._is_closed or connection.closed or has_input(connection):
            self._used_at_s = 0.0  # to be probed
            self._lock.release()
            return None
        return connection

    def give_back(self, error: Exception | None = None) -> Exception | None:
        """After an error of the connection or in its use; it, as `use` would raise it."""
        assert self._connection is not None
        self._used_at_s = monotonic()
        if isinstance(error, psycopg.Error):
            if is_broken(self._connection, error):
                error = self._lost(error)
        elif error is not None:
            self._drop()  # in the middle of a statement, perhaps
        self._lock.release()
        return error

    def _lost(self, error: psycopg.Error) -> ConnectionLostError:
        self._drop()
        return ConnectionLostError(f"{self._address.text}: {one_line(error)}")

    @contextmanager
    def use(self) -> Iterator[Connection[Any]]:
        """The connection, for one thread. Raises StoreUnavailableError when there is none.

        When it breaks inside, ConnectionLostError is raised. Errors of statements pass through.
        """
        with self._lock:
            connection = self._connected()
            try:
                yield connection
            except psycopg.Error as error:
                if is_broken(connection, error):
                    raise self._lost(error) from error
                raise
            except BaseException:
                if connection.broken:
                    self._drop()
                raise

    def _connected(self) -> Connection[Any]:
        if self._is_closed:
            raise StoreUnavailableError(f"{self._address.text}: the store is closed")
        if self._connection is not None and not self._is_alive(self._connection):
            self._drop()
        if self._connection is None:
            connection = self._address.connect(self._purpose, statement_timeout_ms=self._statement_timeout_ms)
            try:
                self._prepare(connection)
            except psycopg.Error as error:
                connection.close()
                raise unavailable(self._address, error) from error
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        self._used_at_s = monotonic()
        return self._connection

    def _is_alive(self, connection: Connection[Any]) -> bool:
        """Whether an idle connection still works: only a statement notices that the server restarted."""
        if connection.closed:
            return False
        if monotonic() - self._used_at_s < _PROBE_AFTER_S:
            return True
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection, after the statement that is under way."""
        self._is_closed = True
        with self._lock:
            self._drop()


def has_input(connection: Connection[Any]) -> bool:
    """Whether there is something to read, which may be the connection's end. Does not wait."""
    poller = poll()
    poller.register(connection.pgconn.socket, POLLIN)
    return bool(poller.poll(0))


def is_broken(connection: Connection[Any], error: psycopg.Error) -> bool:
    """Whether the connection ended with this error, so that the outcome of its statement is unknown."""
    return connection.closed or isinstance(
        error,
        errors.AdminShutdown
        | errors.CrashShutdown
        | errors.IdleSessionTimeout
        | errors.IdleInTransactionSessionTimeout,
    )
