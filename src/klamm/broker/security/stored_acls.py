"""ACLs in the cluster store: one configuration per resource pattern, with an entry for each ACL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.access.acls import AclEntry, AclOperation, AclPattern, PatternType, PermissionType, ResourceType
from klamm.access.rights import Rights
from klamm.storage.cluster import ConfigResourceType

if TYPE_CHECKING:
    from klamm.broker.cluster.image import ClusterImage
    from klamm.storage.cluster import ClusterChanges

STORED_AS = ConfigResourceType.ACL
_MANY: Final = 100


def pattern_key(pattern: AclPattern) -> str:
    """The name of a pattern's configuration. JSON escapes what a database does not take."""
    return json.dumps([int(pattern.resource_type), int(pattern.pattern_type), pattern.name])


def pattern_of(key: str) -> AclPattern:
    resource_type, pattern_type, name = json.loads(key)
    return AclPattern(ResourceType(resource_type), PatternType(pattern_type), name)


def entry_key(entry: AclEntry) -> str:
    return json.dumps([entry.principal, entry.host, int(entry.operation), int(entry.permission)])


def entry_of(key: str) -> AclEntry:
    principal, host, operation, permission = json.loads(key)
    return AclEntry(principal, host, AclOperation(operation), PermissionType(permission))


class AclFollower:
    """Keeps rights as the ACLs of the cluster are: whichever broker changes one, this one decides by it."""

    def __init__(self, image: ClusterImage, rights: Rights, on_change: Callable[[], None]) -> None:
        self._rights = rights
        self._on_change = on_change
        self._decoded: dict[AclPattern, dict[str, AclEntry]] = {}  # of patterns with many entries
        self._replace(
            {(STORED_AS, name): image.configs(STORED_AS, name) for name in image.configured(STORED_AS)}
        )

    def __call__(self, changes: ClusterChanges) -> None:
        """The image has applied changes."""
        if changes.is_complete:
            self._rights.clear()
            self._decoded.clear()
        elif all(resource_type is not STORED_AS for resource_type, _ in changes.configs):
            return
        self._replace(changes.configs)
        self._on_change()

    def _replace(self, configs: Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]) -> None:
        for (resource_type, name), stored in configs.items():
            if resource_type is STORED_AS:
                pattern = pattern_of(name)
                self._rights.replace(pattern, self._entries(pattern, stored))

    def _entries(self, pattern: AclPattern, stored: Iterable[str]) -> Sequence[AclEntry]:
        """The entries of a pattern; one more does not have all of them read again."""
        known = self._decoded.pop(pattern, {})
        entries = {key: known.get(key) or entry_of(key) for key in stored}
        if len(entries) >= _MANY:
            self._decoded[pattern] = entries
        return list(entries.values())
