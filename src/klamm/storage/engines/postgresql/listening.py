"""Learning of changes that other brokers made: NOTIFY, and a poll each second for those that were lost."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Any, Final

import psycopg
from psycopg import Connection

from klamm.storage.engines.postgresql.connection import (
    Address,
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    check_not_pooled,
)
from klamm.storage.engines.postgresql.rows import CHANNEL, DIALECT, executing
from klamm.storage.engines.sql_rows import SqlRows

_POLL_S: Final = 1.0

_logger = logging.getLogger(__name__)


class ChangeListener:
    """Watches the version of the cluster on a thread and a connection of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._session = Session(address, "changes", prepare=self._listen)
        self._thread: Thread | None = None
        self._has_changed = Event()
        self._is_closed = Event()
        self._version = -1

    def changed(self) -> bool:
        """Whether the version moved since the last call; True the first time. Never blocks."""
        if self._thread is None and not self._is_closed.is_set():
            self._thread = Thread(target=self._run, name="klamm changes", daemon=True)
            self._thread.start()
            return True
        if self._has_changed.is_set():
            self._has_changed.clear()
            return True
        return False

    def close(self) -> None:
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()
        self._session.close()

    def _listen(self, connection: Connection[Any]) -> None:
        check_not_pooled(connection, self._address)
        connection.execute(f"LISTEN {CHANNEL}")

    def _run(self) -> None:
        is_reachable = True
        while not self._is_closed.is_set():
            try:
                with self._session.use() as connection:
                    version = SqlRows(executing(connection), DIALECT).version()
                    if version != self._version:
                        self._version = version
                        self._has_changed.set()
                    # Ends with the first notification, or after a second.
                    for _ in connection.notifies(timeout=_POLL_S, stop_after=1):
                        pass
                if not is_reachable:
                    _logger.info("%s is reachable again", self._address.text)
                is_reachable = True
            except (StoreUnavailableError, ConnectionLostError, psycopg.Error) as error:
                if is_reachable:
                    _logger.error("waiting for changes of the cluster failed, retrying: %s", error)
                is_reachable = False
                self._is_closed.wait(_POLL_S)
