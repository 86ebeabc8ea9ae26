"""What the registry decides: each request becomes an answer and the records that make it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from klamm.registry.compatibility import violations
from klamm.registry.formats import format_of
from klamm.registry.formats.base import ParsedSchema, SchemaError
from klamm.registry.model import (
    LEVELS,
    MAX_VERSION,
    MODES,
    RegistryError,
    Schema,
    SchemaVersion,
    invalid_schema,
    no_schema,
    no_subject,
    no_version,
)
from klamm.registry.records import (
    LevelSet,
    ModeSet,
    RegistryRecord,
    SchemaForgotten,
    SchemaStored,
    SubjectDeleted,
)
from klamm.registry.state import RegistryState

MAX_REFERENCES: Final = 1000  # of one schema, those of its references included


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer, and the records that must be in the log before it is given."""

    answer: Any
    records: tuple[RegistryRecord, ...] = ()


class Registry:
    """Decides on the state. It changes nothing: the records of a decision do, when they are replayed."""

    def __init__(self, state: RegistryState) -> None:
        self.state = state
        self._parsed: dict[Schema, ParsedSchema] = {}

    # Schemas

    def register(self, subject: str, given: Schema, schema_id: int | None, version: int | None) -> Decided:
        """A new version of a subject, unless it has this schema already."""
        schema = self._canonical(given)
        held = self.state.versions(subject)
        mode = self.state.mode(subject)
        for each in held:
            if each.schema == schema and schema_id in (None, each.schema_id):
                return Decided(each)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryError(42205, f"Subject {subject} is in read-only mode")
        if schema_id is not None and mode != "IMPORT":
            raise RegistryError(42205, f"Subject {subject} is not in import mode: it takes no schema ids")
        if mode != "IMPORT":
            self._check(subject, schema, held)
        last = max((each.version for each in self.state.versions(subject, deleted=True)), default=0)
        made = SchemaVersion(subject, version or last + 1, self._id_for(schema, schema_id), schema)
        return Decided(made, (SchemaStored(made),))

    def _id_for(self, schema: Schema, wanted: int | None) -> int:
        if wanted is None:
            return self.state.ids.get(schema) or self.state.last_id + 1
        if self.state.schemas.get(wanted, schema) != schema:
            raise RegistryError(42205, f"Overwrite new schema with id {wanted} is not permitted.")
        return wanted

    def _check(self, subject: str, schema: Schema, held: Sequence[SchemaVersion]) -> None:
        found = self._violations(schema, held, self.state.level(subject))
        if found:
            raise RegistryError(
                409,
                f"Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{", ".join(found)}]',
            )

    def _violations(self, schema: Schema, held: Sequence[SchemaVersion], level: str) -> list[str]:
        if level != "NONE" and held and held[-1].schema.schema_type != schema.schema_type:
            return [f"the schema is {schema.schema_type}, earlier ones {held[-1].schema.schema_type}"]
        earlier = [
            (each.version, self._understood(each.schema))
            for each in held
            if each.schema.schema_type == schema.schema_type
        ]
        try:
            return violations(self._understood(schema), earlier, level)
        except SchemaError as error:
            raise invalid_schema(str(error)) from error
        except RecursionError:
            raise invalid_schema("the schema is nested too deeply") from None

    def find(self, subject: str, given: Schema, *, deleted: bool) -> SchemaVersion:
        """The version of a subject that has this schema."""
        if not self.state.versions(subject, deleted=deleted):
            raise no_subject(subject)
        schema = self._canonical(given)
        for each in reversed(self.state.versions(subject, deleted=deleted)):
            if each.schema == schema:
                return each
        raise no_schema()

    def compatible(self, subject: str, given: Schema, version: str | None) -> list[str]:
        """Why a schema cannot follow a version, or what the level of the subject compares with."""
        schema = self._canonical(given)
        level = self.state.level(subject)
        if version is None:
            return self._violations(schema, self.state.versions(subject), level)
        return self._violations(schema, [self.version(subject, version, deleted=False)], level)

    def schema(self, schema_id: int) -> Schema:
        """The schema of an id."""
        found = self.state.schemas.get(schema_id)
        if found is None:
            raise no_schema(schema_id)
        return found

    def in_form(self, schema: Schema, form: str) -> Schema:
        """A schema in the form that a client asks for; "" is the canonical one."""
        if form == "":
            return schema
        if form == "serialized":
            return replace(schema, text=self._understood(schema).serialized)
        raise RegistryError(422, f"format={form} is not supported: leave it out, or write serialized")

    def versions(self, subject: str, *, deleted: bool) -> list[SchemaVersion]:
        """The versions of a subject, ascending."""
        found = self.state.versions(subject, deleted=deleted)
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, stated: str, *, deleted: bool) -> SchemaVersion:
        """One version of a subject, by its number or as `latest`."""
        number = parse_version(stated)
        found = self.versions(subject, deleted=deleted)
        if number == -1:
            return found[-1]
        for each in found:
            if each.version == number:
                return each
        raise no_version(number)

    # Deletion

    def delete_subject(self, subject: str, *, permanent: bool) -> Decided:
        """Delete all versions; for good only what was deleted before."""
        self._writable(subject)
        every = self.versions(subject, deleted=True)
        live = [each for each in every if not each.deleted]
        if permanent:
            if live:
                raise RegistryError(
                    40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
                )
            numbers = tuple(each.version for each in every)
            return Decided(
                list(numbers),
                (
                    *(SchemaForgotten(subject, number) for number in numbers),
                    SubjectDeleted(subject, None),
                    *self._settings_of(subject),
                ),
            )
        if not live:
            raise RegistryError(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        for each in live:
            self._unreferenced(each)
        records: list[RegistryRecord] = [SubjectDeleted(subject, live[-1].version)]
        return Decided([each.version for each in live], (*records, *self._settings_of(subject)))

    def _settings_of(self, subject: str) -> list[RegistryRecord]:
        records: list[RegistryRecord] = []
        if subject in self.state.levels:
            records.append(LevelSet(subject, None))
        if subject in self.state.modes:
            records.append(ModeSet(subject, None))
        return records

    def delete_version(self, subject: str, stated: str, *, permanent: bool) -> Decided:
        """Delete one version; for good only one that was deleted before."""
        self._writable(subject)
        found = self.version(subject, stated, deleted=True)
        name = f"Subject '{subject}' Version {found.version}"
        if permanent:
            if not found.deleted:
                raise RegistryError(40407, f"{name} was not deleted first before being permanently deleted")
            return Decided(found.version, (SchemaForgotten(subject, found.version),))
        if found.deleted:
            raise RegistryError(40406, f"{name} was soft deleted. Set permanent=true to delete permanently")
        self._unreferenced(found)
        return Decided(found.version, (SchemaStored(replace(found, deleted=True)),))

    def _unreferenced(self, version: SchemaVersion) -> None:
        users = self.state.referenced_by(version.subject, version.version)
        if users:
            raise RegistryError(
                42206,
                f"One or more references exist to the schema {{subject={version.subject},"
                f"version={version.version}}}: schema ids {users}",
            )

    def _writable(self, subject: str) -> None:
        if self.state.mode(subject) in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryError(42205, f"Subject {subject} is in read-only mode")

    # Levels and modes

    def set_level(self, subject: str | None, level: str) -> Decided:
        """The compatibility level of a subject, or of all."""
        if level.upper() not in LEVELS:
            raise RegistryError(
                42203, f"Invalid compatibility level {level!r}. Valid values are {', '.join(LEVELS)}"
            )
        return Decided({"compatibility": level.upper()}, (LevelSet(subject, level.upper()),))

    def level(self, subject: str, *, or_default: bool) -> str:
        """The level that a subject has itself; or, if it has none, the one that holds."""
        own = self.state.levels.get(subject)
        if own is not None or or_default:
            return own or self.state.level(subject)
        raise RegistryError(
            40408, f"Subject '{subject}' does not have subject-level compatibility configured"
        )

    def remove_level(self, subject: str | None) -> Decided:
        """Back to the level of all subjects, or to Confluent's default."""
        former = self.state.level(subject) if subject is None else self.level(subject, or_default=False)
        return Decided({"compatibilityLevel": former}, (LevelSet(subject, None),))

    def set_mode(self, subject: str | None, mode: str, *, force: bool) -> Decided:
        """What may be done with a subject, or with all."""
        if mode.upper() not in MODES:
            raise RegistryError(42204, f"Invalid mode {mode!r}. Valid values are {', '.join(MODES)}")
        if mode.upper() == "IMPORT" and not force and self._has_schemas(subject):
            raise RegistryError(
                42205,
                f"Cannot import since found existing subjects{'' if subject is None else f': {subject}'}",
            )
        return Decided({"mode": mode.upper()}, (ModeSet(subject, mode.upper()),))

    def _has_schemas(self, subject: str | None) -> bool:
        if subject is None:
            return any(self.state.versions(each) for each in self.state.subjects)
        return bool(self.state.versions(subject))

    def mode(self, subject: str, *, or_default: bool) -> str:
        """The mode that a subject has itself; or, if it has none, the one that holds."""
        own = self.state.modes.get(subject)
        if own is not None or or_default:
            return own or self.state.mode(subject)
        raise RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")

    def remove_mode(self, subject: str | None) -> Decided:
        """Back to the mode of all subjects, or to the default."""
        former = self.state.mode(None) if subject is None else self.mode(subject, or_default=False)
        return Decided({"mode": former}, (ModeSet(subject, None),))

    # Texts

    def _canonical(self, given: Schema) -> Schema:
        """A schema that a client sent, understood and in canonical form."""
        parsed = self._parse(given)
        schema = replace(given, text=parsed.text)
        self._parsed[schema] = parsed
        return schema

    def _understood(self, schema: Schema) -> ParsedSchema:
        parsed = self._parsed.get(schema)
        if parsed is None:
            parsed = self._parsed[schema] = self._parse(schema)
        return parsed

    def _parse(self, schema: Schema) -> ParsedSchema:
        try:
            return format_of(schema.schema_type).parse(schema.text, self._referenced(schema))
        except SchemaError as error:
            raise invalid_schema(str(error)) from error

    def _referenced(self, schema: Schema) -> Mapping[str, str]:
        """The texts that a schema uses, directly or not, each after those that it needs."""
        found: dict[str, str] = {}
        seen = 0

        def visit(each: Schema) -> None:
            nonlocal seen
            for reference in each.references:
                seen += 1
                if seen > MAX_REFERENCES:
                    raise invalid_schema(f"more than {MAX_REFERENCES} references")
                if reference.name in found:
                    continue
                held = self.state.subjects.get(reference.subject, {}).get(reference.version)
                if held is None:
                    raise invalid_schema(
                        f"reference {reference.name}: subject {reference.subject} has no version "
                        f"{reference.version}"
                    )
                visit(held.schema)
                found[reference.name] = held.schema.text

        visit(schema)
        return found


def parse_version(stated: str) -> int:
    """The number of a version; -1 for the latest."""
    if stated in ("latest", "-1"):
        return -1
    if stated.isascii() and stated.isdigit() and len(stated) <= 10 and 1 <= int(stated) <= MAX_VERSION:
        return int(stated)
    raise RegistryError(
        42202,
        f"The specified version '{stated}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )
