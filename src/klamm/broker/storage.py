"""The storage of a broker: segment files and SQLite in its folder, PostgreSQL, or memory only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.topic_names import INTERNAL_TOPICS
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.server import StartError
from klamm.clock import Clock
from klamm.extras import install_command
from klamm.protocol.errors import DecodeError
from klamm.storage.cluster import ClusterStore, ClusterStoreError
from klamm.storage.log import LogStore
from klamm.storage.log_dirs import LogDirs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from klamm.broker.cluster.lease import Lease
    from klamm.storage.engines.segments import SegmentStore
    from klamm.storage.engines.segments.files import Files
    from klamm.storage.engines.segments.journal import JournalSettings
    from klamm.storage.engines.segments.reserve import DiskReserve

_LOCK_POLL_S: Final = 0.02
_LEAST_ROOM_BYTES: Final = 256 * 1024  # a start writes
_LOCK_TRIES: Final = 250  # another broker has the folder for itself while it starts


@dataclass(frozen=True, slots=True)
class Storage:
    """A broker's logs and its cluster store."""

    logs: LogStore
    cluster: ClusterStore
    files: Files | None = None  # of the logs; needed for compaction
    is_on_disk: bool = False  # the files are the operating system's
    place: str = ""  # where it is, if not in the broker's folders
    lease: Lease | None = None  # of this broker's id; None: there are no other brokers
    folders: Sequence[SegmentStore] = ()  # of the logs, which brokers may share
    # Wait no longer for storage that cannot be reached: what waits for it fails.
    give_up: Callable[[], None] = lambda: None


def open_storage(
    config: BrokerConfig,
    *,
    clock: Clock,
    random: Random,
    sleep: Callable[[float], None],
    in_memory: bool = False,
) -> Storage:
    """Open the broker's database or its folder, or create storage in memory. Raises StartError.

    Waits with `sleep` for a process with the same node id that is ending.
    """
    if in_memory:
        return _memory(config, clock, random)
    if config.klamm_store is not None:
        return _postgresql(config, config.klamm_store.secret, clock, random)
    folders = [os.path.abspath(each) for each in config.log_dirs]
    try:
        return _folders(config, folders, clock, random, sleep)
    except StartError as error:
        raise StartError(hint_at_full_disk(str(error), folders)) from error


def hint_at_full_disk(problem: str, folders: Sequence[str]) -> str:
    """Why a start failed: if the disk of a folder is full, that is what to mend."""
    from klamm.storage.engines.segments.files import OsFiles  # noqa: PLC0415 - as above

    for folder in folders:
        if os.path.isdir(folder) and OsFiles().disk_space(folder).usable_bytes < _LEAST_ROOM_BYTES:
            return f"the disk of {folder} is full: make room on it ({problem})"
    return problem


def _memory(config: BrokerConfig, clock: Clock, random: Random) -> Storage:
    # Imported here, to keep the start fast: only the engine that is used.
    from klamm.storage.engines.memory import MemoryFiles  # noqa: PLC0415
    from klamm.storage.engines.memory_cluster import MemoryCluster  # noqa: PLC0415

    cluster = MemoryCluster(random=random)
    files = MemoryFiles(clock)
    logs = segment_store(config, "/memory", cluster, files, clock, has_disk=False)
    return Storage(logs, cluster, files)


def _postgresql(config: BrokerConfig, url: str, clock: Clock, random: Random) -> Storage:
    try:
        from klamm.broker.cluster.postgresql_lease import PostgresLease  # noqa: PLC0415 - as above
        from klamm.storage.engines.postgresql.cluster import PostgresCluster  # noqa: PLC0415
        from klamm.storage.engines.postgresql.lease_rules import LeaseRules  # noqa: PLC0415
        from klamm.storage.engines.postgresql.store import (  # noqa: PLC0415
            CompactionSettings,
            PostgresLogStore,
        )
    except ImportError as error:
        raise StartError(f"klamm.store needs psycopg ({error}): {install_command('postgresql')}") from error
    try:
        cluster = PostgresCluster(
            url,
            random=random,
            must_be_durable=config.klamm_flush == "commit",
            session_timeout_ms=config.broker_session_timeout_ms,
        )
    except ClusterStoreError as error:
        raise StartError(f"cannot use klamm.store: {error}") from error
    rules = cluster.lease_rules = LeaseRules(
        cluster.cluster_id, config.broker_session_timeout_ms, config.klamm_broker_serve_window_ms
    )
    cleaner = CompactionSettings(
        config.log_cleaner_backoff_ms,
        config.log_cleaner_dedupe_buffer_size,
        config.klamm_decompress_max_bytes,
    )
    logs = PostgresLogStore(
        cluster,
        clock=clock,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        cleaner=cleaner if config.log_cleaner_enable else None,
    )
    lease = PostgresLease(
        cluster, config.node_id, rules, renewal_timeout_ms=config.broker_heartbeat_interval_ms
    )
    return Storage(logs, cluster, place=cluster.address.text, lease=lease, give_up=logs.give_up)


