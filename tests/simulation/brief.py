"""Messages in a few words, for the story of a failure."""

from __future__ import annotations

from klamm.protocol.message import Message

_LONGEST = 24


def brief(value: object) -> str:
    """A value without what its type says anyway: fields at their defaults, and the insides of bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>" if len(value) > 16 else bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(brief, value)) + "]"
    if not isinstance(value, Message):
        return str(value)
    shown = []
    defaults = value.defaults()
    for name, content in value.values().items():
        if content != defaults[name]:
            shown.append(f"{name[:_LONGEST]}={brief(content)}")
    return f"{type(value).__name__}({', '.join(shown)})"
