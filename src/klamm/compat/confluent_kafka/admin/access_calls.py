"""ACLs and SCRAM credentials in confluent-kafka's AdminClient."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from klamm.access import acls as own
from klamm.access.acls import Acl, AclEntry, AclFilter, AclPattern
from klamm.client.admin import access
from klamm.client.admin.access_arguments import MECHANISM_CODES
from klamm.client.admin.access_model import ScramMechanism as OwnMechanism
from klamm.client.admin.admin_operations import AdminOperations
from klamm.client.admin.arguments import milliseconds
from klamm.compat.confluent_kafka.admin.access import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from klamm.compat.confluent_kafka.admin.futures import of_each, then
from klamm.compat.confluent_kafka.admin.resources import ResourceType
from klamm.compat.confluent_kafka.error import KafkaError, KafkaException, raised_as_theirs
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion

E = TypeVar("E", bound=Enum)

_OWN_MECHANISMS: Final = {ScramMechanism(code): mechanism for mechanism, code in MECHANISM_CODES.items()}
_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
_SALT_BYTES: Final = 64  # as librdkafka's


class AccessCalls:
    """The methods about who may connect, and what they may do."""

    _operations: AdminOperations

    @raised_as_theirs
    def create_acls(
        self, acls: Iterable[AclBinding], *, request_timeout: float | None = None
    ) -> dict[AclBinding, Future[None]]:
        asked = {item: _own_acl(item) for item in _unlike(acls, AclBinding, "ACL bindings")}
        answered = self._operations.create_acls(
            list(asked.values()), raise_errors=False, timeout=request_timeout
        )
        return of_each(answered, asked)

    @raised_as_theirs
    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float | None = None
    ) -> Future[list[AclBinding]]:
        if not isinstance(acl_binding_filter, AclBindingFilter):
            raise TypeError("Expected an AclBindingFilter object")
        found = self._operations.describe_acls(_own_filter(acl_binding_filter), timeout=request_timeout)
        return then(found, _bindings)

    @raised_as_theirs
    def delete_acls(
        self, acl_binding_filters: Iterable[AclBindingFilter], *, request_timeout: float | None = None
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        filters = _unlike(acl_binding_filters, AclBindingFilter, "ACL binding filters")
        asked = {item: _own_filter(item) for item in filters}
        answered = self._operations.delete_acls(
            list(asked.values()), raise_errors=False, timeout=request_timeout
        )
        return of_each(answered, asked, _bindings)

    @raised_as_theirs
    def describe_user_scram_credentials(
        self, users: list[str] | None = None, *, request_timeout: float | None = None
    ) -> Any:
        """A future for each user; without names one future, of a dictionary of all."""
        if users is None:
            found = self._operations.describe_users(timeout=request_timeout)
            return then(found, lambda each: {user: _described(user, each[user]) for user in each})
        if not isinstance(users, list):
            raise TypeError("Expected input to be list of String")
        for user in users:
            _check_user(user)
        if len(set(users)) < len(users):
            return _all_failed(users, "Duplicate users aren't allowed in the same request")
        answered = self._operations.describe_users(users, raise_errors=False, timeout=request_timeout)
        return {user: of_each(answered, {user: user}, partial(_described, user))[user] for user in users}

    @raised_as_theirs
    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        """Set and delete credentials, all in one request; the broker is sent salted hashes."""
        if not isinstance(alterations, list):
            raise TypeError("Expected input to be list")
        if not alterations:
            raise ValueError("Expected at least one alteration")
        for item in alterations:
            _check_alteration(item)
        users = [item.user for item in alterations]
        for index, item in enumerate(alterations):
            if _mechanism_of(item) is ScramMechanism.UNKNOWN:
                return _all_failed(users, f"SCRAM mechanism must be specified at index {index}")
        upserts = [_hashed(item) for item in alterations if isinstance(item, UserScramCredentialUpsertion)]
        deletions = [
            (item.user, _OWN_MECHANISMS[item.mechanism])
            for item in alterations
            if isinstance(item, UserScramCredentialDeletion)
        ]
        due_ms = milliseconds(request_timeout)
        answered = self._operations._each(
            False,
            lambda calls: access.alter_users(calls, upserts=upserts, deletions=deletions, timeout_ms=due_ms),
        )
        return of_each(answered, {user: user for user in users})


# --- ACLs --------------------------------------------------------------------------------------------------


def _unlike(items: Iterable[Any], kind: type[AclBinding], what: str) -> list[Any]:
    """Some of a kind, each once."""
    listed = list(items)
    if len(set(listed)) < len(listed):
        raise ValueError(f"duplicate {what} not allowed")
    if not all(isinstance(item, kind) for item in listed):
        raise ValueError(f"Expected list of {kind!r}")
    if not listed:
        raise ValueError(f"Expected non-empty list of {kind.__name__} objects")
    return listed


def _own_acl(binding: AclBinding) -> Acl:
    for member, what in (
        (binding.restype, "resource type"),
        (binding.resource_pattern_type, "resource pattern type"),
        (binding.operation, "operation"),
        (binding.permission_type, "permission type"),
    ):
        if member.name in ("UNKNOWN", "ANY", "MATCH"):
            raise ValueError(f"Invalid {what}")
    return Acl(
        AclPattern(
            own.ResourceType(binding.restype.value),
            own.PatternType(binding.resource_pattern_type.value),
            binding.name,
        ),
        AclEntry(
            binding.principal,
            binding.host,
            own.AclOperation(binding.operation.value),
            own.PermissionType(binding.permission_type.value),
        ),
    )


def _own_filter(wanted: AclBindingFilter) -> AclFilter:
    restype, pattern_type = wanted.restype, wanted.resource_pattern_type
    any_pattern = pattern_type in (ResourcePatternType.ANY, ResourcePatternType.MATCH)
    any_operation = wanted.operation is AclOperation.ANY
    any_permission = wanted.permission_type is AclPermissionType.ANY
    return AclFilter(
        None if restype is ResourceType.ANY else own.ResourceType(restype.value),
        None if any_pattern else own.PatternType(pattern_type.value),
        wanted.name,
        pattern_type is ResourcePatternType.MATCH,
        wanted.principal,
        wanted.host,
        None if any_operation else own.AclOperation(wanted.operation.value),
        None if any_permission else own.PermissionType(wanted.permission_type.value),
    )


def _bindings(acls: Iterable[Acl]) -> list[AclBinding]:
    return [
        AclBinding(
            _known(ResourceType, acl.pattern.resource_type),
            acl.pattern.name,
            _known(ResourcePatternType, acl.pattern.pattern_type),
            acl.entry.principal,
            acl.entry.host,
            _known(AclOperation, acl.entry.operation),
            _known(AclPermissionType, acl.entry.permission),
        )
        for acl in acls
    ]


def _known(kind: type[E], code: int) -> E:
    """The member with a code: UNKNOWN of the users and tokens that the library has no words for."""
    return next((member for member in kind if member.value == code), kind["UNKNOWN"])


# --- users -------------------------------------------------------------------------------------------------


def _check_user(user: Any) -> None:
    if not isinstance(user, str):
        raise TypeError("'user' must be a string")
    if not user:
        raise ValueError("'user' cannot be empty")


def _check_alteration(item: Any) -> None:
    if not isinstance(item, UserScramCredentialUpsertion | UserScramCredentialDeletion):
        raise TypeError("Expected UserScramCredentialUpsertion or UserScramCredentialDeletion")
    _check_user(item.user)
    if isinstance(item, UserScramCredentialUpsertion):
        if not isinstance(item.password, bytes):
            raise TypeError("'password' must be bytes")
        if not item.password:
            raise ValueError("'password' cannot be empty")
        if item.salt is not None and not item.salt:
            raise ValueError("'salt' can be None but cannot be empty")
        if item.salt is not None and not isinstance(item.salt, bytes):
            raise TypeError("'salt' must be bytes")
        if not isinstance(item.scram_credential_info, ScramCredentialInfo):
            raise TypeError("Expected credential_info to be ScramCredentialInfo Type")
        if item.scram_credential_info.iterations < 1:
            raise ValueError("Iterations should be positive")
    if not isinstance(_mechanism_of(item), ScramMechanism):
        raise TypeError("Expected the mechanism to be ScramMechanism Type")


def _mechanism_of(item: Any) -> ScramMechanism:
    is_upsertion = isinstance(item, UserScramCredentialUpsertion)
    found: ScramMechanism = item.scram_credential_info.mechanism if is_upsertion else item.mechanism
    return found


def _hashed(item: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    info = item.scram_credential_info
    salt = item.salt or secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(_HASHES[info.mechanism], item.password, salt, info.iterations)
    return ScramCredentialUpsertion(item.user, info.mechanism.value, info.iterations, salt, salted)


def _described(user: str, found: dict[OwnMechanism, int]) -> UserScramCredentialsDescription:
    return UserScramCredentialsDescription(
        user,
        [
            ScramCredentialInfo(ScramMechanism(MECHANISM_CODES[mechanism]), iterations)
            for mechanism, iterations in found.items()
        ],
    )


def _all_failed(users: Iterable[str], reason: str) -> dict[str, Future[Any]]:
    """What librdkafka refuses by itself is an error of every future."""
    futures: dict[str, Future[Any]] = {user: Future() for user in users}
    for future in futures.values():
        future.set_exception(KafkaException(KafkaError(CODES["_INVALID_ARG"], reason)))
    return futures
