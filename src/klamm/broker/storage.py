"""The storage of a broker: segment files and SQLite in its folder, or memory only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from klamm.broker.cluster.topic_names import INTERNAL_TOPICS
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.server import StartError
from klamm.clock import Clock
from klamm.protocol.errors import DecodeError
from klamm.storage.cluster import ClusterStore, ClusterStoreError
from klamm.storage.log import LogStore
from klamm.storage.log_dirs import LogDirs

if TYPE_CHECKING:
    from klamm.storage.engines.segments.files import Files


@dataclass(frozen=True, slots=True)
class Storage:
    """A broker's logs and its cluster store."""

    logs: LogStore
    cluster: ClusterStore
    files: Files | None = None  # of the logs; needed for compaction
    is_on_disk: bool = False  # the files are the operating system's


def open_storage(config: BrokerConfig, *, clock: Clock, random: Random, in_memory: bool = False) -> Storage:
    """Lock and open the broker's folder, or create storage in memory. Raises StartError."""
    if in_memory:
        return _memory(config, clock, random)
    return _folders(config, clock, random)


def _memory(config: BrokerConfig, clock: Clock, random: Random) -> Storage:
    # Imported here, to keep the start fast: only the engine that is used.
    from klamm.storage.engines.memory import MemoryFiles  # noqa: PLC0415
    from klamm.storage.engines.memory_cluster import MemoryCluster  # noqa: PLC0415

    cluster = MemoryCluster(random=random)
    files = MemoryFiles(clock)
    logs = segment_store(config, "/memory", cluster, files, clock, has_disk=False)
    return Storage(logs, cluster, files)


def segment_store(
    config: BrokerConfig,
    folder: str,
    cluster: ClusterStore,
    files: Files,
    clock: Clock,
    *,
    has_disk: bool = True,
) -> LogStore:
    """Logs in segment files of any kind; without a disk appends are durable at once."""
    from klamm.storage.engines.segments import SegmentStore  # noqa: PLC0415 - as above

    return SegmentStore(
        folder,
        cluster_id=cluster.cluster_id,
        node_id=config.node_id,
        clock=clock,
        flush_on_commit=has_disk and config.klamm_flush == "commit",
        # Records of coordinators must be durable in every mode.
        committed_topics=INTERNAL_TOPICS if has_disk else (),
        files=files,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
    )


def _folders(config: BrokerConfig, clock: Clock, random: Random) -> Storage:
    from klamm.storage.engines.segments.files import OsFiles  # noqa: PLC0415 - as above
    from klamm.storage.engines.sqlite_cluster import FILE_NAME, SqliteCluster  # noqa: PLC0415

    folders = [Path(os.path.abspath(each)) for each in config.log_dirs]
    first = folders[0]
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        if (first / "meta.properties").exists() and not (first / FILE_NAME).exists():
            raise StartError(f"{first} belongs to another cluster: use a separate folder for klamm")
        cluster = SqliteCluster(first / FILE_NAME, random=random)
    except OSError as error:
        raise StartError(f"cannot use the folder {error.filename}: {error.strerror}; name another") from error
    except ClusterStoreError as error:
        raise StartError(f"{error}; name another folder") from error
    files = OsFiles()
    stores: list[LogStore] = []
    try:
        for folder in folders:
            stores.append(_locked(config, folder, cluster, files, clock))
        logs = stores[0] if len(stores) == 1 else LogDirs(stores)
    except (StartError, ValueError) as error:
        for store in stores:
            store.close()
        cluster.close()
        raise StartError(str(error)) from error
    return Storage(logs, cluster, files, is_on_disk=True)


def _locked(
    config: BrokerConfig, folder: Path, cluster: ClusterStore, files: Files, clock: Clock
) -> LogStore:
    """Lock a folder for this broker, and open its logs."""
    from klamm.storage.engines.segments.checkpoints import ForeignDirectoryError  # noqa: PLC0415 - as above
    from klamm.storage.engines.segments.files import AlreadyLockedError  # noqa: PLC0415

    try:
        return segment_store(config, str(folder), cluster, files, clock)
    except AlreadyLockedError as error:
        raise StartError(f"another broker uses {folder}: stop it, or name another folder") from error
    except (ForeignDirectoryError, DecodeError) as error:
        raise StartError(f"{error}; name another folder") from error
    except OSError as error:
        raise StartError(f"cannot use the folder {folder}: {error.strerror}; name another") from error
