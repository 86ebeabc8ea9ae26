"""What a set of access control lists allows, by the rules of Kafka's StandardAuthorizer."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from klamm.access.acls import (
    ANYBODY,
    IMPLIED_BY,
    WILDCARD,
    Acl,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPattern,
    PatternType,
    PermissionType,
    ResourceType,
)


class AclDecision(NamedTuple):
    """Whether an operation is allowed, and the ACL that decided; None where none of them did."""

    is_allowed: bool
    rule: Acl | None
    has_acls: bool  # of any principal on the resource; without one it is not closed


class _Entries:
    """The ACLs of one pattern, by principal: one with many principals is not searched as a whole."""

    __slots__ = ("by_principal", "pattern")

    def __init__(self, pattern: AclPattern, entries: Iterable[AclEntry]) -> None:
        self.pattern = pattern
        self.by_principal: dict[str, list[AclEntry]] = {}
        for entry in entries:
            self.by_principal.setdefault(entry.principal, []).append(entry)


class Rights:
    """Access control lists, found by the name of a resource."""

    def __init__(self) -> None:
        self._patterns: dict[AclPattern, _Entries] = {}
        # How long the names of prefixed patterns are, by type: a name has few prefixes that are that long.
        self._lengths: dict[ResourceType, list[int]] = {}
        self._counts: dict[tuple[ResourceType, int], int] = {}
        self._of_principal: dict[str, set[AclPattern]] = {}

    def clear(self) -> None:
        self._patterns.clear()
        self._of_principal.clear()
        self._lengths.clear()
        self._counts.clear()

    def replace(self, pattern: AclPattern, entries: Sequence[AclEntry]) -> None:
        """These are the ACLs of a pattern from now on."""
        before = self._patterns.pop(pattern, None)
        was_there = before is not None
        after = _Entries(pattern, entries)
        if entries:
            self._patterns[pattern] = after
        known = before.by_principal.keys() if before is not None else set()
        for principal in known - after.by_principal.keys():
            patterns = self._of_principal[principal]
            patterns.remove(pattern)
            if not patterns:
                del self._of_principal[principal]
        for principal in after.by_principal.keys() - known:
            self._of_principal.setdefault(principal, set()).add(pattern)
        if pattern.pattern_type is PatternType.PREFIXED and was_there != bool(entries):
            self._count_length(pattern, 1 if entries else -1)

    def _count_length(self, pattern: AclPattern, change: int) -> None:
        key = (pattern.resource_type, len(pattern.name))
        lengths = self._lengths.setdefault(pattern.resource_type, [])
        before = self._counts.get(key, 0)
        self._counts[key] = before + change
        if not before:
            insort(lengths, key[1])
        elif not before + change:
            lengths.remove(key[1])

    def decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        """Whether a principal may do this from a host: a DENY decides, then an ALLOW."""
        allowing: Acl | None = None
        has_acls = False
        sufficient = IMPLIED_BY[operation]
        for entries in self._covering(resource_type, name):
            has_acls = True
            for entry in _of(entries, principal, host):
                if entry.permission is PermissionType.DENY:
                    if entry.operation in (operation, AclOperation.ALL):
                        return AclDecision(False, Acl(entries.pattern, entry), True)
                elif allowing is None and entry.operation in sufficient:
                    allowing = Acl(entries.pattern, entry)
        return AclDecision(allowing is not None, allowing, has_acls)

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be any resource of a type on which a principal may do this."""
        allowed: list[AclPattern] = []
        denied: set[AclPattern] = set()
        about = (self._of_principal.get(who, set()) for who in (principal, ANYBODY))
        for pattern in set[AclPattern]().union(*about):
            if pattern.resource_type is not resource_type:
                continue
            for entry in _of(self._patterns[pattern], principal, host):
                if entry.operation not in (operation, AclOperation.ALL):
                    continue
                if entry.permission is PermissionType.ALLOW:
                    allowed.append(pattern)
                elif pattern.pattern_type is PatternType.LITERAL and pattern.name == WILDCARD:
                    return False
                else:
                    denied.add(pattern)
        return any(not _is_denied(pattern, denied) for pattern in allowed)

    def find(self, wanted: AclFilter) -> Mapping[AclPattern, Sequence[AclEntry]]:
        """The ACLs that a filter selects."""
        found: dict[AclPattern, Sequence[AclEntry]] = {}
        for pattern in self._patterns if wanted.name is None else self._named(wanted.name):
            entries = self._patterns.get(pattern)
            if entries is None or not wanted.selects(pattern):
                continue
            selected = [
                entry
                for some in entries.by_principal.values()
                for entry in some
                if wanted.selects_entry(entry)
            ]
            if selected:
                found[pattern] = selected
        return found

    def _named(self, name: str) -> Iterator[AclPattern]:
        """The patterns, whether they are there or not, that a filter with this name can select."""
        for resource_type in ResourceType:
            for literal in (name, WILDCARD) if name != WILDCARD else (name,):
                yield AclPattern(resource_type, PatternType.LITERAL, literal)
            for length in self._lengths.get(resource_type, ()):
                if length <= len(name):
                    yield AclPattern(resource_type, PatternType.PREFIXED, name[:length])

    def _covering(self, resource_type: ResourceType, name: str) -> Iterator[_Entries]:
        patterns = self._patterns
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            entries = patterns.get(AclPattern(resource_type, PatternType.LITERAL, literal))
            if entries is not None:
                yield entries
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                break
            entries = patterns.get(AclPattern(resource_type, PatternType.PREFIXED, name[:length]))
            if entries is not None:
                yield entries


def _of(entries: _Entries, principal: str, host: str) -> Iterator[AclEntry]:
    """The entries that are about a principal at a host."""
    for who in (principal, ANYBODY):
        for entry in entries.by_principal.get(who, ()):
            if entry.host in (WILDCARD, host):
                yield entry


def _is_denied(allowed: AclPattern, denied: set[AclPattern]) -> bool:
    """Whether everything that a pattern allows is denied by another."""
    if allowed.pattern_type is PatternType.LITERAL and allowed.name == WILDCARD:
        return False  # what denies a part leaves the rest
    if allowed in denied:
        return True
    prefixes = (allowed.name[:end] for end in range(len(allowed.name) + 1))
    return any(
        AclPattern(allowed.resource_type, PatternType.PREFIXED, prefix) in denied for prefix in prefixes
    )
