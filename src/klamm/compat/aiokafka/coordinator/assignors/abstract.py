"""aiokafka's `abstract` assignor: the base of them."""

from __future__ import annotations

from klamm.compat.assignors import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
