"""Messages in a few words, for the story of a failure."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass

_LONGEST = 24


def brief(value: object) -> str:
    """A value without what its type says anyway: fields at their defaults, and the insides of bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>" if len(value) > 16 else bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(brief, value)) + "]"
    if not is_dataclass(value) or isinstance(value, type):
        return str(value)
    shown = []
    for field in fields(value):
        content = getattr(value, field.name)
        if field.default is MISSING or content != field.default:
            name = field.name if len(field.name) < _LONGEST else field.name[:_LONGEST]
            shown.append(f"{name}={brief(content)}")
    return f"{type(value).__name__}({', '.join(shown)})"
