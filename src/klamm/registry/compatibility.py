"""Which earlier versions a new schema is compared with, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.registry.formats.base import ParsedSchema


def violations(new: ParsedSchema, earlier: Sequence[tuple[int, ParsedSchema]], level: str) -> list[str]:
    """Why a schema does not keep a level; `earlier` has the versions that are not deleted, ascending."""
    if level == "NONE" or not earlier:
        return []
    compared = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    direction = level.removesuffix("_TRANSITIVE")
    found: list[str] = []
    for version, old in reversed(compared):
        if direction in ("BACKWARD", "FULL"):
            found += [f"{each} (the new schema reads version {version})" for each in new.unreadable(old)]
        if direction in ("FORWARD", "FULL"):
            found += [f"{each} (version {version} reads the new schema)" for each in old.unreadable(new)]
        if found:
            found.append(f"{{oldSchemaVersion: {version}, compatibility: '{level}'}}")
            break
    return found