def segment_store(
    config: BrokerConfig,
    folder: str,
    cluster: ClusterStore,
    files: Files,
    clock: Clock,
    *,
    has_disk: bool = True,
    reserve: DiskReserve | None = None,
) -> SegmentStore:
    """Logs in segment files of any kind; without a disk appends are durable at once."""
    from klamm.storage.engines.segments import SegmentStore  # noqa: PLC0415 - as above
    from klamm.storage.engines.segments.files import OsFiles  # noqa: PLC0415
    from klamm.storage.engines.segments.lanes import in_threads, one_by_one  # noqa: PLC0415

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
        journal=journal_settings(config) if has_disk else None,
        # A simulated disk stays deterministic.
        run_all=in_threads if isinstance(files, OsFiles) else one_by_one,
        reserve=reserve,
    )


def journal_settings(config: BrokerConfig) -> JournalSettings | None:
    """The limits of the journal; None when there is to be none."""
    from klamm.storage.engines.segments.journal import JournalSettings  # noqa: PLC0415 - as above

    if not config.klamm_journal_file_bytes:
        return None
    return JournalSettings(
        file_bytes=config.klamm_journal_file_bytes, round_bytes=config.klamm_journal_round_bytes
    )


def _folders(
    config: BrokerConfig,
    folders: Sequence[str],
    clock: Clock,
    random: Random,
    sleep: Callable[[float], None],
) -> Storage:
    from klamm.storage.engines.segments.files import OsFiles  # noqa: PLC0415 - as above
    from klamm.storage.engines.segments.reserve import DiskReserve  # noqa: PLC0415
    from klamm.storage.engines.sqlite_cluster import FILE_NAME, SqliteCluster  # noqa: PLC0415

    first = folders[0]
    files = OsFiles()
    reserves = [DiskReserve(files, each, config.node_id, config.klamm_disk_reserve_bytes) for each in folders]
    try:
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        for reserve in reserves:
            reserve.release_if_full()  # a start writes, too
        metadata = f"{first}/{FILE_NAME}"
        if os.path.exists(f"{first}/meta.properties") and not os.path.exists(metadata):
            raise StartError(f"{first} belongs to another cluster: use a separate folder for klamm")
        cluster = SqliteCluster(metadata, random=random, make_room=reserves[0].release_if_full)
    except OSError as error:
        raise StartError(f"cannot use the folder {error.filename}: {error.strerror}; name another") from error
    except ClusterStoreError as error:
        raise StartError(f"{error}; name another folder") from error
    lease = _lease(config, first, cluster, sleep)
    stores: list[SegmentStore] = []
    try:
        for reserve in reserves:
            stores.append(_locked(config, reserve, cluster, files, clock, sleep))
            reserve.look()
        logs: LogStore = stores[0] if len(stores) == 1 else LogDirs(stores)
    except (StartError, ValueError) as error:
        for store in stores:
            store.close()
        lease.release()
        cluster.close()
        raise StartError(str(error)) from error
    return Storage(logs, cluster, files, is_on_disk=True, lease=lease, folders=stores)


def _lease(config: BrokerConfig, folder: str, cluster: ClusterStore, sleep: Callable[[float], None]) -> Lease:
    """The lease of this broker's id, acquired: it protects the journal, too, which is opened next."""
    from klamm.broker.cluster.folder_lease import FolderLease, network_file_system  # noqa: PLC0415 - as above
    from klamm.broker.cluster.joining import acquire_lease  # noqa: PLC0415

    try:
        kind = network_file_system(folder)
        if kind is not None:
            raise StartError(
                f"{folder} is on a network file system ({kind}), whose locks cannot protect the data: "
                "use a local disk"
            )
        lease = FolderLease(
            folder,
            config.node_id,
            session_timeout_ms=config.broker_session_timeout_ms,
            fence=config.klamm_fence,
        )
        acquire_lease(cluster, lease, config.node_id, sleep)
    except (ClusterStoreError, OSError) as error:
        cluster.close()
        raise StartError(f"cannot use the folder {folder}: {error}; name another") from error
    except StartError:
        cluster.close()
        raise
    return lease


def _locked(
    config: BrokerConfig,
    reserve: DiskReserve,
    cluster: ClusterStore,
    files: Files,
    clock: Clock,
    sleep: Callable[[float], None],
) -> SegmentStore:
    """Lock the folder of a reserve for this broker, and open its logs."""
    from klamm.storage.engines.segments.checkpoints import ForeignDirectoryError  # noqa: PLC0415 - as above
    from klamm.storage.engines.segments.files import AlreadyLockedError  # noqa: PLC0415

    folder = reserve.directory
    tries = 0
    while True:
        tries += 1
        try:
            return segment_store(config, folder, cluster, files, clock, reserve=reserve)
        except AlreadyLockedError as error:
            if tries >= _LOCK_TRIES:
                raise StartError(f"another process uses {folder}: stop it, or name another folder") from error
            sleep(_LOCK_POLL_S)
        except (ForeignDirectoryError, DecodeError) as error:
            raise StartError(f"{error}; name another folder") from error
        except OSError as error:
            raise StartError(f"cannot use the folder {folder}: {error.strerror}; name another") from error
