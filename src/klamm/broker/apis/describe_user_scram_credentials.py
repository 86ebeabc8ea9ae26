"""DescribeUserScramCredentials: who has a credential for which mechanism; never salts or keys."""

from __future__ import annotations

from collections import Counter

from klamm.broker.net.context import RequestContext
from klamm.broker.security.stored_credentials import MECHANISMS, StoredCredentials
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """All users if none is named."""
    credentials = StoredCredentials(services.image)
    asked = Counter(user.name for user in request.users or ())
    if not asked:
        asked = Counter(credentials.users())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_described(credentials, name, count) for name, count in asked.items()]
    )


def _described(credentials: StoredCredentials, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.duplicate_resource, message)
    stored = credentials.mechanisms(name)
    if not stored:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.resource_not_found, message)
    return DescribeUserScramCredentialsResult(
        name,
        credential_infos=[
            CredentialInfo(number, stored[mechanism].iterations)
            for number, mechanism in MECHANISMS.items()
            if mechanism in stored
        ],
    )
