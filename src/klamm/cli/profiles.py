"""Clusters under a name: `klamm --profile prod ...` takes address and client settings from a file.

[prod]
bootstrap = "kafka-1:9092,kafka-2:9092"
"client.id" = "ops"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


class ProfileError(Exception):
    """The profile cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One cluster: its address, and settings for every client that talks to it."""

    bootstrap: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # with passwords


def profiles_file(environ: Mapping[str, str]) -> Path:
    """`$KLAMM_PROFILES`, else `klamm/profiles.toml` in the user's configuration folder."""
    named = environ.get("KLAMM_PROFILES")
    if named:
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "klamm" / "profiles.toml"


def load_profile(name: str, file: Path) -> Profile:
    """The profile of that name. Raises ProfileError."""
    try:
        profiles = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(
            f"cannot read profile {name}: {file}: {error.strerror}; give it a section [{name}] with bootstrap"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"invalid profiles file {file}: {error}") from error
    table = profiles.get(name)
    if not isinstance(table, dict):
        known = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"unknown profile {name}: {file} has {known}")
    values: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict | list):
            raise ProfileError(
                f'invalid value for {key} in profile {name}: quote dotted names, as in "client.id"'
            )
        values[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return Profile(values.pop("bootstrap", None), values)


_chosen: ContextVar[Profile] = ContextVar("profile", default=Profile())  # noqa: B039 - it is frozen


def choose(profile: Profile) -> None:
    """Let every client that this command makes have the profile's settings."""
    _chosen.set(profile)


def profile_settings() -> Mapping[str, str]:
    """The client settings of the profile that the running command was given."""
    return _chosen.get().settings
