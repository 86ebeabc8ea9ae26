"""What a registry keeps: schemas under subjects, and the errors it answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
AVRO: Final[SchemaType] = "AVRO"
LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT_LEVEL: Final = "BACKWARD"
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
DEFAULT_MODE: Final = "READWRITE"
MAX_VERSION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema uses, by the name under which it does."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """The text of a schema in its canonical form, with what it needs to be understood."""

    schema_type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema as one version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: Schema
    deleted: bool = False


class RegistryError(Exception):
    """What a client is told: a code whose first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


def no_subject(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(schema_id: int | None = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {message}")
