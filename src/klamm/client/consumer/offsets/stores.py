"""Local offset stores, in place of the group's offsets: for members that do not share progress."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from klamm.client.committed import Committed
from klamm.protocol.types import TopicPartition


@runtime_checkable
class OffsetStore(Protocol):
    """Stores a member's offsets. `owner` is (group, instance id or client id)."""

    def load(
        self, owner: tuple[str, str], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]: ...

    def save(self, owner: tuple[str, str], offsets: Mapping[TopicPartition, Committed]) -> None: ...


class FileOffsetStore:
    """A JSON file per member in a folder, replaced as a whole by each commit."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()

    def _path(self, owner: tuple[str, str]) -> Path:
        group, member = (quote(part, safe="") for part in owner)
        return self._directory / f"{group}@{member}.json"

    def _read(self, path: Path) -> dict[str, dict[str, list[object]]]:
        try:
            found: dict[str, dict[str, list[object]]] = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def load(
        self, owner: tuple[str, str], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        with self._lock:
            kept = self._read(self._path(owner))
        found = {}
        for partition in partitions:
            item = kept.get(partition.topic, {}).get(str(partition.partition))
            if item is not None:
                offset, leader_epoch, metadata = item
                found[partition] = Committed(int(str(offset)), int(str(leader_epoch)), str(metadata))
        return found

    def save(self, owner: tuple[str, str], offsets: Mapping[TopicPartition, Committed]) -> None:
        path = self._path(owner)
        with self._lock:
            kept = self._read(path)
            for partition, item in offsets.items():
                kept.setdefault(partition.topic, {})[str(partition.partition)] = list(item)
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".tmp")
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(kept, file)
                file.flush()
                os.fsync(file.fileno())
            # The rename is all or nothing: a crash leaves the old offsets or the new ones.
            fresh.replace(path)


class SqliteOffsetStore:
    """A table in a SQLite file; members may share the file. A transaction per commit."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, timeout=30.0)
        with self._database:
            self._database.execute(
                "create table if not exists offsets (owner_group text, owner text, topic text, "
                "partition integer, next_offset integer, leader_epoch integer, metadata text, "
                "primary key (owner_group, owner, topic, partition))"
            )

    def load(
        self, owner: tuple[str, str], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        wanted = set(partitions)
        with self._lock:
            rows = self._database.execute(
                "select topic, partition, next_offset, leader_epoch, metadata from offsets "
                "where owner_group = ? and owner = ?",
                owner,
            ).fetchall()
        found = {TopicPartition(topic, number): Committed(*rest) for topic, number, *rest in rows}
        return {partition: item for partition, item in found.items() if partition in wanted}

    def save(self, owner: tuple[str, str], offsets: Mapping[TopicPartition, Committed]) -> None:
        rows = [(*owner, *partition, *item) for partition, item in offsets.items()]
        with self._lock, self._database:
            self._database.executemany("insert or replace into offsets values (?, ?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; the store is of no use afterwards."""
        with self._lock:
            self._database.close()
