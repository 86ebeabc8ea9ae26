"""Columns in Arrow's memory layout, as plain buffers: no Arrow library is needed to make or read them.

Validity is a bitmap, least significant bit first, a set bit for each value; None when no value is null.
Offsets are 32-bit and numbers are in the machine's own byte order, as Arrow requires.
"""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

from klamm.protocol.types import Buffer


class Want(IntFlag):
    """Which columns to decode; others are not copied."""

    KEY = 1
    VALUE = 2
    HEADERS = 4
    OFFSET = 8
    TIMESTAMP = 16
    TIMESTAMP_TYPE = 32
    ALL = 63


class Region(NamedTuple):
    """The records of one batch, decompressed, with fields of its header."""

    data: Buffer
    record_count: int
    base_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None  # replaces the records' own times


class BinaryColumn(NamedTuple):
    """Arrow's binary and string: one run of bytes, split by row_count + 1 offsets."""

    null_count: int
    validity: bytearray | None
    offsets: bytearray
    values: bytearray


class HeadersColumn(NamedTuple):
    """Arrow's list of struct<key: string, value: binary>; a record without headers is a null."""

    null_count: int
    validity: bytearray | None
    offsets: bytearray
    header_count: int
    names: BinaryColumn
    values: BinaryColumn


class Columns(NamedTuple):
    """Records as columns; None for a column that was not requested."""

    row_count: int
    offset: bytearray | None  # int64
    timestamp_ms: bytearray | None  # int64
    timestamp_type: bytearray | None  # int32: 0 the producer's clock, 1 the broker's
    key: BinaryColumn | None
    value: BinaryColumn | None
    headers: HeadersColumn | None


class FixedInput(NamedTuple):
    """An Arrow array of numbers: its two buffers and the row its slice starts at."""

    validity: Buffer | None
    values: Buffer
    first_row: int = 0


class BinaryInput(NamedTuple):
    """An Arrow array of binary or string: its three buffers and the row its slice starts at."""

    validity: Buffer | None
    offsets: Buffer
    values: Buffer | None
    first_row: int = 0


class HeadersInput(NamedTuple):
    """An Arrow array of list<struct<key, value>>; a null list means no headers."""

    validity: Buffer | None
    offsets: Buffer
    names: BinaryInput
    values: BinaryInput
    first_row: int = 0


class EncodedRegion(NamedTuple):
    """Records of one partition, encoded and not yet in a batch. Offsets run from 0 without gaps."""

    partition: int
    data: bytearray
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class OffsetCommits(NamedTuple):
    """The offset commits of a coordinator's log as columns.

    A tombstone has no value: its bit in `value_validity` is clear, and its numbers are -1. Numbers that
    an old version does not carry are -1 too.
    """

    row_count: int
    log_offset: bytearray  # int64
    log_timestamp_ms: bytearray  # int64
    region: bytearray  # int32: which of the regions given, and so which batch and producer
    group: BinaryColumn
    topic: BinaryColumn
    partition: bytearray  # int32
    key_version: bytearray  # int32
    tombstone_count: int
    value_validity: bytearray | None
    value_version: bytearray  # int32
    committed_offset: bytearray  # int64
    leader_epoch: bytearray  # int32
    metadata: BinaryColumn
    commit_timestamp_ms: bytearray  # int64
    expire_timestamp_ms: bytearray  # int64
    broken: bytearray  # int64: log offsets of commits that cannot be decoded
