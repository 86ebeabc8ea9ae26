"""Where aiokafka has NewPartitions."""

from __future__ import annotations

from klamm.compat.aiokafka.admin.model import NewPartitions

__all__ = ["NewPartitions"]
