"""confluent-kafka's classes for ACLs and SCRAM credentials."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import total_ordering
from typing import Any, ClassVar, TypeVar

from klamm.compat.confluent_kafka.admin.resources import ResourceType


class _Ordered(Enum):
    """Members that can be sorted, as theirs can."""

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, type(self)) else NotImplemented


class ResourcePatternType(_Ordered):
    """How the name of a resource is matched."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Ordered):
    """What a principal may do."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclPermissionType(_Ordered):
    """Whether it may."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


E = TypeVar("E", bound=Enum)


@total_ordering
class AclBinding:
    """An ACL."""

    _may_be_none = False
    _forbidden: ClassVar[frozenset[str]] = frozenset({"ANY", "MATCH"})

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str | None,
        resource_pattern_type: ResourcePatternType | str | int,
        principal: str | None,
        host: str | None,
        operation: AclOperation | str | int,
        permission_type: AclPermissionType | str | int,
    ) -> None:
        self.name = self._text("name", name)
        self.principal = self._text("principal", principal)
        self.host = self._text("host", host)
        self.restype = self._member("restype", ResourceType, restype)
        self.resource_pattern_type = self._member(
            "resource_pattern_type", ResourcePatternType, resource_pattern_type
        )
        self.operation = self._member("operation", AclOperation, operation)
        self.permission_type = self._member("permission_type", AclPermissionType, permission_type)

    def _text(self, field: str, value: Any) -> Any:
        if value is None and not self._may_be_none:
            raise ValueError(f"Expected {field} to be not None")
        if value is not None and not isinstance(value, str):
            raise TypeError(f"Expected {field} to be a string")
        return value

    def _member(self, field: str, kind: type[E], value: Any) -> E:
        if value is None:
            raise ValueError(f"Expected {field} to be not None")
        member = _member_of(kind, value)
        if member.name in self._forbidden:
            raise ValueError(f"Cannot use enum {field}, value {member.name} in this class")
        return member

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.restype,
            self.name,
            self.resource_pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, AclBinding) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._fields() < other._fields() if isinstance(other, AclBinding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        fields = (
            f"{type(item).__name__}.{item.name}" if isinstance(item, Enum) else str(item)
            for item in self._fields()
        )
        return f"{type(self).__name__}({','.join(fields)})"


class AclBindingFilter(AclBinding):
    """Which ACLs are meant: None and ANY are all."""

    _may_be_none = True
    _forbidden: ClassVar[frozenset[str]] = frozenset({"UNKNOWN"})


class ScramMechanism(_Ordered):
    """A mechanism of SASL/SCRAM."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


@dataclass(frozen=True)
class ScramCredentialInfo:
    """A credential without its secret."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True)
class UserScramCredentialsDescription:
    """The credentials of a user."""

    user: str
    scram_credential_infos: list[ScramCredentialInfo]


@dataclass(frozen=True)
class UserScramCredentialAlteration:
    """A change of a user's credential."""

    user: str


@dataclass(frozen=True)
class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """Set a credential."""

    scram_credential_info: ScramCredentialInfo
    password: bytes
    salt: bytes | None = None


@dataclass(frozen=True)
class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """Delete a credential."""

    mechanism: ScramMechanism


def _member_of(kind: type[E], value: Any) -> E:
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        found = kind.__members__.get(value.upper())
        if found is None:
            raise ValueError(f'Unknown value "{value}": should be a {kind.__name__}')
        return found
    if isinstance(value, int) and not isinstance(value, Enum):
        return kind(value)
    raise TypeError(f'Unknown value "{value}": should be a {kind.__name__}')
