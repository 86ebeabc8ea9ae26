"""Three broker processes on each kind of store that brokers can share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from faults.folder_cluster import FolderCluster
from faults.postgresql_cluster import PostgresBrokers
from postgresql import PostgresServer

STORES: Final = ("folder", "postgresql")
# Nobody takes a broker for stuck on a busy machine.
_FOLDER: Final = {
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "20000",
    "broker.session.timeout.ms": "60000",
}
# The defaults: a broker that was killed is replaced when its serve window is over.
_POSTGRESQL: Final = {
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "3000",
    "broker.session.timeout.ms": "9000",
}


@contextmanager
def three_brokers(
    store: str, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[FolderCluster | PostgresBrokers]:
    """Brokers 1, 2 and 3; they can be stopped, killed and started."""
    more = settings or {}
    if store == "folder":
        on_folder = FolderCluster(folder, settings={**_FOLDER, **more})
        try:
            yield on_folder
        finally:
            on_folder.close()
        return
    with PostgresServer() as server:
        on_database = PostgresBrokers(server, folder, 3, {**_POSTGRESQL, **more})
        try:
            yield on_database
        finally:
            on_database.close()
