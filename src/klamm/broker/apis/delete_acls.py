"""DeleteAcls: what the filters select is without effect when the response is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from klamm.access.acls import Acl, AclEntry, AclFilter, AclPattern
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.security import audit
from klamm.broker.security.acl_requests import NO_AUTHORIZER, filter_of
from klamm.broker.security.authorizer import AclAuthorizer
from klamm.broker.security.stored_acls import STORED_AS, entry_of, pattern_key
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Delete what each filter selects, and list it."""
    authorizer = services.authorizer
    if not isinstance(authorizer, AclAuthorizer):
        disabled = DeleteAclsFilterResult(ErrorCode.security_disabled, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[disabled] * len(request.filters))
    filters = [filter_of(each) for each in request.filters]
    found = [{} if each is None else authorizer.rights.find(each) for each in filters]
    doomed: dict[AclPattern, list[AclFilter]] = {}
    for wanted, patterns in zip(filters, found, strict=True):
        for pattern in patterns:
            assert wanted is not None
            doomed.setdefault(pattern, []).append(wanted)
    changes: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
        pattern_key(pattern): partial(_without, some) for pattern, some in doomed.items()
    }
    refusals = await services.topics.alter_all_kept(STORED_AS, changes)
    gone = dict.fromkeys(
        Acl(pattern, entry)
        for patterns in found
        for pattern, entries in patterns.items()
        if pattern_key(pattern) not in refusals
        for entry in entries
    )
    audit.changed(context, [f"deleted ACL {acl}" for acl in gone])
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                matching_acls=[
                    _deleted(pattern, entry, refusals.get(pattern_key(pattern)))
                    for pattern, entries in patterns.items()
                    for entry in entries
                ]
            )
            for patterns in found
        ]
    )


def _without(filters: Sequence[AclFilter], present: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in present.items()
        if not any(each.selects_entry(entry_of(key)) for each in filters)
    }


def _deleted(pattern: AclPattern, entry: AclEntry, refusal: Refusal | None) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0 if refusal is None else refusal.error_code,
        None if refusal is None else refusal.message,
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        *entry,
    )
