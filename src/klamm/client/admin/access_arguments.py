"""Arguments of operations on ACLs, users and quotas, checked and converted. No error shows a password."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping
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
from klamm.client.admin.access_model import QuotaEntity, ScramMechanism
from klamm.client.admin.arguments import integer, text, texts
from klamm.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion

MECHANISM_CODES: Final = {ScramMechanism.SHA_256: 1, ScramMechanism.SHA_512: 2}
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
_HASHES: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}
_SALT_BYTES: Final = 24


def acls(values: object) -> list[Acl]:
    """Several ACLs without repetition; one alone stands for itself."""
    return list(dict.fromkeys(_acl(value) for value in _several(values, Acl, "acls", "klamm.Acl")))


def acl_filter(value: object) -> AclFilter:
    """A filter; None selects all, an ACL itself."""
    if value is None:
        return AclFilter()
    if isinstance(value, Acl):
        return AclFilter.exactly(_acl(value))
    if not isinstance(value, AclFilter):
        raise TypeError(
            f"invalid filter of type {type(value).__name__}: expected klamm.AclFilter or klamm.Acl"
        )
    for word, kind in (
        (value.resource_type, ResourceType),
        (value.pattern_type, PatternType),
        (value.operation, AclOperation),
        (value.permission, PermissionType),
    ):
        if word is not None:
            _member(word, kind)
    for name, what in ((value.name, "name"), (value.principal, "principal"), (value.host, "host")):
        if name is not None:
            text(name, what)
    if not isinstance(value.matches_resource, bool):
        raise TypeError("invalid matches_resource: expected True or False")
    return value


def acl_filters(values: object) -> list[AclFilter]:
    """Several filters without repetition. None is refused: it would select all."""
    if values is None:
        raise TypeError("no filters given: AclFilter() selects all ACLs")
    several = _several(values, (Acl, AclFilter), "filters", "klamm.AclFilter or klamm.Acl")
    if any(each is None for each in several):
        raise TypeError("invalid filter None: AclFilter() selects all ACLs")
    return list(dict.fromkeys(map(acl_filter, several)))


def _acl(value: object) -> Acl:
    if not isinstance(value, Acl):
        raise TypeError(f"invalid ACL of type {type(value).__name__}: expected klamm.Acl.of(...)")
    if not isinstance(value.pattern, AclPattern) or not isinstance(value.entry, AclEntry):
        raise TypeError("invalid ACL: expected klamm.Acl.of(...)")
    _member(value.pattern.resource_type, ResourceType)
    _member(value.pattern.pattern_type, PatternType)
    _member(value.entry.operation, AclOperation)
    _member(value.entry.permission, PermissionType)
    text(value.pattern.name, "resource name")
    text(value.entry.principal, "principal")
    text(value.entry.host, "host")
    return value


def _member(value: object, kind: type[Any]) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            f"invalid {kind.__name__} {str(value)[:80]!r}: expected a member of klamm.{kind.__name__}"
        )


def _several(values: object, single: type[Any] | tuple[type[Any], ...], what: str, kind: str) -> list[object]:
    if isinstance(values, single):
        return [values]
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"invalid {what} of type {type(values).__name__}: expected a list of {kind}")
    return list(values)


def mechanism(value: object) -> ScramMechanism:
    if isinstance(value, str):
        for member in ScramMechanism:
            if member.value == value.upper().replace("_", "-"):
                return member
    expected = ", ".join(member.value for member in ScramMechanism)
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"invalid mechanism {str(value)[:80]!r}: expected one of {expected}")


def some_users(values: object) -> list[str] | None:
    return None if values is None else list(dict.fromkeys(texts(values, "user")))


def credentials(passwords: object, how: ScramMechanism, iterations: object) -> list[ScramCredentialUpsertion]:
    """What a broker is sent for passwords: salted hashes. The passwords stay here."""
    count = integer(iterations, "iterations")
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        raise ValueError(f"invalid iterations {count}: expected {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    if not isinstance(passwords, Mapping):
        raise TypeError("invalid passwords: expected a mapping, as in {'alice': 'secret'}")
    return [_credential(text(user, "user"), secret, how, count) for user, secret in passwords.items()]


def _credential(
    user: str, password: object, how: ScramMechanism, iterations: int
) -> ScramCredentialUpsertion:
    if not isinstance(password, str):
        raise TypeError(f"invalid password of user {user!r}: expected a str")
    if not password:
        raise ValueError(f"the password of user {user!r} is empty")
    try:
        secret = password.encode()
    except UnicodeEncodeError:
        raise ValueError(f"invalid password of user {user!r}: not valid Unicode") from None
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(_HASHES[how], secret, salt, iterations)
    return ScramCredentialUpsertion(user, MECHANISM_CODES[how], iterations, salt, salted)


def entity(value: object) -> QuotaEntity:
    if not isinstance(value, QuotaEntity):
        raise TypeError(
            f"invalid entity of type {type(value).__name__}: expected klamm.QuotaEntity(user='alice')"
        )
    for name, what in ((value.user, "user"), (value.client_id, "client id"), (value.ip, "ip")):
        if name is not None:
            text(name, what)
    return value


def quotas(values: object) -> dict[QuotaEntity, dict[str, float | None]]:
    """Quotas by entity; None removes one."""
    if not isinstance(values, Mapping):
        raise TypeError(
            "invalid quotas: expected a mapping, as in "
            "{QuotaEntity(user='alice'): {'producer_byte_rate': 1_000_000}}"
        )
    return {entity(key): _rates(rates, key) for key, rates in values.items()}


def _rates(values: object, owner: object) -> dict[str, float | None]:
    if not isinstance(values, Mapping):
        raise TypeError(
            f"invalid quotas of {owner}: expected a mapping, as in {{'producer_byte_rate': 1_000_000}}"
        )
    return {
        text(name, "quota"): None if rate is None else _rate(rate, str(name)) for name, rate in values.items()
    }


def _rate(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(
            f"invalid {name} of type {type(value).__name__}: expected a number, or None to remove it"
        )
    try:
        rate = float(value)
    except OverflowError:
        rate = math.inf
    if not math.isfinite(rate):
        raise ValueError(f"invalid {name}: expected a finite number")
    return rate
