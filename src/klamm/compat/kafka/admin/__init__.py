"""kafka-python's admin: `from klamm.compat.kafka.admin import KafkaAdminClient, NewTopic`."""

from __future__ import annotations

from klamm.compat.kafka.admin.acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from klamm.compat.kafka.admin.client import KafkaAdminClient
from klamm.compat.kafka.admin.model import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    GroupState,
    GroupType,
    MemberToRemove,
    NewPartitions,
    NewTopic,
)
from klamm.compat.kafka.words import OffsetSpec, OffsetTimestamp
from klamm.compat.refusals import refuses

__getattr__ = refuses("kafka", "admin")

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AlterConfigOp",
    "ConfigFilterType",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "GroupState",
    "GroupType",
    "KafkaAdminClient",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OffsetTimestamp",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
]
