"""Where aiokafka has NewTopic."""

from __future__ import annotations

from klamm.compat.aiokafka.admin.model import NewTopic

__all__ = ["NewTopic"]
