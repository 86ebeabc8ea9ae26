"""ACLs in requests: which ones are meant, and why one cannot be stored."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeVar

from klamm.access.acls import (
    CLUSTER_NAME,
    Acl,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import CloseConnectionError
from klamm.protocol.errors import ErrorCode

NO_AUTHORIZER: Final = "No Authorizer is configured."
_ANY: Final = 1
_MATCH: Final = 2
_Kind = TypeVar("_Kind", bound=IntEnum)


def acl_to_create(asked: Any) -> Acl | Refusal:
    """The ACL of a CreateAcls, or why there can be none."""
    kinds: dict[str, IntEnum] = {}
    for name, kind, value in (
        ("resourceType", ResourceType, asked.resource_type),
        ("patternType", PatternType, asked.resource_pattern_type),
        ("operation", AclOperation, asked.operation),
        ("permissionType", PermissionType, asked.permission_type),
    ):
        known = _known(kind, value)
        if known is None:
            word = "ANY" if value == _ANY else "MATCH" if value == _MATCH else "UNKNOWN"
            return _invalid(f"Invalid {name} {word}")
        kinds[name] = known
    resource_type = ResourceType(kinds["resourceType"])
    if not asked.resource_name:
        return _invalid("Invalid empty resource name")
    pattern_type = PatternType(kinds["patternType"])
    is_other_cluster = resource_type is ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME
    if is_other_cluster and pattern_type is PatternType.LITERAL:  # Kafka stores prefixes that cover nothing
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in asked.principal:
        return _invalid(
            f"Could not parse principal from `{asked.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return Acl(
        AclPattern(resource_type, pattern_type, asked.resource_name),
        AclEntry(
            asked.principal,
            asked.host,
            AclOperation(kinds["operation"]),
            PermissionType(kinds["permissionType"]),
        ),
    )


def filter_of(asked: Any) -> AclFilter | None:
    """The filter of a DescribeAcls or a DeleteAcls; None selects nothing: its values are unknown."""
    numbers = (
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    )
    if 0 in numbers:
        raise CloseConnectionError("a filter of ACLs contains the value 0 (unknown)")
    kinds = (ResourceType, PatternType, AclOperation, PermissionType)
    known = [_known(kind, number) for kind, number in zip(kinds, numbers, strict=True)]
    matches_resource = asked.pattern_type_filter == _MATCH
    if any(
        each is None and number != _ANY and not (kind is PatternType and matches_resource)
        for kind, each, number in zip(kinds, known, numbers, strict=True)
    ):
        return None
    resource_type, pattern_type, operation, permission = known
    return AclFilter(
        None if resource_type is None else ResourceType(resource_type),
        None if pattern_type is None else PatternType(pattern_type),
        asked.resource_name_filter,
        matches_resource,
        asked.principal_filter,
        asked.host_filter,
        None if operation is None else AclOperation(operation),
        None if permission is None else PermissionType(permission),
    )


def _known(kind: type[_Kind], value: int) -> _Kind | None:
    try:
        return kind(value)
    except ValueError:
        return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
