"""May this user do that, and by which rule? Decided from the ACLs of the cluster by Kafka's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from klamm.access.acls import WILDCARD, Acl, AclEntry, AclFilter, AclPattern
from klamm.access.rights import Rights
from klamm.cli.acl_words import TYPE_WORDS, Need, as_json, in_words, shown_word
from klamm.client.admin.admin import Admin
from klamm.errors import KlammError

_NO_HOST = "\0"  # matches no ACL of a single host


@dataclass(frozen=True, slots=True)
class Openness:
    """What is not in ACLs and decides as well; None where the cluster does not show it."""

    super_users: frozenset[str] | None
    allow_if_no_acl: bool | None


@dataclass(frozen=True, slots=True)
class AclVerdict:
    """Whether one operation is allowed; None where the cluster does not show what decides."""

    need: Need
    is_allowed: bool | None
    rule: Acl | None
    reason: str

    def cells(self) -> tuple[str, ...]:
        word = {True: "allowed", False: "DENIED", None: "unknown"}[self.is_allowed]
        need = self.need
        return (word, shown_word(need.operation), TYPE_WORDS[need.resource_type], need.name, self.reason)

    def as_json(self) -> dict[str, Any]:
        return {
            "operation": shown_word(self.need.operation),
            "resource": TYPE_WORDS[self.need.resource_type],
            "name": self.need.name,
            "allowed": self.is_allowed,
            "rule": None if self.rule is None else as_json(self.rule),
            "reason": self.reason,
        }


def acls_about(admin: Admin, needs: Iterable[Need]) -> list[Acl]:
    """The ACLs on the resources of these needs."""
    resources = dict.fromkeys((need.resource_type, need.name) for need in needs)
    found: dict[Acl, None] = {}
    for kind, name in resources:
        found |= dict.fromkeys(admin.describe_acls(AclFilter(kind, name=name, matches_resource=True)))
    return list(found)


def openness(admin: Admin) -> Openness:
    """What brokers show of the settings that decide beside ACLs; Kafka shows neither."""
    names = ("super.users", "allow.everyone.if.no.acl.found")
    try:
        broker = admin.describe_cluster().brokers[0].broker_id
        ((_, found),) = admin.describe_configs("broker", broker, keys=names).items()
    except KlammError:
        return Openness(None, None)
    users, everyone = (found[name].value if name in found else None for name in names)
    return Openness(
        None if users is None else frozenset(each.strip() for each in users.split(";")),
        None if everyone is None else everyone.lower() == "true",
    )


def verdicts(
    principal: str, host: str | None, needs: Sequence[Need], acls: Iterable[Acl], known: Openness
) -> list[AclVerdict]:
    """The decision for each need. Without a host, ACLs of single hosts are left out."""
    rights = _rights(acls)
    return [_verdict(rights, principal, host, need, known) for need in needs]


def _verdict(rights: Rights, principal: str, host: str | None, need: Need, known: Openness) -> AclVerdict:
    if known.super_users is not None and principal in known.super_users:
        return AclVerdict(need, True, None, f"{principal} is in super.users: ACLs do not apply")
    found = rights.decide(principal, host or _NO_HOST, need.operation, need.resource_type, need.name)
    if found.rule is not None:
        return AclVerdict(need, found.is_allowed, found.rule, f"by the ACL: {in_words(found.rule)}")
    if found.has_acls:
        return AclVerdict(need, False, None, "no ACL allows it, and others on this resource close it")
    if known.allow_if_no_acl is None:
        return AclVerdict(
            need, None, None, "the resource has no ACL: allowed if allow.everyone.if.no.acl.found=true"
        )
    state = "true" if known.allow_if_no_acl else "false"
    return AclVerdict(
        need,
        known.allow_if_no_acl,
        None,
        f"the resource has no ACL, and allow.everyone.if.no.acl.found={state}",
    )


def of_single_hosts(principal: str, acls: Iterable[Acl]) -> int:
    """How many ACLs about a principal hold for one host only."""
    about = (principal, f"{principal.partition(':')[0]}:{WILDCARD}")
    return sum(acl.entry.principal in about and acl.entry.host != WILDCARD for acl in acls)


def _rights(acls: Iterable[Acl]) -> Rights:
    by_pattern: dict[AclPattern, list[AclEntry]] = {}
    for acl in acls:
        by_pattern.setdefault(acl.pattern, []).append(acl.entry)
    rights = Rights()
    for pattern, entries in by_pattern.items():
        rights.replace(pattern, entries)
    return rights
