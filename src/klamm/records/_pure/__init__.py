"""The pure-Python core: the reference for the compiled one, and its fallback."""

from __future__ import annotations

from klamm.records._pure.builder import BatchBuilder, OpenBatches, Place
from klamm.records._pure.columns_in import decode_columns, new_buffer
from klamm.records._pure.columns_out import encode_columns, partition_rows
from klamm.records._pure.commit_wire import read_commits, write_commit_answers
from klamm.records._pure.hashes import crc32c, murmur2
from klamm.records._pure.offset_table import (
    OffsetTable,
    Replaced,
    TopicCommits,
    encode_commits,
    store_batches,
    store_records,
)
from klamm.records._pure.offsets import decode_offset_commits
from klamm.records._pure.region import decode_region, encode_region
from klamm.records._pure.singles import encode_one, stamped
from klamm.records._pure.walk import find_batch, last_whole_batch_end, parse_header, scan, sound_header

__all__ = [
    "BatchBuilder",
    "OffsetTable",
    "OpenBatches",
    "Place",
    "Replaced",
    "TopicCommits",
    "crc32c",
    "decode_columns",
    "decode_offset_commits",
    "decode_region",
    "encode_columns",
    "encode_commits",
    "encode_one",
    "encode_region",
    "find_batch",
    "last_whole_batch_end",
    "murmur2",
    "new_buffer",
    "parse_header",
    "partition_rows",
    "read_commits",
    "scan",
    "sound_header",
    "stamped",
    "store_batches",
    "store_records",
    "write_commit_answers",
]
