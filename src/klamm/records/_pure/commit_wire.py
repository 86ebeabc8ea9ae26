"""OffsetCommit on the wire: partitions in, answers out."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, Protocol

from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader
from klamm.records._pure.offset_table import TopicCommits
from klamm.records.layout import MIN_COMMIT_BYTES, PartitionCommit

_MAX_STRING_BYTES: Final = 0x7FFF
_ANSWER: Final = Struct(">ih")
_FLEXIBLE_ANSWER: Final = Struct(">ihx")  # no tags


class CommitAnswer(Protocol):
    """One partition of an OffsetCommit response."""

    partition_index: int
    error_code: int


def read_commits(
    has_leader_epoch: bool, is_flexible: bool, buffer: bytes, position: int, count: int
) -> tuple[TopicCommits, int]:
    """Decode `count` partitions of an OffsetCommit request; returns them and the position after them."""
    reader = Reader(buffer, position)
    if position < 0 or not 0 <= count <= reader.remaining // MIN_COMMIT_BYTES:
        raise DecodeError(f"{count} partitions cannot be in {reader.remaining} bytes")
    rows: list[PartitionCommit] = []
    for _ in range(count):
        partition, offset = reader.int32(), reader.int64()
        leader_epoch = reader.int32() if has_leader_epoch else -1
        metadata = reader.compact_nullable_string() if is_flexible else reader.nullable_string()
        if metadata and len(metadata.encode()) > _MAX_STRING_BYTES:
            raise DecodeError(f"metadata of more than {_MAX_STRING_BYTES} bytes")
        if is_flexible:
            reader.tags()
        rows.append(PartitionCommit(partition, offset, leader_epoch, metadata or ""))
    return TopicCommits(rows), reader.position


def write_commit_answers(is_flexible: bool, answers: Iterable[CommitAnswer]) -> bytes:
    """The partitions of one topic in the answer."""
    pack = _FLEXIBLE_ANSWER.pack if is_flexible else _ANSWER.pack
    return b"".join([pack(answer.partition_index, answer.error_code) for answer in answers])
