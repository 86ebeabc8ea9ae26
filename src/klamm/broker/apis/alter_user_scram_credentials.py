"""AlterUserScramCredentials: set and delete what SCRAM logins are checked against.

The client sends salted passwords. The keys that are derived from them are kept, they themselves are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.security import audit
from klamm.broker.security.stored_credentials import (
    MECHANISMS,
    STORED_AS,
    StoredCredentials,
    credential_from,
    key_bytes,
    stored_value,
    user_key,
)
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

_FEWEST_ITERATIONS: Final = 4096
_MOST_ITERATIONS: Final = 16384
_SHORTEST_SALT_BYTES: Final = 8
_TWICE: Final = Refusal(
    ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
)


async def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """One result per user: what is asked of a user is done as a whole, or not at all."""
    refusals: dict[str, Refusal] = {}
    changes: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {}
    credentials = StoredCredentials(services.image)
    for deletion in request.deletions:
        name = deletion.name
        problem = _name_problem(name, deletion.mechanism)
        if problem is None and credentials.find(name, MECHANISMS[deletion.mechanism]) is None:
            problem = Refusal(
                ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
            )
        if problem is not None:
            refusals[name] = problem
        elif name in changes:
            refusals.setdefault(name, _TWICE)
        else:
            changes[name] = partial(_without, MECHANISMS[deletion.mechanism])
    for upsertion in request.upsertions:
        name = upsertion.name
        problem = _name_problem(name, upsertion.mechanism) or _upsertion_problem(upsertion)
        if problem is not None:
            refusals.setdefault(name, problem)
        elif name in changes:
            refusals.setdefault(name, _TWICE)
        else:
            changes[name] = partial(_with, upsertion)
    wanted = {user_key(name): change for name, change in changes.items() if name not in refusals}
    failures = await services.topics.alter_all_kept(STORED_AS, wanted)
    done = {name for name in changes if name not in refusals and user_key(name) not in failures}
    audit.changed(
        context,
        [
            f"{what} the {MECHANISMS[each.mechanism]} credential of User:{each.name}"
            for what, some in (("deleted", request.deletions), ("set", request.upsertions))
            for each in some
            if each.name in done
        ],
    )
    results = []
    for name in dict.fromkeys([*changes, *refusals]):
        refusal = refusals.get(name) or failures.get(user_key(name))
        if refusal is None:
            results.append(AlterUserScramCredentialsResult(name))
        else:
            results.append(AlterUserScramCredentialsResult(name, refusal.error_code, refusal.message))
    return AlterUserScramCredentialsResponse(results=results)


def _name_problem(name: str, mechanism: int) -> Refusal | None:
    if not name:
        return Refusal(ErrorCode.unacceptable_credential, "Username must not be empty")
    if mechanism not in MECHANISMS:
        return Refusal(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    return None


def _upsertion_problem(upsertion: ScramCredentialUpsertion) -> Refusal | None:
    problem = ""
    wanted_bytes = key_bytes(MECHANISMS[upsertion.mechanism])
    if upsertion.iterations < _FEWEST_ITERATIONS:
        problem = "Too few iterations"
    elif upsertion.iterations > _MOST_ITERATIONS:
        problem = "Too many iterations"
    elif len(upsertion.salt) < _SHORTEST_SALT_BYTES:
        problem = f"The salt has {len(upsertion.salt)} bytes: use at least {_SHORTEST_SALT_BYTES}"
    elif len(upsertion.salted_password) != wanted_bytes:
        problem = f"The salted password does not have the {wanted_bytes} bytes of this mechanism"
    return Refusal(ErrorCode.unacceptable_credential, problem) if problem else None


def _without(mechanism: str, present: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in present.items() if name != mechanism}


def _with(upsertion: ScramCredentialUpsertion, present: Mapping[str, str]) -> dict[str, str]:
    mechanism = MECHANISMS[upsertion.mechanism]
    credential = credential_from(mechanism, upsertion.iterations, upsertion.salt, upsertion.salted_password)
    return {**present, mechanism: stored_value(credential)}
