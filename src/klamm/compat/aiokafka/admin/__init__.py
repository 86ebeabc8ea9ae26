"""aiokafka's admin: `from klamm.compat.aiokafka.admin import AIOKafkaAdminClient, NewTopic`."""

from __future__ import annotations

from klamm.compat.aiokafka.admin.client import AIOKafkaAdminClient
from klamm.compat.aiokafka.admin.model import NewPartitions, NewTopic, RecordsToDelete

__all__ = ["AIOKafkaAdminClient", "NewPartitions", "NewTopic", "RecordsToDelete"]
