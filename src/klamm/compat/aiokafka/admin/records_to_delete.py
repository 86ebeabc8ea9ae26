"""Where aiokafka has RecordsToDelete."""

from __future__ import annotations

from klamm.compat.aiokafka.admin.model import RecordsToDelete

__all__ = ["RecordsToDelete"]
