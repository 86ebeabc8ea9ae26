"""kafka-python's `roundrobin` assignor."""

from __future__ import annotations

from klamm.compat.assignors import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
