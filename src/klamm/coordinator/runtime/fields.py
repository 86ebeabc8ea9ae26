"""Objects that are equal if all their fields are, as dataclasses are, and that can be compiled."""

from __future__ import annotations

from typing import Any


class Fields:
    """The base of classes whose fields are their slots. They change, so they have no hash."""

    __slots__ = ()

    def fields(self) -> dict[str, Any]:
        """All fields with their values."""
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fields) or type(other) is not type(self):
            return NotImplemented
        return self.fields() == other.fields()

    __hash__ = None  # type: ignore[assignment]  # how Python spells it

    def __repr__(self) -> str:
        content = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"{type(self).__name__}({content})"
