"""What becomes of the settings of another library: served, refused with advice, or without meaning here.

No setting is dropped in silence. One that klamm's client does not have is refused when the client is made,
with what to write instead; one that changes nothing that a program can see (sizes of socket buffers) is
accepted, and logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from klamm.client.config import ADMIN, CONSUMER, PRODUCER
from klamm.config import ConfigError, Definition

log = logging.getLogger(__name__)

NOT_OF_SECURITY: Final = (
    "klamm's client does not have it: its settings of TLS and SASL are in docs/security.md"
)


class ClientKind(Enum):
    """Which client a setting is given to."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


DEFINITIONS: Final[Mapping[ClientKind, Definition]] = {
    ClientKind.CONSUMER: CONSUMER,
    ClientKind.PRODUCER: PRODUCER,
    ClientKind.ADMIN: ADMIN,
}


class Fate(Enum):
    """What becomes of a setting."""

    SERVED = "served"
    REFUSED = "refused"
    WITHOUT_MEANING = "without meaning here"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One library's settings. A name in none of the tables has klamm's name and is passed on."""

    library: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[ClientKind, frozenset[str]]  # those that the compat classes translate or use themselves
    refused: Mapping[str, str] = field(default_factory=dict)  # what to write instead
    refused_prefixes: Mapping[str, str] = field(default_factory=dict)
    without_meaning: Mapping[str, str] = field(default_factory=dict)  # why
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of refused ones: it asks for nothing

    def fate(self, name: str, kind: ClientKind) -> Fate:
        """What becomes of a setting that is given to a client of this kind."""
        own_name = self.renamed.get(name, name)
        definition = DEFINITIONS[kind]
        if name in self.own[kind]:
            return Fate.SERVED
        if name in self.without_meaning:
            return Fate.WITHOUT_MEANING
        if name in self.refused:
            return Fate.REFUSED
        if own_name in definition or own_name.replace("_", ".") in definition:
            return Fate.SERVED
        return Fate.UNKNOWN if self._advice(name) is None else Fate.REFUSED

    def names(self, name: str) -> bool:
        """Whether the tables have this name as it is written."""
        is_own = any(name in names for names in self.own.values())
        return is_own or name in self.without_meaning or self._advice(name) is not None

    def _advice(self, name: str) -> str | None:
        if name in self.refused:
            return self.refused[name]
        return next((text for start, text in self.refused_prefixes.items() if name.startswith(start)), None)

    def applied(self, given: Mapping[str, Any], kind: ClientKind) -> dict[str, Any]:
        """What klamm's client takes, under its names; those of `own` are among it, under theirs or renamed.

        A name that nobody knows is left for klamm's client to report.
        """
        settings: dict[str, Any] = {}
        for name, value in given.items():
            fate = self.fate(name, kind)
            if fate is Fate.REFUSED:
                self._check_refused(name, value)
            elif fate is Fate.WITHOUT_MEANING:
                self._note(name, self.without_meaning[name])
            elif fate is Fate.UNKNOWN and any(self.fate(name, other) is Fate.SERVED for other in ClientKind):
                self._note(name, f"a {kind.value} has no use for it")
            else:
                settings[self.renamed.get(name, name)] = value
        return settings

    def _check_refused(self, name: str, value: Any) -> None:
        if value is None or (name in self.defaults and _same(value, self.defaults[name])):
            return
        raise ConfigError(name, f"{name}={value!r} is not supported: {self._advice(name)}")

    def _note(self, name: str, why: str) -> None:
        log.info("the setting %s of %s has no effect: %s", name, self.library, why)


def _same(value: Any, default: Any) -> bool:
    return bool(value == default) or str(value).lower() == str(default).lower()


def with_ports(servers: str | list[str]) -> list[str]:
    """Bootstrap servers, 9092 where no port is given."""
    each = servers.split(",") if isinstance(servers, str) else [str(item) for item in servers]
    return [item if ":" in item else f"{item}:9092" for item in (part.strip() for part in each) if item]
