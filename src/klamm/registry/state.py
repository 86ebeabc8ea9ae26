"""What the records of `_schemas` add up to. It changes when a record is replayed, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from klamm.registry.model import DEFAULT_LEVEL, DEFAULT_MODE, Schema, SchemaVersion
from klamm.registry.records import (
    LevelSet,
    ModeSet,
    RegistryRecord,
    SchemaForgotten,
    SchemaStored,
    SubjectDeleted,
)


@dataclass(slots=True)
class RegistryState:
    """Subjects with their versions, schemas by id, levels and modes."""

    subjects: dict[str, dict[int, SchemaVersion]] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)  # of versions that are deleted for good, too
    ids: dict[Schema, int] = field(default_factory=dict)
    levels: dict[str | None, str] = field(default_factory=dict)  # None: of all subjects
    modes: dict[str | None, str] = field(default_factory=dict)
    last_id: int = 0

    def replay(self, record: RegistryRecord) -> None:
        """Apply one record."""
        match record:
            case SchemaStored(version):
                self.subjects.setdefault(version.subject, {})[version.version] = version
                self.schemas[version.schema_id] = version.schema
                self.ids.setdefault(version.schema, version.schema_id)
                self.last_id = max(self.last_id, version.schema_id)
            case SchemaForgotten(subject, number):
                versions = self.subjects.get(subject, {})
                versions.pop(number, None)
                if not versions:
                    self.subjects.pop(subject, None)
            case LevelSet(subject, level):
                _put(self.levels, subject, level)
            case ModeSet(subject, mode):
                _put(self.modes, subject, mode)
            case SubjectDeleted(subject, last_version):
                versions = self.subjects.get(subject, {})
                for number, each in versions.items():
                    if last_version is not None and number <= last_version:
                        versions[number] = replace(each, deleted=True)
            case _:
                assert_never(record)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of a subject, ascending; none for a subject that is not there."""
        held = self.subjects.get(subject, {})
        return [held[number] for number in sorted(held) if deleted or not held[number].deleted]

    def all_versions(self, *, deleted: bool = False) -> Iterator[SchemaVersion]:
        """Every version of every subject."""
        for subject in sorted(self.subjects):
            yield from self.versions(subject, deleted=deleted)

    def of_id(self, schema_id: int, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of all subjects that have the schema of this id."""
        return [each for each in self.all_versions(deleted=deleted) if each.schema_id == schema_id]

    def level(self, subject: str | None) -> str:
        """The level that holds for a subject."""
        return self.levels.get(subject) or self.levels.get(None, DEFAULT_LEVEL)

    def mode(self, subject: str | None) -> str:
        """The mode that holds for a subject."""
        return self.modes.get(subject) or self.modes.get(None, DEFAULT_MODE)

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """The ids of the schemas that use this version."""
        return sorted(
            {
                each.schema_id
                for each in self.all_versions()
                for reference in each.schema.references
                if (reference.subject, reference.version) == (subject, version)
            }
        )


def _put(held: dict[str | None, str], key: str | None, value: str | None) -> None:
    if value is None:
        held.pop(key, None)
    else:
        held[key] = value
