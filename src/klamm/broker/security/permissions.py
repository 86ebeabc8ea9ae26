"""What requests need, and who decides whether their senders have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from klamm.access.acls import OPERATIONS, AclOperation, ResourceType
from klamm.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext

NOT_REQUESTED: Final = -2147483648  # in place of the operations, when a client did not request them

REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}


class Permission(NamedTuple):
    """An operation on a type of resource."""

    resource_type: ResourceType
    operation: AclOperation

    @property
    def refusal(self) -> ErrorCode:
        """The error of a request that does not have it."""
        return REFUSALS[self.resource_type]


READ_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.READ)
WRITE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.WRITE)
CREATE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.CREATE)
DELETE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.DELETE)
ALTER_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.ALTER)
DESCRIBE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.DESCRIBE)
DESCRIBE_TOPIC_CONFIGS: Final = Permission(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS)
ALTER_TOPIC_CONFIGS: Final = Permission(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS)
READ_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.READ)
DELETE_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.DELETE)
DESCRIBE_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.DESCRIBE)
DESCRIBE_GROUP_CONFIGS: Final = Permission(ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS)
ALTER_GROUP_CONFIGS: Final = Permission(ResourceType.GROUP, AclOperation.ALTER_CONFIGS)
WRITE_TRANSACTIONAL_ID: Final = Permission(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE)
ALTER_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.ALTER)
CREATE_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.CREATE)
DESCRIBE_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.DESCRIBE)
DELETE_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.DELETE)
CLUSTER_ACTION: Final = Permission(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION)
DESCRIBE_CLUSTER_CONFIGS: Final = Permission(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS)
ALTER_CLUSTER_CONFIGS: Final = Permission(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS)
IDEMPOTENT_WRITE: Final = Permission(ResourceType.CLUSTER, AclOperation.IDEMPOTENT_WRITE)


class Authorizer(Protocol):
    """Decides what the sender of a request may do."""

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed: it need not be asked."""
        ...

    @property
    def generation(self) -> object:
        """Another object when decisions may be others: `Decisions` with it are still good."""
        ...

    def allows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        """Whether it may perform an operation that it asked for on a resource; a refusal is recorded."""
        ...

    def shows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        """The same of a resource that it did not name: what it may not see is left out, and not recorded."""
        ...

    def allows_any(self, context: RequestContext, permission: Permission, /) -> bool:
        """Whether there may be a resource on which it may perform an operation."""
        ...

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        """All operations that it may perform on a resource, as bits."""
        ...


def operation_bits(resource_type: ResourceType) -> int:
    """All operations on a type of resource, as bits."""
    return sum(1 << operation for operation in OPERATIONS[resource_type])


class AllowAll:
    """The authorizer of a broker without access control."""

    is_open = True
    generation: object = None

    def __init__(self) -> None:
        self._all = {each: operation_bits(each) for each in ResourceType}

    def allows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        return True

    shows = allows

    def allows_any(self, context: RequestContext, permission: Permission, /) -> bool:
        return True

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        return self._all[resource_type]
