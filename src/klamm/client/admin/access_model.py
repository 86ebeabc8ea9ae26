"""Arguments and results of the operations on users and quotas."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ScramMechanism(StrEnum):
    """How SCRAM users log in; the words can be used in place of the members."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


DEFAULT_ENTITY: Final = ""  # no user, client id or address has this name


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Those who share a quota, by user, client id, both, or address; "" means all without their own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        parts = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        named = (f"{kind} {name or '(default)'}" for kind, name in parts if name is not None)
        return ", ".join(named) or "(nothing)"
