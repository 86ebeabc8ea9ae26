"""The metadata that a client may commit beside an offset."""

from __future__ import annotations


def is_too_long(text: str, max_units: int) -> bool:
    """By the length that Java sees: the limit counts UTF-16 units, not characters and not bytes."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    return units > max_units
