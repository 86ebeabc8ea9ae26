"""Small text files of a log directory: offset checkpoints, its owner, the clean-shutdown marker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition, id_from_text, id_to_text
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files, overwrite, remove_if_there, write_aside

_VERSION: Final = "0"
_CLEAN_SHUTDOWN: Final = json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()


class ForeignDirectoryError(Exception):
    """A log directory that belongs to another cluster or node."""


class NumberedFile:
    """A small file whose content is decided on one thread and written on any.

    Contents are numbered, so that a delayed older one never replaces a newer one.
    """

    def __init__(self, files: Files, path: str, writer: str = "") -> None:
        """`writer` makes the name unique under which it is written, before it is the file's."""
        self._files = files
        self._path = path
        self._written_path = path + (writer and f".{writer}") + names.TEMPORARY_SUFFIX
        self._writing = Lock()  # one at a time, as long as it takes
        self._naming = Lock()  # for a moment
        self._is_retired = False
        self._last_number = 0
        self._written_number = 0
        self._written: bytes | None = None  # what is known to be in the file
        self._is_durable = False

    def start_writing(self, content: bytes, *, sync: bool, is_whole: bool = False) -> Callable[[], None]:
        """A function that writes this content, on any thread; it blocks and raises OSError.

        Without `sync` a crash of the machine may leave the file as it was, or damaged. With `is_whole` only
        as it was: that needs a sync only if the content is not as long as before.
        """
        self._last_number += 1
        return partial(self._write, self._last_number, content, sync, is_whole)

    def retire(self) -> None:
        """Another process may write the file from now on: writes that have not run yet are void.

        It does not wait for one that is under way: that one comes too late.
        """
        with self._naming:
            self._is_retired = True

    def _write(self, number: int, content: bytes, sync: bool, is_whole: bool) -> None:
        with self._writing:
            if number <= self._written_number or self._is_retired:
                return
            if content != self._written or (sync and not self._is_durable):
                self._written = None
                try:
                    if sync or not self._overwrite(content):
                        self._replace(content, sync=sync or is_whole)
                    if sync:
                        self._files.sync_directory(self._path.rpartition("/")[0])
                except FileNotFoundError:
                    if not self._is_retired:  # else it was deleted
                        raise
                self._written, self._is_durable = content, sync
            self._written_number = number

    def _overwrite(self, content: bytes) -> bool:
        with self._naming:
            return self._is_retired or overwrite(self._files, self._path, content)

    def _replace(self, content: bytes, *, sync: bool) -> None:
        self._files.write_file(self._written_path, content, sync=sync)
        with self._naming:
            if not self._is_retired:
                self._files.rename(self._written_path, self._path)
                return
        remove_if_there(self._files, self._written_path)


class OffsetCheckpoint(NumberedFile):
    """One of the directory's checkpoint files: an offset for each partition."""

    def read(self) -> dict[TopicPartition, int]:
        """Its offsets; none when it is missing. Raises DecodeError when it is invalid."""
        try:
            data = self._files.read_file(self._path)
        except FileNotFoundError:
            return {}
        return decode_offsets(data)

    def start_write(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """A function that writes these offsets durably, on any thread; it blocks and raises OSError."""
        return self.start_writing(encode_offsets(offsets), sync=True)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Version, count, then `topic partition offset` lines."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint; DecodeError when it is truncated or invalid. Empty bytes hold none."""
    if not data:
        return {}
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        offsets = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        is_whole = version == _VERSION and int(count) == len(offsets)
    except ValueError as error:
        raise DecodeError(f"invalid offset checkpoint: {error}") from error
    if not is_whole:
        raise DecodeError(f"invalid offset checkpoint: version {version}, {count} lines")
    return offsets


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def encode_meta(meta: MetaProperties) -> bytes:
    lines = [
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={id_to_text(meta.directory_id)}",
        f"node.id={meta.node_id}",
        "version=1",
    ]
    return ("\n".join(lines) + "\n").encode()


def decode_meta(data: bytes) -> MetaProperties:
    """DecodeError when a property is missing or invalid."""
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
        pairs = dict(line.split("=", 1) for line in lines if line and not line.startswith(("#", "!")))
        values = {key.strip(): value.strip() for key, value in pairs.items()}
        if values["version"] != "1":
            raise DecodeError(f"meta.properties has version {values['version']}, expected 1")
        directory_id = values.get("directory.id")
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=id_from_text(directory_id) if directory_id else bytes(16),
        )
    except (KeyError, ValueError) as error:
        raise DecodeError(f"invalid meta.properties: {error}") from error


def claim_directory(files: Files, path: str, meta: MetaProperties) -> MetaProperties:
    """Check that a directory belongs to this broker, or claim it; ForeignDirectoryError, DecodeError."""
    try:
        found = decode_meta(files.read_file(path))
    except FileNotFoundError:
        write_aside(files, path, encode_meta(meta), sync=True)
        return meta
    if found.cluster_id != meta.cluster_id:
        raise ForeignDirectoryError(
            f"{path} has cluster.id={found.cluster_id}, but this broker belongs to {meta.cluster_id}: "
            "choose another log.dirs, or remove the directory if its data is not needed"
        )
    return found  # its node.id may be another: brokers of a cluster share the directory


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """No newline at the end: Kafka writes none."""
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic id; DecodeError."""
    try:
        values = dict(line.split(": ", 1) for line in data.decode().splitlines())
        if values["version"] != "0":
            raise DecodeError(f"partition.metadata has version {values['version']}, expected 0")
        return id_from_text(values["topic_id"])
    except (KeyError, ValueError) as error:
        raise DecodeError(f"invalid partition.metadata: {error}") from error


def write_clean_shutdown(files: Files, path: str) -> None:
    """Write the clean-shutdown marker: the last thing a broker does."""
    files.write_file(path, _CLEAN_SHUTDOWN, sync=True)
