"""Offset commits of a coordinator's log to columns."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.records._pure.columns_in import check_region_bytes, packed, text_column, validity_bits
from klamm.records._pure.region import decode_region
from klamm.records.arrow import OffsetCommits, Region
from klamm.records.layout import MAX_INT32

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class _Commit(NamedTuple):
    key_version: int
    group: bytes
    topic: bytes
    partition: int
    value_version: int = -1
    committed_offset: int = -1
    leader_epoch: int = -1
    metadata: bytes | None = None
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1


class _Row(NamedTuple):
    log_offset: int
    log_timestamp_ms: int
    region: int
    commit: _Commit


def decode_offset_commits(
    regions: Sequence[Region], first_offset: int, until_offset: int, max_column_bytes: int = MAX_INT32
) -> OffsetCommits:
    """The offset commits among the records from `first_offset` to below `until_offset`, as columns.

    Other records are left out. Commits that cannot be decoded are listed by log offset in `broken`.
    DecodeError when a region is malformed; ValueError when a column would need more bytes than
    `max_column_bytes` or than its offsets can count.
    """
    check_region_bytes(regions, max_column_bytes)
    rows: list[_Row] = []
    broken: list[int] = []
    for number, region in enumerate(regions):
        for record in decode_region(*region):
            if not first_offset <= record.offset < until_offset:
                continue
            try:
                commit = _parse(record.key, record.value)
            except (DecodeError, struct_error, IndexError):
                broken.append(record.offset)
                continue
            if commit is not None:
                rows.append(_Row(record.offset, record.timestamp_ms, number, commit))
    commits = [row.commit for row in rows]
    tombstone_count, value_validity = validity_bits([commit.value_version >= 0 for commit in commits])
    return OffsetCommits(
        row_count=len(rows),
        log_offset=packed("q", [row.log_offset for row in rows]),
        log_timestamp_ms=packed("q", [row.log_timestamp_ms for row in rows]),
        region=packed("i", [row.region for row in rows]),
        group=text_column([commit.group for commit in commits], max_column_bytes),
        topic=text_column([commit.topic for commit in commits], max_column_bytes),
        partition=packed("i", [commit.partition for commit in commits]),
        key_version=packed("i", [commit.key_version for commit in commits]),
        tombstone_count=tombstone_count,
        value_validity=value_validity,
        value_version=packed("i", [commit.value_version for commit in commits]),
        committed_offset=packed("q", [commit.committed_offset for commit in commits]),
        leader_epoch=packed("i", [commit.leader_epoch for commit in commits]),
        metadata=text_column([commit.metadata for commit in commits], max_column_bytes),
        commit_timestamp_ms=packed("q", [commit.commit_timestamp_ms for commit in commits]),
        expire_timestamp_ms=packed("q", [commit.expire_timestamp_ms for commit in commits]),
        broken=packed("q", broken),
    )


def _parse(key: bytes | None, value: bytes | None) -> _Commit | None:
    """A commit or its tombstone; None for any other record."""
    if key is None or len(key) < 2:
        return None
    (key_version,) = _INT16.unpack_from(key)
    if key_version not in (0, 1):
        return None
    group, at = _string(key, 2)
    topic, at = _string(key, at)
    (partition,) = _INT32.unpack_from(key, at)
    if group is None or topic is None:
        raise DecodeError("an offset commit without a group or a topic")
    commit = _Commit(key_version, group, topic, partition)
    return commit if value is None else _with_value(commit, value)


def _with_value(commit: _Commit, value: bytes) -> _Commit:
    (version,) = _INT16.unpack_from(value)
    if not 0 <= version <= 4:
        raise DecodeError(f"an offset commit of version {version}")
    (committed_offset,) = _INT64.unpack_from(value, 2)
    at = 10
    leader_epoch = expire_timestamp_ms = -1
    if version >= 3:
        (leader_epoch,) = _INT32.unpack_from(value, at)
        at += 4
    # What follows in version 4 are tags, none of which matters here.
    metadata, at = _compact_string(value, at) if version == 4 else _string(value, at)
    (commit_timestamp_ms,) = _INT64.unpack_from(value, at)
    if version == 1:
        (expire_timestamp_ms,) = _INT64.unpack_from(value, at + 8)
    return commit._replace(
        value_version=version,
        committed_offset=committed_offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
    )


def _string(buffer: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT16.unpack_from(buffer, at)
    if length < 0:
        return None, at + 2
    return _taken(buffer, at + 2, length)


def _compact_string(buffer: bytes, at: int) -> tuple[bytes | None, int]:
    raw = 0
    for shift in range(0, 35, 7):
        byte = buffer[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= (1 << 32) - 1
            return _taken(buffer, at, raw - 1) if raw else (None, at)
    raise DecodeError("a varint of more than five bytes")


def _taken(buffer: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(buffer) - at:
        raise DecodeError(f"a string of {length} bytes where {len(buffer) - at} are left")
    return buffer[at : at + length], at + length
