"""aiokafka's `range` assignor."""

from __future__ import annotations

from klamm.compat.assignors import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
