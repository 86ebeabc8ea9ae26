"""Principals, resources, operations and access control lists, with Kafka's names and codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

CLUSTER_NAME: Final = "kafka-cluster"  # the only resource of type CLUSTER
WILDCARD: Final = "*"  # any name, as a literal name; any host
ANYBODY: Final = "User:*"


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
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL is compared with that of a resource."""

    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What can be done to a resource; as a bit of an answer, 1 << code."""

    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """What an ACL does."""

    DENY = 2
    ALLOW = 3


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
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}

# An ALLOW of one of these allows the operation, too. A DENY denies only what it names.
IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    operation: frozenset({operation, AclOperation.ALL})
    | {
        AclOperation.DESCRIBE: frozenset(
            {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
        ),
        AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
    }.get(operation, frozenset())
    for operation in AclOperation
}


E = TypeVar("E", bound=IntEnum)


def word_of(value: object, kind: type[E], what: str) -> E:
    """A member of an enumeration, by itself or by its word in any case. Raises ValueError."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        found = kind.__members__.get(value.strip().upper().replace("-", "_"))
        if found is not None:
            return found
    expected = ", ".join(member.name.lower() for member in kind)
    raise ValueError(f"invalid {what} {value!r}: expected one of {expected}")


class AclPattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    def covers(self, name: str) -> bool:
        """Whether a resource of this type and name is among them."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """Who may do what, from where, or may not."""

    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType


@dataclass(frozen=True, slots=True)
class Acl:
    """One access control list entry on its resources."""

    pattern: AclPattern
    entry: AclEntry

    @classmethod
    def of(
        cls,
        principal: str,
        operation: AclOperation | str,
        resource_type: ResourceType | str,
        name: str = CLUSTER_NAME,
        *,
        prefixed: bool = False,
        host: str = WILDCARD,
        deny: bool = False,
    ) -> Acl:
        """An ACL in words: `Acl.of("User:alice", "read", "topic", "orders")`. Raises ValueError."""
        return cls(
            AclPattern(
                word_of(resource_type, ResourceType, "resource type"),
                PatternType.PREFIXED if prefixed else PatternType.LITERAL,
                name,
            ),
            AclEntry(
                principal,
                host,
                word_of(operation, AclOperation, "operation"),
                PermissionType.DENY if deny else PermissionType.ALLOW,
            ),
        )

    def __str__(self) -> str:
        (resource_type, pattern_type, name), (principal, host, operation, permission) = (
            self.pattern,
            self.entry,
        )
        return (
            f"{permission.name} {principal} from host {host}: {operation.name} on "
            f"{resource_type.name} {pattern_type.name} {name}"
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects ACLs; None is any. With `matches_resource`, all patterns that cover the name."""

    resource_type: ResourceType | None = None
    pattern_type: PatternType | None = None
    name: str | None = None
    matches_resource: bool = False
    principal: str | None = None
    host: str | None = None
    operation: AclOperation | None = None
    permission: PermissionType | None = None

    @classmethod
    def exactly(cls, acl: Acl) -> AclFilter:
        """Selects this ACL alone."""
        return cls(
            acl.pattern.resource_type,
            acl.pattern.pattern_type,
            acl.pattern.name,
            principal=acl.entry.principal,
            host=acl.entry.host,
            operation=acl.entry.operation,
            permission=acl.entry.permission,
        )

    def selects(self, pattern: AclPattern) -> bool:
        """Whether ACLs of a pattern may be among them."""
        if self.resource_type not in (None, pattern.resource_type):
            return False
        if self.matches_resource:
            return self.name is None or pattern.covers(self.name)
        return self.pattern_type in (None, pattern.pattern_type) and self.name in (None, pattern.name)

    def selects_entry(self, entry: AclEntry) -> bool:
        """Whether an entry of such a pattern is among them."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (None, entry.operation)
            and self.permission in (None, entry.permission)
        )
