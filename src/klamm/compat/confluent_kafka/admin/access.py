"""confluent-kafka's classes for ACLs and SCRAM credentials. klamm's admin does not change these yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from klamm.compat.confluent_kafka.admin.resources import ResourceType


class ResourcePatternType(Enum):
    """How the name of a resource is matched."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(Enum):
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


class AclPermissionType(Enum):
    """Whether it may."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True)
class AclBindingFilter:
    """Which ACLs are meant."""

    restype: ResourceType
    name: str | None
    resource_pattern_type: ResourcePatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: AclPermissionType


@dataclass(frozen=True)
class AclBinding(AclBindingFilter):
    """An ACL."""


class ScramMechanism(Enum):
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
