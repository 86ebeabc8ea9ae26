"""CreateAcls: in effect on this broker when the response is sent, and on those that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from klamm.access.acls import Acl, AclPattern
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.security import audit
from klamm.broker.security.acl_requests import NO_AUTHORIZER, acl_to_create
from klamm.broker.security.stored_acls import STORED_AS, entry_key, pattern_key
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Create each ACL, or return its error; one that exists already is created."""
    if services.authorizer.is_open:
        disabled = AclCreationResult(ErrorCode.security_disabled, NO_AUTHORIZER)
        return CreateAclsResponse(results=[disabled] * len(request.creations))
    wanted = [acl_to_create(each) for each in request.creations]
    by_pattern: dict[AclPattern, list[Acl]] = {}
    for acl in wanted:
        if isinstance(acl, Acl):
            by_pattern.setdefault(acl.pattern, []).append(acl)
    changes: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
        pattern_key(pattern): partial(_with, acls) for pattern, acls in by_pattern.items()
    }
    refusals = await services.topics.alter_all_kept(STORED_AS, changes)
    is_done = [isinstance(acl, Acl) and pattern_key(acl.pattern) not in refusals for acl in wanted]
    audit.changed(context, [f"created ACL {acl}" for acl, done in zip(wanted, is_done, strict=True) if done])
    results = []
    for acl in wanted:
        refusal = acl if isinstance(acl, Refusal) else refusals.get(pattern_key(acl.pattern))
        if refusal is None:
            results.append(AclCreationResult(0, ""))
        else:
            results.append(AclCreationResult(refusal.error_code, refusal.message))
    return CreateAclsResponse(results=results)


def _with(acls: Sequence[Acl], present: Mapping[str, str]) -> dict[str, str]:
    return {**present, **{entry_key(acl.entry): "" for acl in acls}}
