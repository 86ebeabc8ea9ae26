"""ACLs in kafka-python's admin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from klamm.access import acls as own
from klamm.client.admin.admin import Admin
from klamm.errors import KlammError, error_class


class ResourceType(IntEnum):
    """What an ACL is about; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ACLOperation(IntEnum):
    """What a principal may do; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
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


class ACLPermissionType(IntEnum):
    """Whether it may; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ACLResourcePatternType(IntEnum):
    """How a name is compared; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


@dataclass(unsafe_hash=True)
class ResourcePatternFilter:
    """Resources of any type, name or pattern."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: ACLResourcePatternType

    def __post_init__(self) -> None:
        _check(self.resource_type, ResourceType, "resource_type")
        _check(self.pattern_type, ACLResourcePatternType, "pattern_type")


@dataclass(unsafe_hash=True)
class ResourcePattern(ResourcePatternFilter):
    """The resources that an ACL is about."""

    pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_definite(self.resource_type, "resource_type")
        _check_definite(self.pattern_type, "pattern_type")


@dataclass(unsafe_hash=True)
class ACLFilter:
    """Which ACLs are meant; None is any."""

    principal: str | None
    host: str | None
    operation: ACLOperation
    permission_type: ACLPermissionType
    resource_pattern: ResourcePatternFilter

    def __post_init__(self) -> None:
        _check(self.operation, ACLOperation, "operation")
        _check(self.permission_type, ACLPermissionType, "permission_type")
        _check(self.resource_pattern, ResourcePatternFilter, "resource_pattern")


@dataclass(unsafe_hash=True)
class ACL(ACLFilter):
    """An ACL."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_definite(self.operation, "operation")
        _check_definite(self.permission_type, "permission_type")
        _check(self.resource_pattern, ResourcePattern, "resource_pattern")


class AclCalls:
    """The methods about ACLs."""

    _admin: Admin

    def create_acls(self, acls: Iterable[ACL]) -> dict[str, list[Any]]:
        """Which were added, and for the others the classes of their errors."""
        asked = list(acls)
        for item in asked:
            _check(item, ACL, "acls")
        made = [_own_acl(item) for item in asked]
        results = self._admin.create_acls(made, raise_errors=False)
        pairs = list(zip(asked, made, strict=True))
        return {
            "succeeded": [item for item, key in pairs if key not in results.errors],
            "failed": [type(results.errors[key]) for _, key in pairs if key in results.errors],
        }

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[KlammError]]:
        """The ACLs that a filter selects, and NoError."""
        found = self._admin.describe_acls(_own_filter(acl_filter))
        return [_acl_of(item) for item in found], error_class(0)

    def delete_acls(
        self, acl_filters: Iterable[ACLFilter]
    ) -> list[tuple[ACLFilter, list[ACL], type[KlammError]]]:
        """For each filter the ACLs that it deleted, and the class of its error, or NoError."""
        asked = list(acl_filters)
        for item in asked:
            _check(item, ACLFilter, "acl_filters")
        made = [_own_filter(item) for item in asked]
        results = self._admin.delete_acls(made, raise_errors=False)
        return [
            (item, [], type(results.errors[key]))
            if key in results.errors
            else (item, [_acl_of(acl) for acl in results[key]], error_class(0))
            for item, key in zip(asked, made, strict=True)
        ]


def _own_acl(acl: ACL) -> own.Acl:
    pattern = acl.resource_pattern
    return own.Acl(
        own.AclPattern(
            own.ResourceType(pattern.resource_type),
            own.PatternType(pattern.pattern_type),
            pattern.resource_name or "",
        ),
        own.AclEntry(
            acl.principal or "",
            acl.host or "",
            own.AclOperation(acl.operation),
            own.PermissionType(acl.permission_type),
        ),
    )


def _own_filter(wanted: ACLFilter) -> own.AclFilter:
    pattern, kinds = wanted.resource_pattern, ACLResourcePatternType
    is_any = pattern.pattern_type in (kinds.ANY, kinds.MATCH)
    return own.AclFilter(
        None if pattern.resource_type == ResourceType.ANY else own.ResourceType(pattern.resource_type),
        None if is_any else own.PatternType(pattern.pattern_type),
        pattern.resource_name,
        pattern.pattern_type == kinds.MATCH,
        wanted.principal,
        wanted.host,
        None if wanted.operation == ACLOperation.ANY else own.AclOperation(wanted.operation),
        None
        if wanted.permission_type == ACLPermissionType.ANY
        else own.PermissionType(wanted.permission_type),
    )


def _acl_of(acl: own.Acl) -> ACL:
    pattern, entry = acl.pattern, acl.entry
    return ACL(
        entry.principal,
        entry.host,
        ACLOperation(entry.operation),
        ACLPermissionType(entry.permission),
        ResourcePattern(
            ResourceType(pattern.resource_type), pattern.name, ACLResourcePatternType(pattern.pattern_type)
        ),
    )


def _check(item: object, kind: type[Any], what: str) -> None:
    if not isinstance(item, kind):
        raise ValueError(f"{what} must be {kind.__name__}: not {item!r}")


def _check_definite(member: IntEnum, what: str) -> None:
    if member.name in ("ANY", "MATCH"):
        raise ValueError(f"{what} cannot be {member.name}")
