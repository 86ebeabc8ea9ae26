"""The core of the records layer: compiled where it was built, else its twin in pure Python.

`KLAMM_PURE=1` forces the twin, to tell whether a problem is in the compiled code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.protocol.types import Buffer
    from klamm.records import _pure as _chosen

    _crc32c = _chosen.crc32c
else:
    try:
        if os.environ.get("KLAMM_PURE") == "1":
            raise ImportError("KLAMM_PURE=1 is set")
        from klamm.records import _core as _chosen

        _crc32c = _chosen.crc32c
    except ImportError:
        # Imported only here: the twin and its imports take a tenth of a broker's start-up time.
        from klamm.records import _pure as _chosen
        from klamm.records._pure import hashes as _hashes

        def _crc32c(data: Buffer, value: int = 0) -> int:
            return _hashes.quick_crc32c(data, value)  # imported with the first checksum: commands need none


__all__ = [
    "COMPILED",
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

COMPILED = _chosen.__name__ == "klamm.records._core"
"""Whether the compiled core is in use."""

crc32c = _crc32c
murmur2 = _chosen.murmur2
parse_header = _chosen.parse_header
find_batch = _chosen.find_batch
last_whole_batch_end = _chosen.last_whole_batch_end
scan = _chosen.scan
sound_header = _chosen.sound_header
decode_region = _chosen.decode_region
encode_region = _chosen.encode_region
decode_columns = _chosen.decode_columns
partition_rows = _chosen.partition_rows
# A core that was built before it had this is no reason to fail.
new_buffer = getattr(_chosen, "new_buffer", bytearray)
encode_columns = _chosen.encode_columns
decode_offset_commits = _chosen.decode_offset_commits
BatchBuilder = _chosen.BatchBuilder
OpenBatches = _chosen.OpenBatches
Place = _chosen.Place
TopicCommits = _chosen.TopicCommits
OffsetTable = _chosen.OffsetTable
Replaced = _chosen.Replaced
encode_commits = _chosen.encode_commits
store_batches = _chosen.store_batches
store_records = _chosen.store_records
read_commits = _chosen.read_commits
write_commit_answers = _chosen.write_commit_answers
if hasattr(_chosen, "encode_one"):
    encode_one, stamped = _chosen.encode_one, _chosen.stamped
else:  # a core that was built before it had them
    from klamm.records._pure.singles import encode_one, stamped
