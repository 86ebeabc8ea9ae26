"""Principals, resources and operations, with Kafka's names and codes.

There is no authorizer yet that denies anything. Each route names the permissions that its API needs, and
responses that report authorized operations take them from the authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from klamm.protocol.named_tuple import NamedTuple

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext

NOT_REQUESTED: Final = -2147483648  # in place of the operations, when a client did not request them
CLUSTER_NAME: Final = "kafka-cluster"  # the only resource of type CLUSTER


class Principal(NamedTuple):
    """The sender of a request; prints as `User:name`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


class ResourceType(IntEnum):
    """What can be protected."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class AclOperation(IntEnum):
    """What can be done to a resource; as a bit of an answer, 1 << code."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(NamedTuple):
    """An operation on a type of resource."""

    resource_type: ResourceType
    operation: AclOperation


OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}


class Authorizer(Protocol):
    """Decides what the sender of a request may do."""

    def allows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        """Whether it may perform an operation on a resource."""
        ...

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        """All operations that it may perform on a resource, as bits."""
        ...


class AllowAll:
    """The authorizer of a broker without access control."""

    def __init__(self) -> None:
        self._all = {
            resource_type: sum(1 << operation for operation in operations)
            for resource_type, operations in OPERATIONS.items()
        }

    def allows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        return True

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        return self._all[resource_type]
