"""Partition logs as segment files, in Kafka's own format on disk."""

from __future__ import annotations

from klamm.storage.engines.segments.store import SegmentStore

__all__ = ["SegmentStore"]
