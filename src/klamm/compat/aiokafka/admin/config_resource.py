"""Where aiokafka has ConfigResource."""

from __future__ import annotations

from klamm.compat.aiokafka.admin.model import ConfigResource, ConfigResourceType

__all__ = ["ConfigResource", "ConfigResourceType"]
