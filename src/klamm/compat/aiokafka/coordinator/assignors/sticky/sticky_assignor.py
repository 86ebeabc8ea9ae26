"""aiokafka's `sticky` assignor."""

from __future__ import annotations

from klamm.compat.assignors import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
