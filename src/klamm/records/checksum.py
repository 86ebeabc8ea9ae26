"""CRC-32C, the checksum of record batches and of producer snapshots."""

from __future__ import annotations

from klamm.records.core import crc32c

__all__ = ["crc32c"]
