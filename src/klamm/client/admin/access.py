"""Requests about ACLs and SCRAM users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from klamm.access.acls import (
    Acl,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from klamm.client.admin.access_arguments import MECHANISM_CODES
from klamm.client.admin.access_model import ScramMechanism
from klamm.client.admin.results import Results
from klamm.client.calls import Calls
from klamm.errors import KlammError, ProtocolError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from klamm.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from klamm.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from klamm.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_ANY: Final = 1  # of every enumeration of a filter
_MATCH: Final = 2  # patterns that cover a name
_MECHANISMS: Final = {code: mechanism for mechanism, code in MECHANISM_CODES.items()}


async def create_acls(calls: Calls, acls: Sequence[Acl], *, timeout_ms: int | None) -> Results[Acl, None]:
    deadline = calls.deadline("creating ACLs", timeout_ms)
    if not acls:
        return Results()
    request = CreateAclsRequest([AclCreation(*_fields(acl)) for acl in acls])
    response: CreateAclsResponse = await calls.to_any(ApiKey.CREATE_ACLS, request, deadline)
    if len(response.results) != len(acls):
        raise ProtocolError(
            f"{len(acls)} ACLs were sent, and the broker answered for {len(response.results)}"
        )
    return Results(
        {
            acl: broker_error(item.error_code, f"ACL {acl}", item.error_message) if item.error_code else None
            for acl, item in zip(acls, response.results, strict=True)
        }
    )


async def describe_acls(calls: Calls, wanted: AclFilter, *, timeout_ms: int | None) -> list[Acl]:
    deadline = calls.deadline("describing ACLs", timeout_ms)
    request = DescribeAclsRequest(*_filter_fields(wanted))
    response: DescribeAclsResponse = await calls.to_any(ApiKey.DESCRIBE_ACLS, request, deadline)
    if response.error_code:
        raise broker_error(response.error_code, "describing ACLs", response.error_message)
    return sorted(
        (
            _acl(item.resource_type, item.pattern_type, item.resource_name, entry)
            for item in response.resources
            for entry in item.acls
        ),
        key=_order,
    )


async def delete_acls(
    calls: Calls, filters: Sequence[AclFilter], *, timeout_ms: int | None
) -> Results[AclFilter, list[Acl]]:
    deadline = calls.deadline("deleting ACLs", timeout_ms)
    if not filters:
        return Results()
    request = DeleteAclsRequest([DeleteAclsFilter(*_filter_fields(wanted)) for wanted in filters])
    response: DeleteAclsResponse = await calls.to_any(ApiKey.DELETE_ACLS, request, deadline)
    if len(response.filter_results) != len(filters):
        raise ProtocolError(
            f"{len(filters)} filters were sent, and the broker answered for {len(response.filter_results)}"
        )
    return Results(dict(zip(filters, map(_deleted, response.filter_results), strict=True)))


def _deleted(result: Any) -> list[Acl] | KlammError:
    """The ACLs that a filter deleted; the error if it failed on any of them."""
    if result.error_code:
        return broker_error(result.error_code, "deleting ACLs", result.error_message)
    deleted = []
    for item in result.matching_acls:
        acl = _acl(item.resource_type, item.pattern_type, item.resource_name, item)
        if item.error_code:
            return broker_error(item.error_code, f"deleting ACL {acl}", item.error_message)
        deleted.append(acl)
    return sorted(deleted, key=_order)


async def describe_users(
    calls: Calls, users: Sequence[str] | None, *, timeout_ms: int | None
) -> Results[str, dict[ScramMechanism, int]]:
    """Mechanisms and iterations of users; of all if none are named."""
    deadline = calls.deadline("describing users", timeout_ms)
    if users is not None and not users:
        return Results()  # the protocol would take an empty list for all
    request = DescribeUserScramCredentialsRequest(
        None if users is None else [UserName(name) for name in users]
    )
    response: DescribeUserScramCredentialsResponse = await calls.to_any(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request, deadline
    )
    if response.error_code:
        raise broker_error(response.error_code, "describing users", response.error_message)
    return Results(
        {
            item.user: (
                broker_error(item.error_code, f"user {item.user}", item.error_message)
                if item.error_code
                else {_mechanism(info.mechanism): info.iterations for info in item.credential_infos}
            )
            for item in sorted(response.results, key=lambda item: item.user)
        }
    )


async def alter_users(
    calls: Calls,
    *,
    upserts: Sequence[ScramCredentialUpsertion] = (),
    deletions: Sequence[tuple[str, ScramMechanism]] = (),
    timeout_ms: int | None,
) -> Results[str, None]:
    """Set and delete credentials; one of each user at most."""
    deadline = calls.deadline("changing users", timeout_ms)
    if not upserts and not deletions:
        return Results()
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(user, MECHANISM_CODES[mechanism]) for user, mechanism in deletions], upserts
    )
    response: AlterUserScramCredentialsResponse = await calls.to_controller(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        request,
        deadline,
        lambda answer: [item.error_code for item in answer.results],
    )
    return Results(
        {
            item.user: (
                broker_error(item.error_code, f"user {item.user}", item.error_message)
                if item.error_code
                else None
            )
            for item in response.results
        }
    )


async def delete_users(
    calls: Calls, users: Sequence[str], mechanism: ScramMechanism | None, *, timeout_ms: int | None
) -> Results[str, None]:
    """Delete credentials: of one mechanism, or, one after the other, of all that a user has."""
    if mechanism is not None:
        chosen = [(user, mechanism) for user in users]
        return await alter_users(calls, deletions=chosen, timeout_ms=timeout_ms)
    described = await describe_users(calls, users, timeout_ms=timeout_ms)
    outcomes: dict[str, KlammError | None] = dict(described.errors)
    for each in ScramMechanism:
        having = [(user, each) for user, found in described.successes.items() if each in found]
        deleted = await alter_users(calls, deletions=having, timeout_ms=timeout_ms)
        outcomes |= {user: None for user in deleted.successes if user not in outcomes}
        outcomes |= deleted.errors
    return Results(outcomes)


def is_absent(error: KlammError) -> bool:
    """Whether an error says that a user has no such credential."""
    return getattr(error, "error_code", None) == ErrorCode.resource_not_found


def _fields(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    (resource_type, pattern_type, name), entry = acl.pattern, acl.entry
    return (
        int(resource_type),
        name,
        int(pattern_type),
        entry.principal,
        entry.host,
        int(entry.operation),
        int(entry.permission),
    )


def _filter_fields(wanted: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    pattern = (
        _MATCH if wanted.matches_resource else _ANY if wanted.pattern_type is None else wanted.pattern_type
    )
    return (
        int(wanted.resource_type or _ANY),
        wanted.name,
        int(pattern),
        wanted.principal,
        wanted.host,
        int(wanted.operation or _ANY),
        int(wanted.permission or _ANY),
    )


def _acl(resource_type: int, pattern_type: int, name: str, entry: Any) -> Acl:
    try:
        return Acl(
            AclPattern(ResourceType(resource_type), PatternType(pattern_type), name),
            AclEntry(
                entry.principal,
                entry.host,
                AclOperation(entry.operation),
                PermissionType(entry.permission_type),
            ),
        )
    except ValueError as error:
        raise ProtocolError(f"an ACL of the broker is of a kind that klamm does not know: {error}") from None


def _mechanism(code: int) -> ScramMechanism:
    found = _MECHANISMS.get(code)
    if found is None:
        raise ProtocolError(f"a user has a credential for a mechanism that klamm does not know: {code}")
    return found


def _order(acl: Acl) -> tuple[object, ...]:
    """By resource, then denials before what is allowed."""
    entry = acl.entry
    return (*acl.pattern, entry.permission, entry.principal, entry.host, entry.operation)


def users_of(results: Results[str, dict[ScramMechanism, int]]) -> Iterator[tuple[str, ScramMechanism, int]]:
    """One row for each credential."""
    for user, mechanisms in results.successes.items():
        for mechanism, iterations in sorted(mechanisms.items()):
            yield user, mechanism, iterations
