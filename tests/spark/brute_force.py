"""The coordinators' logs read from segment files with `struct` alone: slow, and none of klamm's code."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_BATCH = struct.Struct(">qiibIhiqqqhii")


class Commit(NamedTuple):
    """One record with a key of version 0 or 1; `offset` is None in a tombstone."""

    log_partition: int
    log_offset: int
    group: str
    topic: str
    partition: int
    offset: int | None
    txn: str


@dataclass
class Read:
    """What the files of `__consumer_offsets` hold."""

    commits: list[Commit] = field(default_factory=list)
    types: Counter[int] = field(default_factory=Counter)  # by version of the key
    tombstones: Counter[int] = field(default_factory=Counter)
    generations: list[tuple[str, int, int]] = field(default_factory=list)  # group, generation, members

    def latest(self) -> dict[tuple[str, str, int], int]:
        """The offsets that count now."""
        found: dict[tuple[str, str, int], Commit] = {}
        for commit in self.commits:
            if commit.txn in ("none", "committed"):
                key = commit.group, commit.topic, commit.partition
                if key not in found or found[key].log_offset < commit.log_offset:
                    found[key] = commit
        return {key: commit.offset for key, commit in found.items() if commit.offset is not None}


def read_offsets(folder: Path, ends: dict[int, int]) -> Read:
    """All partitions of `__consumer_offsets` below a broker's data folder, each up to its end."""
    found = Read()
    for path in folder.glob("__consumer_offsets-*"):
        number = int(path.name.rpartition("-")[2])
        waiting: dict[int, list[Commit]] = {}
        for batch in _batches(path):
            if batch.base_offset >= ends[number]:
                break
            _follow(found, waiting, number, batch)
        for held in waiting.values():
            found.commits += held
    return found


class _Batch(NamedTuple):
    base_offset: int
    attributes: int
    producer_id: int
    records: list[tuple[int, bytes | None, bytes | None]]


def _follow(found: Read, waiting: dict[int, list[Commit]], number: int, batch: _Batch) -> None:
    if batch.attributes & 0x20:
        key = batch.records[0][1]
        assert key is not None
        outcome = {0: "aborted", 1: "committed"}[struct.unpack(">hh", key[:4])[1]]
        found.commits += [held._replace(txn=outcome) for held in waiting.pop(batch.producer_id, [])]
        return
    for delta, key, value in batch.records:
        assert key is not None
        (version,) = struct.unpack_from(">h", key)
        found.types[version] += 1
        found.tombstones[version] += value is None
        if version <= 1:
            group, at = _text(key, 2)
            topic, at = _text(key, at)
            (partition,) = struct.unpack_from(">i", key, at)
            offset = None if value is None else struct.unpack_from(">q", value, 2)[0]
            place = number, batch.base_offset + delta
            if batch.attributes & 0x10:
                commit = Commit(*place, group, topic, partition, offset, "open")
                waiting.setdefault(batch.producer_id, []).append(commit)
            else:
                found.commits.append(Commit(*place, group, topic, partition, offset, "none"))
        elif version == 2 and value is not None:
            found.generations.append(_generation(key, value))


def _generation(key: bytes, value: bytes) -> tuple[str, int, int]:
    assert struct.unpack_from(">h", value)[0] == 3
    _, at = _text(value, 2)
    (generation,) = struct.unpack_from(">i", value, at)
    _, at = _text(value, at + 4)
    _, at = _text(value, at)
    (members,) = struct.unpack_from(">i", value, at + 8)
    return _text(key, 2)[0], generation, members


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end].decode(), end


def _batches(folder: Path) -> Iterator[_Batch]:
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        at = 0
        while at + _BATCH.size <= len(data):
            base, size, _, magic, _, attributes, _, _, _, producer, _, _, count = _BATCH.unpack_from(data, at)
            if size == 0:
                break  # a file that was given its room in advance
            assert magic == 2
            assert attributes & 7 == 0, "the coordinators do not compress"
            body = data[at + _BATCH.size : at + 12 + size]
            yield _Batch(base, attributes, producer, list(_records(body, count)))
            at += 12 + size


def _records(body: bytes, count: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    at = 0
    for _ in range(count):
        size, at = _varint(body, at)
        end = at + size
        _, at = _varint(body, at + 1)
        delta, at = _varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        yield delta, key, value
        at = end


def _bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(body, at)
    return (None, at) if size < 0 else (body[at : at + size], at + size)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
