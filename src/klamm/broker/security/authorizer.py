"""The authorizer with access control lists: Kafka's StandardAuthorizer on the ACLs of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from klamm.access.acls import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from klamm.access.rights import Rights
from klamm.broker.security.permissions import DESCRIBE_CLUSTER, Permission, operation_bits

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.broker.security.audit import Denials

_MOST_KNOWN: Final = 1000  # decisions that one connection keeps


class AclAuthorizer:
    """Decides by ACLs. Decisions are kept with the connection until any ACL changes."""

    is_open = False

    def __init__(
        self,
        rights: Rights,
        denials: Denials,
        *,
        super_users: Collection[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self.rights = rights
        self._denials = denials
        self.super_users = frozenset(super_users)
        self.allow_if_no_acl = allow_if_no_acl
        self.generation = object()  # replaced when an ACL changes: decisions made before are void

    def changed(self) -> None:
        """The rights are others now, for open connections too."""
        self.generation = object()

    def allows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        known = context.decisions
        if known.generation is self.generation and (permission, name) in known.allowed:
            return True
        if self.shows(context, permission, name):
            return True
        self._denials.record(context, permission, name)
        return False

    def shows(self, context: RequestContext, permission: Permission, name: str, /) -> bool:
        known = context.decisions
        if known.generation is not self.generation or len(known.allowed) + len(known.denied) >= _MOST_KNOWN:
            known.generation = self.generation
            known.allowed.clear()
            known.denied.clear()
        key = (permission, name)
        if key in known.allowed:
            return True
        if key in known.denied:
            return False
        is_allowed = self._decide(context, permission, name)
        (known.allowed if is_allowed else known.denied).add(key)
        return is_allowed

    def _decide(self, context: RequestContext, permission: Permission, name: str) -> bool:
        principal = str(context.principal)
        if principal in self.super_users:
            return True
        decision = self.rights.decide(
            principal, _host(context), permission.operation, permission.resource_type, name
        )
        return decision.is_allowed or (not decision.has_acls and self.allow_if_no_acl)

    def allows_any(self, context: RequestContext, permission: Permission, /) -> bool:
        # As Kafka: whether it is allowed on any name tells whether everything is allowed.
        if self.shows(context, permission, "hardcode"):
            return True
        return self.rights.allows_any(
            str(context.principal), _host(context), permission.operation, permission.resource_type
        )

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        if str(context.principal) in self.super_users:
            return operation_bits(resource_type)
        if resource_type is ResourceType.CLUSTER and not self.shows(context, DESCRIBE_CLUSTER, CLUSTER_NAME):
            return 0
        return sum(1 << operation for operation in self._allowed(context, resource_type, name))

    def _allowed(
        self, context: RequestContext, resource_type: ResourceType, name: str
    ) -> Iterator[AclOperation]:
        for operation in OPERATIONS[resource_type]:
            if self.shows(context, Permission(resource_type, operation), name):
                yield operation


def _host(context: RequestContext) -> str:
    """The address alone: a context has it as Kafka prints it, with a slash."""
    return context.client_host.removeprefix("/")
