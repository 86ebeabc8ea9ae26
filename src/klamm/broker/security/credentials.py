"""Credentials of SCRAM users: what a login is checked against. Passwords are not kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What RFC 5802 keeps of one password. The keys are left out where it is printed."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class ScramCredentials(Protocol):
    """The SCRAM users of a cluster, as they are now."""

    def find(self, user: str, mechanism: str, /) -> ScramCredential | None:
        """The credential of a user for "SCRAM-SHA-256" or "SCRAM-SHA-512"; None if there is none."""
        ...
