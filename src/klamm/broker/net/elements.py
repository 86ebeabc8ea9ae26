"""The partitions of OffsetCommit, which the compiled core reads and writes as a whole.

Clients commit ten and more partitions at a time. Measured for ten: 0.7 µs to read in place of 4, 0.1 to write
in place of 0.7.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from klamm.records.core import read_commits, write_commit_answers

if TYPE_CHECKING:
    from klamm.protocol.codec.decoding import ReadElements
    from klamm.protocol.codec.encoding import WriteElements
    from klamm.protocol.schema import Struct


def reader_of(struct: Struct) -> ReadElements | None:
    """The reader of such elements; None for those that the codec reads one by one."""
    if struct.name != "OffsetCommitRequestPartition":
        return None
    has_leader_epoch = any(field.name == "committed_leader_epoch" for field in struct.fields)
    return partial(read_commits, has_leader_epoch, struct.is_flexible)


def writer_of(struct: Struct) -> WriteElements | None:
    """The writer of such elements; None for those that the codec writes one by one."""
    if struct.name != "OffsetCommitResponsePartition":
        return None
    return partial(write_commit_answers, struct.is_flexible)
